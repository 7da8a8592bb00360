package jetstream

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path"
	"sync"

	"github.com/klauspost/compress/zstd"
	"github.com/nats-io/nats.go"
)

// partLimit is the largest payload that travels inside a message; larger ones go to the blob store
// and the message carries their digest.
const partLimit = 256 << 10

// maxDecoded bounds what one message may grow to when decompressed.
const maxDecoded = 1 << 30

const partHeader = "Verigraph-Part"

var encoder = sync.OnceValue(func() *zstd.Encoder {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		panic(err) // fixed options
	}
	return e
})

var decoder = sync.OnceValue(func() *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxDecoded), zstd.WithDecoderConcurrency(1))
	if err != nil {
		panic(err) // fixed options
	}
	return d
})

// traceHeader is the W3C traceparent beside a message's value, as NATS's own tools name it.
const traceHeader = "traceparent"

type traceKey struct{}

// WithTrace gives the messages that are published with ctx a traceparent.
func WithTrace(ctx context.Context, traceparent string) context.Context {
	if traceparent == "" {
		return ctx
	}
	return context.WithValue(ctx, traceKey{}, traceparent)
}

// message builds a message whose payload is v as zstd-compressed JSON.
func (b *Bus) message(ctx context.Context, subject string, v any) (*nats.Msg, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("nats: %s: %w", subject, err)
	}
	data := encoder().EncodeAll(raw, nil)
	msg := nats.NewMsg(subject)
	if trace, ok := ctx.Value(traceKey{}).(string); ok {
		msg.Header.Set(traceHeader, trace)
	}
	if len(data) <= partLimit {
		msg.Data = data
		return msg, nil
	}
	sum := sha256.Sum256(data)
	name := partsOfSubject(subject) + hex.EncodeToString(sum[:])
	if err := b.blobs.Put(ctx, name, data); err != nil {
		return nil, fmt.Errorf("nats: %s: %w", subject, err)
	}
	msg.Header.Set(partHeader, name)
	return msg, nil
}

// partsOf is where the parts of messages of one key lie, so that they can be freed together.
func partsOf(run, key string) string { return "parts/" + run + "/" + key + "/" }

// decode is the inverse of message.
func (b *Bus) decode(ctx context.Context, header nats.Header, data []byte, v any) error {
	if name := header.Get(partHeader); name != "" {
		var err error
		if data, err = b.blobs.Get(ctx, name); err != nil {
			return err
		}
		if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != path.Base(name) {
			return fmt.Errorf("part %s: content has digest %x", name, sum)
		}
	}
	raw, err := decoder().DecodeAll(data, nil)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, v)
}
