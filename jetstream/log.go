package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
	"github.com/synadia-io/orbit.go/jetstreamext"
)

// ErrFenced is returned by Append when somebody else appended in between.
var ErrFenced = errors.New("another writer appended to this log")

// Log is one run's append-only log in a stream. It has one writer at a time: Append carries the
// last sequence that this writer knows, so that a writer which lost its leadership fails.
type Log[T any] struct {
	bus    *Bus
	stream string
	run    string
	last   uint64
}

// fenceHeader marks a message that only takes the place of the last one: it is no entry.
const fenceHeader = "Verigraph-Fence"

// LogReader reads a log along, without taking it over.
type LogReader[T any] struct {
	bus    *Bus
	stream string
	run    string
	last   uint64
}

// NewLogReader reads from the log's beginning.
func NewLogReader[T any](b *Bus, stream, run string) *LogReader[T] {
	return &LogReader[T]{bus: b, stream: stream, run: run}
}

// Read returns the entries after those that it returned before; what came before an error is returned with it. A
// copy of the stream that is behind leaves the newest entries for the next call.
func (r *LogReader[T]) Read(ctx context.Context) (entries []T, err error) {
	entries, r.last, err = readLog[T](ctx, r.bus, r.stream, subject(r.run, r.stream, "log"), r.last)
	return entries, err
}

// TakeOver reads the rest of the log and takes it over, ready for appending: from then on the writer before
// fails with ErrFenced, also with what it has on its way. Without that it could still append to one log after its
// successor has read it, and decide by another.
func (r *LogReader[T]) TakeOver(ctx context.Context) (*Log[T], []T, error) {
	subj := subject(r.run, r.stream, "log")
	var all []T
	for {
		entries, err := r.Read(ctx)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, entries...)
		l := &Log[T]{bus: r.bus, stream: r.stream, run: r.run, last: r.last}
		fence := nats.NewMsg(subj)
		fence.Header.Set(fenceHeader, "1")
		if err = l.write(ctx, fence); err == nil {
			return l, all, nil
		}
		if !errors.Is(err, ErrFenced) {
			return nil, nil, err
		}
		// Something was appended since, or a replica that lags behind was read.
		if err := wait(ctx, retryEvery); err != nil {
			return nil, nil, fmt.Errorf("nats: open %s: %w", subj, err)
		}
	}
}

// OpenLog takes a log over and returns it with all its entries.
func OpenLog[T any](ctx context.Context, b *Bus, stream, run string) (*Log[T], []T, error) {
	return NewLogReader[T](b, stream, run).TakeOver(ctx)
}

// ReadLog reads a log without taking it over.
func ReadLog[T any](ctx context.Context, b *Bus, stream, run string) ([]T, error) {
	return NewLogReader[T](b, stream, run).Read(ctx)
}

// entryHeader tells an entry whose answer was lost from another writer's.
const entryHeader = "Verigraph-Entry"

// Append adds one entry durably. It waits a while for a stream that has lost its leader.
func (l *Log[T]) Append(ctx context.Context, entry T) error {
	msg, err := l.bus.message(ctx, subject(l.run, l.stream, "log"), entry)
	if err != nil {
		return err
	}
	return l.write(ctx, msg)
}

func (l *Log[T]) write(ctx context.Context, msg *nats.Msg) error {
	msg.Header.Set(entryHeader, nuid.Next())
	return l.bus.settled(ctx, "append "+msg.Subject, func(ctx context.Context) error { return l.try(ctx, msg) })
}

func (l *Log[T]) try(ctx context.Context, msg *nats.Msg) error {
	ack, err := l.bus.js.PublishMsg(ctx, msg, jetstream.WithExpectLastSequencePerSubject(l.last))
	if err == nil {
		l.last = ack.Sequence
	}
	if !isWrongSequence(err) {
		return err
	}
	// Perhaps it is this very entry, whose answer was lost, or another one on its way that came to nothing.
	m, seq, err := l.bus.lastOf(ctx, l.stream, msg.Subject)
	switch {
	case err != nil:
		return err
	case seq <= l.last:
		return errNotLast
	case m.Header.Get(entryHeader) != msg.Header.Get(entryHeader):
		return ErrFenced
	}
	l.last = seq
	return nil
}

// logPage is how many entries are asked for at a time.
const (
	logPage      = 1000
	logPageBytes = 16 << 20 // of what a client holds for one answer
)

// readLog asks any copy of the stream for what comes after a sequence, so that it works while the stream has no leader.
// What a copy that is behind leaves out is found by the first append.
func readLog[T any](ctx context.Context, b *Bus, stream, subj string, after uint64) (entries []T, last uint64, err error) {
	last = after
	for {
		page, err := jetstreamext.GetBatch(ctx, b.js, stream, logPage,
			jetstreamext.GetBatchSeq(last+1), jetstreamext.GetBatchSubject(subj), jetstreamext.GetBatchMaxBytes(logPageBytes))
		if err != nil {
			return entries, last, fmt.Errorf("nats: read %s: %w", subj, err)
		}
		before := "0"
		for got, err := range page {
			if errors.Is(err, jetstreamext.ErrNoMessages) {
				return entries, last, nil
			}
			if err != nil {
				return entries, last, fmt.Errorf("nats: read %s: %w", subj, err)
			}
			if h := got.Header.Get(jetstream.LastSequenceHeader); h != before {
				return entries, last, fmt.Errorf("nats: read %s: entries between %s and %d did not arrive", subj, before, got.Sequence)
			}
			if got.Header.Get(fenceHeader) == "" {
				var e T
				if err := b.decode(ctx, got.Header, got.Data, &e); err != nil {
					return entries, last, fmt.Errorf("nats: %s: message %d: %w", stream, got.Sequence, err)
				}
				entries = append(entries, e)
			}
			before, last = strconv.FormatUint(got.Sequence, 10), got.Sequence
		}
		if before == "0" { // the page ends without a word when nobody answers in time
			return entries, last, fmt.Errorf("nats: read %s: %w", subj, context.DeadlineExceeded)
		}
	}
}

