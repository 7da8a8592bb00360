// Command reward-server scores finished groups, leads the run (admission and batches) and serves the
// batches to trainers over gRPC.
package main

import (
	"context"

	"go.uber.org/zap"

	"github.com/verigraph/verigraph/blob"
	"github.com/verigraph/verigraph/cmd/internal/config"
	"github.com/verigraph/verigraph/cmd/internal/line"
	"github.com/verigraph/verigraph/cmd/internal/process"
	"github.com/verigraph/verigraph/jetstream"
)

func main() {
	process.Program{
		Name:     "reward-server",
		About:    "scores groups, writes batches and serves them to trainers",
		Validate: config.Config.ValidateReward,
		Build: func(ctx context.Context, cfg config.Config, bus *jetstream.Bus, blobs *blob.Store, log *zap.Logger) (process.Part, error) {
			s, err := line.NewRewardServer(ctx, cfg, bus, blobs, log)
			if err != nil {
				return nil, err
			}
			log.Info("feed", zap.String("address", s.Addr()))
			return s, nil
		},
	}.Main()
}
