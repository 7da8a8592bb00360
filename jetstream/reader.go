package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// readPoll is how often a reader that is at the end looks for new messages.
const readPoll = 50 * time.Millisecond

// Reader reads a stream's messages of one run in order without taking leases on them. It is for the
// one process that may take from the stream by right (the leader from BACKLOG): what was used up is
// deleted, and the next reader starts at the beginning.
type Reader[T any] struct {
	bus    *Bus
	name   string
	stream jetstream.Stream
	filter string
	next   uint64
}

// Entry is a message that stays in its stream until Delete.
type Entry[T any] struct {
	Value    T
	Sequence uint64
	// Trace is the traceparent that it was published with.
	Trace string
}

// NewReader opens a stream at its beginning.
func NewReader[T any](ctx context.Context, b *Bus, stream, run string) (*Reader[T], error) {
	r := &Reader[T]{bus: b, name: stream, filter: subject(run, stream, ">"), next: 1}
	err := b.settled(ctx, stream, func(ctx context.Context) (err error) {
		r.stream, err = b.js.Stream(ctx, stream)
		return err
	})
	return r, err
}

// FromStart is a reader of the same stream at its beginning.
func (r *Reader[T]) FromStart() *Reader[T] {
	other := *r
	other.next = 1
	return &other
}

// Next waits for the next message. One that cannot be read is set aside and passed over.
func (r *Reader[T]) Next(ctx context.Context) (Entry[T], error) {
	for {
		var got *jetstream.RawStreamMsg
		err := r.bus.settled(ctx, "read "+r.name, func(ctx context.Context) (err error) {
			got, err = r.stream.GetMsg(ctx, r.next, jetstream.WithGetMsgSubject(r.filter))
			return err
		})
		switch {
		case ctx.Err() != nil:
			return Entry[T]{}, ctx.Err()
		case errors.Is(err, jetstream.ErrMsgNotFound):
			if err := wait(ctx, readPoll); err != nil {
				return Entry[T]{}, err
			}
			continue
		case err != nil:
			return Entry[T]{}, err
		}
		r.next = got.Sequence + 1
		e := Entry[T]{Sequence: got.Sequence, Trace: got.Header.Get(traceHeader)}
		err = r.bus.decode(ctx, got.Header, got.Data, &e.Value)
		if err == nil {
			return e, nil
		}
		tokens := strings.SplitN(got.Subject, ".", 4)
		aside := AsideRecord{Dispatch: tokens[3], Stage: r.name, Reason: err.Error(), Deliveries: 1}
		if err := r.bus.PutSetAside(ctx, tokens[1], tokens[3], aside); err != nil {
			return e, err
		}
		if err := r.Delete(ctx, got.Sequence); err != nil {
			return e, err
		}
	}
}

// Delete removes a message that was used up; one that is gone is no error.
func (r *Reader[T]) Delete(ctx context.Context, sequence uint64) error {
	return r.bus.settled(ctx, fmt.Sprintf("delete %d from %s", sequence, r.name), func(ctx context.Context) error {
		err := r.stream.DeleteMsg(ctx, sequence)
		if err == nil {
			return nil
		}
		// The client gives the server's code as text only, so that the stream itself is asked.
		if _, missing := r.stream.GetMsg(ctx, sequence); errors.Is(missing, jetstream.ErrMsgNotFound) {
			return nil
		}
		return err
	})
}

// PublishOnce stores one value under a key of a stream; it returns when the stream holds it durably. A
// message with the same key that still waits there is recognised and not stored again.
func (b *Bus) PublishOnce(ctx context.Context, stream, run, key string, v any) error {
	return b.publishOnce(ctx, stream, run, key, v)
}

// SetAsideRecords lists why groups of a run were set aside.
func (b *Bus) SetAsideRecords(ctx context.Context, run string) ([]AsideRecord, error) {
	records, _, err := readLog[AsideRecord](ctx, b, SetAside, subject(run, SetAside, ">"), 0)
	return records, err
}

// DeleteSetAside removes one of them; one that is gone is no error.
func (b *Bus) DeleteSetAside(ctx context.Context, run, dispatch string) error {
	return b.purge(ctx, SetAside, subject(run, SetAside, dispatch))
}

func (b *Bus) purge(ctx context.Context, stream, subj string) error {
	return b.settled(ctx, "purge "+subj, func(ctx context.Context) error {
		s, err := b.js.Stream(ctx, stream)
		if err != nil {
			return err
		}
		return s.Purge(ctx, jetstream.WithPurgeSubject(subj))
	})
}

// DeleteParts frees the parts of messages of one key that travelled through the blob store.
func (b *Bus) DeleteParts(ctx context.Context, run, key string) error {
	return b.blobs.DeleteAll(ctx, partsOf(run, key))
}
