// Command rollout-worker takes groups from NATS, runs their trajectories in sandboxes against the
// policy endpoint and publishes what they produced.
package main

import (
	"context"

	"go.uber.org/zap"

	"github.com/verigraph/verigraph/blob"
	"github.com/verigraph/verigraph/cmd/internal/config"
	"github.com/verigraph/verigraph/cmd/internal/line"
	"github.com/verigraph/verigraph/cmd/internal/process"
	"github.com/verigraph/verigraph/jetstream"
	"github.com/verigraph/verigraph/sandbox"
)

func main() {
	sandbox.MaybeInit() // a session's init is this binary, started again
	process.Program{
		Name:     "rollout-worker",
		About:    "runs trajectories of the groups that NATS hands out",
		Validate: config.Config.ValidateWorker,
		Build: func(ctx context.Context, cfg config.Config, bus *jetstream.Bus, blobs *blob.Store, log *zap.Logger) (process.Part, error) {
			w, err := line.NewWorker(ctx, cfg, bus, blobs, log)
			if err != nil {
				return nil, err
			}
			log.Info("sandbox", zap.String("tier", string(w.Tier)))
			return w, nil
		},
	}.Main()
}
