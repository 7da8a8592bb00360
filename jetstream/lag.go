package jetstream

import (
	"context"
	"fmt"
)

// Lag says how many messages of a run wait in a stage, and how many its takers hold.
func (b *Bus) Lag(ctx context.Context, stream, run string) (waiting, held int64, err error) {
	c, err := b.js.Consumer(ctx, stream, durable(run))
	if err != nil {
		return 0, 0, fmt.Errorf("nats: lag of %s: %w", stream, err)
	}
	info := c.CachedInfo() // just read
	return int64(info.NumPending), int64(info.NumAckPending), nil
}
