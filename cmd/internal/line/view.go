package line

import (
	"context"
	"errors"
	"net/http"
	"os"
	"time"

	"go.uber.org/zap"

	"github.com/verigraph/verigraph/cmd/internal/config"
	"github.com/verigraph/verigraph/dataset/feed"
	"github.com/verigraph/verigraph/viewer"
)

// ViewStatus is a run's progress as the viewer shows it.
func ViewStatus(st feed.Status, now time.Time) viewer.Status {
	l := st.Ledger
	out := viewer.Status{
		Time: now.UTC(), Run: st.Run, Complete: st.Complete, Prompts: st.Prompts, Backlog: st.Backlog, Groups: st.Groups,
		Ledger: viewer.Ledger{
			Dispatched: l.Dispatched, Delivered: l.Delivered, Filtered: l.Filtered, Stale: l.Stale,
			Unscored: l.Unscored, Failed: l.Failed, SetAside: l.SetAside, InFlight: l.InFlight,
		},
		Unaccounted: st.Unaccounted, BatchesWritten: st.BatchesWritten, BatchesAcknowledged: st.BatchesAcknowledged,
		PolicyVersion: st.Policy.Version, PolicyPaused: st.Policy.Paused, DeliveredPerSecond: st.DeliveredPerSecond,
		UnscoredShare: st.UnscoredShare, Reasons: st.Reasons, Ages: st.Ages,
	}
	for _, w := range st.Waiting {
		out.Waiting = append(out.Waiting, viewer.Waiting{What: w.What, Count: w.Count, Reason: w.Reason})
	}
	return out
}

// openViewer prepares the page of the archive, unless the admin port is open to others and no token is set.
func (s *RewardServer) openViewer(ctx context.Context, cfg config.Config, log *zap.Logger) (err error) {
	if cfg.Admin.Listen == "" {
		return nil
	}
	g := viewer.Guard{Token: viewer.Token(os.Getenv(cfg.Admin.Viewer.TokenEnv)), Hosts: cfg.Admin.Viewer.Hosts}
	if err := g.Listen(cfg.Admin.Listen); errors.Is(err, viewer.ErrOpen) {
		log.Info("no viewer", zap.String("why", "admin.listen is no loopback address and admin.viewer.token_env is not set"))
		return nil
	} else if err != nil {
		return err
	}
	if s.shown, err = viewer.Open(cfg.Reward.Archive, cfg.Policy.Tokenizer); err != nil {
		return err
	}
	s.shown.Follow(func() (*viewer.Status, error) {
		within, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		st, err := s.Status(within)
		if err != nil {
			return nil, err
		}
		v := ViewStatus(st, time.Now())
		return &v, nil
	})
	s.viewer = http.StripPrefix("/view", viewer.Handler(g, s.shown))
	return nil
}

// Pages are shown on the admin port.
func (s *RewardServer) Pages() map[string]http.Handler {
	if s.viewer == nil {
		return nil
	}
	return map[string]http.Handler{"/view/": s.viewer}
}
