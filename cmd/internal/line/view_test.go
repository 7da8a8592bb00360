package line

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/verigraph/verigraph/cmd/internal/config"
	"github.com/verigraph/verigraph/dataset/feed"
	"github.com/verigraph/verigraph/viewer/viewertest"
)

func TestTheRewardServersPageIsShownOnLoopbackOrWithATokenOnly(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, viewertest.Grow("../../../viewer/testdata/run", dir, 4))
	t.Setenv("VIEW_TEST_TOKEN", "secret-secret-secret")
	for name, c := range map[string]struct {
		admin config.Admin
		shown bool
		code  int
	}{
		"no admin port":       {config.Admin{}, false, 0},
		"loopback":            {config.Admin{Listen: "127.0.0.1:0"}, true, http.StatusOK},
		"open, no token":      {config.Admin{Listen: "0.0.0.0:9091"}, false, 0},
		"open, with a token":  {config.Admin{Listen: "0.0.0.0:9091", Viewer: config.Viewer{TokenEnv: "VIEW_TEST_TOKEN"}}, true, http.StatusUnauthorized},
		"a name that is its":  {config.Admin{Listen: "127.0.0.1:0", Viewer: config.Viewer{Hosts: []string{"example.com"}}}, true, http.StatusOK},
		"a name that is none": {config.Admin{Listen: "127.0.0.1:0", Viewer: config.Viewer{Hosts: []string{"other.example"}}}, true, http.StatusMisdirectedRequest},
	} {
		cfg := config.Defaults()
		cfg.Admin, cfg.Reward.Archive = c.admin, dir
		s := &RewardServer{}
		require.NoError(t, s.openViewer(t.Context(), cfg, zap.NewNop()), name)
		page := s.Pages()["/view/"]
		require.Equal(t, c.shown, page != nil, name)
		if page == nil {
			continue
		}
		req := httptest.NewRequest(http.MethodGet, "/view/api/rollouts", nil)
		if c.code != http.StatusMisdirectedRequest && name != "a name that is its" {
			req.Host = "127.0.0.1"
		}
		w := httptest.NewRecorder()
		page.ServeHTTP(w, req)
		require.Equal(t, c.code, w.Code, name)
		require.NoError(t, s.shown.Close())
	}
	cfg := config.Defaults()
	cfg.Admin.Listen, cfg.Reward.Archive = "127.0.0.1:0", filepath.Join(dir, "nowhere")
	require.ErrorContains(t, (&RewardServer{}).openViewer(t.Context(), cfg, zap.NewNop()), "nowhere")
}

func TestAViewersStatusKeepsEveryCountOfTheFeeds(t *testing.T) {
	t.Parallel()
	st := feed.Status{
		Run: "r", Complete: true, Prompts: 1, Backlog: 2, Groups: 3, Unaccounted: 4, BatchesWritten: 5, BatchesAcknowledged: 6,
		Ledger:  feed.Ledger{Dispatched: 10, Delivered: 11, Filtered: 12, Stale: 13, Unscored: 14, Failed: 15, SetAside: 16, InFlight: 17},
		Reasons: map[string]int64{"x": 1}, Ages: map[int64]int64{2: 3}, Waiting: []feed.Waiting{{What: "w", Count: 4, Reason: "for"}},
	}
	v := ViewStatus(st, time.Unix(9, 0))
	require.Equal(t, []int64{10, 11, 12, 13, 14, 15, 16, 17}, []int64{
		v.Ledger.Dispatched, v.Ledger.Delivered, v.Ledger.Filtered, v.Ledger.Stale, v.Ledger.Unscored, v.Ledger.Failed, v.Ledger.SetAside, v.Ledger.InFlight,
	})
	require.Equal(t, []int64{1, 2, 3, 4, 5, 6}, []int64{v.Prompts, v.Backlog, v.Groups, v.Unaccounted, v.BatchesWritten, v.BatchesAcknowledged})
	require.Equal(t, int64(4), v.Waiting[0].Count)
	require.True(t, v.Complete)
}
