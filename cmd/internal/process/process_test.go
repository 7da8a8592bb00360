package process

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

type paged struct{}

func (paged) Run(context.Context) error { return nil }
func (paged) Close() error              { return nil }
func (paged) Pages() map[string]http.Handler {
	return map[string]http.Handler{"/view/": http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { fmt.Fprint(w, req.URL.Path) })}
}

func TestThePagesOfAPartStandBesideHealthAndMetrics(t *testing.T) {
	t.Parallel()
	var ready atomic.Bool
	mux := adminMux(&ready, paged{})
	for path, want := range map[string]int{"/view/": 200, "/view/api/run": 200, "/view": 307, "/healthz": 200, "/readyz": 503, "/metrics": 200, "/other": 404} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		require.Equal(t, want, w.Code, path)
	}
}

func TestAMessageThatRepeatsIsSampledAndNamesTheRollout(t *testing.T) { // not parallel: it stands in for standard error
	file := filepath.Join(t.TempDir(), "log")
	out, err := os.Create(file)
	require.NoError(t, err)
	defer out.Close()
	before := os.Stderr
	os.Stderr = out
	log, err := Program{Name: "rollout-worker"}.log()
	os.Stderr = before
	require.NoError(t, err)
	const written = 10_000
	for range written {
		log.Warn("rollout attempt lost", zap.String("rollout_id", "first/3-0/1"), zap.Int("attempt", 2))
	}
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	require.GreaterOrEqual(t, len(lines), 100)
	require.Less(t, len(lines), written/2)
	require.Contains(t, lines[0], `"logger":"rollout-worker"`)
	require.Contains(t, lines[0], `"rollout_id":"first/3-0/1","attempt":2`)
}
