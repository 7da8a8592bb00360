package line

import (
	"context"

	"github.com/verigraph/verigraph/blob"
	"github.com/verigraph/verigraph/cmd/internal/config"
	"github.com/verigraph/verigraph/jetstream"
)

// Connect opens the object store of a run and joins its broker; both are open until the caller calls closeAll.
func Connect(ctx context.Context, cfg config.Config) (bus *jetstream.Bus, blobs *blob.Store, closeAll func(), err error) {
	blobs, err = blob.Open(ctx, cfg.Blob)
	if err != nil {
		return nil, nil, nil, err
	}
	nc, err := jetstream.Dial(cfg.NATS.URL, cfg.NATS.Credentials, cfg.Run)
	if err != nil {
		blobs.Close()
		return nil, nil, nil, err
	}
	bus, err = jetstream.New(ctx, nc, blobs, cfg.NATS.Config)
	if err != nil {
		nc.Close()
		blobs.Close()
		return nil, nil, nil, err
	}
	return bus, blobs, func() {
		bus.Close()
		blobs.Close()
	}, nil
}
