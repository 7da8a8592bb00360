package jetstream

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// Verdicts keeps judges' verdicts in a key-value bucket that all reward servers share.
type Verdicts struct{ kv jetstream.KeyValue }

// maxVerdict bounds one entry: a verdict is a few words and a reason of at most 2 kB.
const maxVerdict = 64 << 10

// OpenVerdicts opens or creates the bucket.
func (b *Bus) OpenVerdicts(ctx context.Context) (*Verdicts, error) {
	kv, err := b.bucket(ctx, jetstream.KeyValueConfig{Bucket: "verigraph_verdicts", MaxValueSize: maxVerdict, History: 1})
	if err != nil {
		return nil, err
	}
	return &Verdicts{kv}, nil
}

// Get returns the value of a key and whether there is one.
func (v *Verdicts) Get(ctx context.Context, key string) ([]byte, bool, error) {
	e, err := v.kv.Get(ctx, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("nats: verdict %s: %w", key, err)
	}
	return e.Value(), true, nil
}

// Put stores a value and returns the one that stands afterwards; without replace the first one stays.
func (v *Verdicts) Put(ctx context.Context, key string, value []byte, replace bool) ([]byte, error) {
	var err error
	if replace {
		_, err = v.kv.Put(ctx, key, value)
	} else {
		_, err = v.kv.Create(ctx, key, value)
	}
	if errors.Is(err, jetstream.ErrKeyExists) {
		stands, ok, err := v.Get(ctx, key)
		if err == nil && !ok {
			err = fmt.Errorf("nats: verdict %s vanished", key)
		}
		return stands, err
	}
	if err != nil {
		return nil, fmt.Errorf("nats: verdict %s: %w", key, err)
	}
	return value, nil
}