// PutReference stores a prompt's reference answer. Key is the prompt's slug.
func (b *Bus) PutReference(ctx context.Context, run, key string, v any) error {
	msg, err := b.message(ctx, subject(run, References, key), v)
	if err != nil {
		return err
	}
	if _, err := b.js.PublishMsg(ctx, msg); err != nil {
		return fmt.Errorf("nats: publish %s: %w", msg.Subject, err)
	}
	return nil
}

// ErrNoReference is returned when a prompt has no reference answer.
var ErrNoReference = errors.New("no reference answer")

// GetReference reads a prompt's reference answer.
func (b *Bus) GetReference(ctx context.Context, run, key string, v any) error {
	s, err := b.js.Stream(ctx, References)
	if err != nil {
		return fmt.Errorf("nats: %s: %w", References, err)
	}
	got, err := s.GetLastMsgForSubject(ctx, subject(run, References, key))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return fmt.Errorf("nats: prompt %s: %w", key, ErrNoReference)
	}
	if err != nil {
		return fmt.Errorf("nats: prompt %s: %w", key, err)
	}
	return b.decode(ctx, got.Header, got.Data, v)
}

// PutSetAside stores a group for a person to look at.
func (b *Bus) PutSetAside(ctx context.Context, run, dispatch string, v any) error {
	return b.publishOnce(ctx, SetAside, run, dispatch, v)
}

// Keys lists the last subject tokens (dispatch ids) that a stream holds for a run, with counts.
func (b *Bus) Keys(ctx context.Context, stream, run string) (map[string]uint64, error) {
	prefix := subject(run, stream, "")
	var info *jetstream.StreamInfo
	err := b.settled(ctx, stream, func(ctx context.Context) error {
		s, err := b.js.Stream(ctx, stream)
		if err == nil {
			info, err = s.Info(ctx, jetstream.WithSubjectFilter(prefix+">"))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	keys := make(map[string]uint64, len(info.State.Subjects))
	for subj, n := range info.State.Subjects {
		keys[strings.TrimPrefix(subj, prefix)] = n
	}
	return keys, nil
}

// PutState stores a small JSON value under a key.
func (b *Bus) PutState(ctx context.Context, key string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("nats: state %s: %w", key, err)
	}
	if _, err := b.state.Put(ctx, key, data); err != nil {
		return fmt.Errorf("nats: state %s: %w", key, err)
	}
	return nil
}

// NextEpoch counts the leaders of a run: each call returns a number that none has had.
func (b *Bus) NextEpoch(ctx context.Context, run string) (int64, error) {
	key := "epoch." + run
	for {
		e, err := b.state.Get(ctx, key)
		switch {
		case errors.Is(err, jetstream.ErrKeyNotFound):
			_, err = b.state.Create(ctx, key, []byte("1"))
			if err == nil {
				return 1, nil
			}
		case err == nil:
			var n int64
			if err = json.Unmarshal(e.Value(), &n); err != nil {
				return 0, fmt.Errorf("nats: %s: %w", key, err)
			}
			_, err = b.state.Update(ctx, key, fmt.Appendf(nil, "%d", n+1), e.Revision())
			if err == nil {
				return n + 1, nil
			}
		}
		if !errors.Is(err, jetstream.ErrKeyExists) && !isWrongSequence(err) {
			return 0, fmt.Errorf("nats: %s: %w", key, err)
		}
	}
}

// State is a value of the state bucket.
type State[T any] struct {
	Value T
	// Revision grows with every change.
	Revision uint64
}

// States reads all values below a prefix that ends with a dot.
func States[T any](ctx context.Context, b *Bus, prefix string) ([]State[T], error) {
	const bucket = "$KV.verigraph_state."
	all, err := jetstreamext.GetLastMsgsFor(ctx, b.js, "KV_verigraph_state", []string{bucket + prefix + "*"})
	if err != nil {
		return nil, fmt.Errorf("nats: state %s: %w", prefix, err)
	}
	var out []State[T]
	for got, err := range all {
		switch {
		case errors.Is(err, jetstreamext.ErrNoMessages):
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("nats: state %s: %w", prefix, err)
		case len(got.Data) == 0: // it was deleted
			continue
		}
		var v T
		if err := json.Unmarshal(got.Data, &v); err != nil {
			return nil, fmt.Errorf("nats: state %s: %w", strings.TrimPrefix(got.Subject, bucket), err)
		}
		out = append(out, State[T]{v, got.Sequence})
	}
	return out, nil
}

// GetState reads a value stored by PutState and reports whether it exists. On a cluster it may be an earlier one for a
// moment (CurrentState is not).
func (b *Bus) GetState(ctx context.Context, key string, v any) (bool, error) {
	e, err := b.state.Get(ctx, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("nats: state %s: %w", key, err)
	}
	if err := json.Unmarshal(e.Value(), v); err != nil {
		return false, fmt.Errorf("nats: state %s: %w", key, err)
	}
	return true, nil
}
