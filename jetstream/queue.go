package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/verigraph/verigraph/lease"
)

// Queue is a work-queue stream of values. Publish and Receive are safe for concurrent use.
type Queue[T any] struct {
	bus      *Bus
	stream   string
	consumer jetstream.Consumer
	// holdEvery is how often progress is signalled for a held message.
	holdEvery time.Duration
}

// NewQueue opens a stream for publishing and, through one durable consumer shared by all takers
// of the same run and stream, for receiving.
func NewQueue[T any](ctx context.Context, b *Bus, stream, run string) (*Queue[T], error) {
	q := &Queue[T]{bus: b, stream: stream}
	var err error
	if q.consumer, err = b.takers(ctx, stream, run); err != nil {
		return nil, err
	}
	// The consumer may be another process's work: its wait is the one that counts.
	q.holdEvery = min(b.cfg.AckWait, q.consumer.CachedInfo().Config.AckWait) / 3
	return q, nil
}

// Publish stores one value under a key; it returns when the stream holds it durably. A message
// with the same key that still waits in the queue is recognised and not stored again.
func (q *Queue[T]) Publish(ctx context.Context, run, key string, v T) error {
	return q.bus.publishOnce(ctx, q.stream, run, key, v)
}

func (b *Bus) publishOnce(ctx context.Context, stream, run, key string, v any) error {
	msg, err := b.message(ctx, subject(run, stream, key), v)
	if err != nil {
		return err
	}
	return b.settled(ctx, "publish "+msg.Subject, func(ctx context.Context) error {
		_, err := b.js.PublishMsg(ctx, msg, jetstream.WithExpectLastSequencePerSubject(0))
		switch {
		case codeOf(err) == wrongSequenceInFlight: // it may still come to nothing
			return errNotLast
		case isWrongSequence(err):
			return nil // it waits there already
		}
		return err
	})
}

// Takers is what the takers of a stream do. Counts are messages, but for Asking.
type Takers struct {
	// Held are in work or wait for their next delivery; Queued wait for somebody to take them.
	Held, Queued int
	// Asking is the number of takers that wait for a message.
	Asking int
}

// Takers asks the server who takes from a stream. Without a consumer nobody ever did: all is zero.
func (b *Bus) Takers(ctx context.Context, stream, run string) (Takers, error) {
	var c jetstream.Consumer
	err := b.settled(ctx, "consumer of "+stream, func(ctx context.Context) (err error) {
		c, err = b.js.Consumer(ctx, stream, durable(run))
		return err
	})
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return Takers{}, nil
	}
	if err != nil {
		return Takers{}, err
	}
	info := c.CachedInfo() // just asked for
	return Takers{Held: info.NumAckPending, Queued: int(info.NumPending), Asking: info.NumWaiting}, nil
}

// pollWait bounds one pull request, so that a server that came back after a crash is asked again.
const pollWait = 5 * time.Second

// Receive waits for the next value. The message is held (progress is signalled) until Ack or Nak.
// A value that cannot be read is retried and in the end set aside; it never blocks the others.
func (q *Queue[T]) Receive(ctx context.Context) (*Message[T], error) {
	for {
		got, err := q.poll(ctx)
		if err != nil {
			return nil, err
		}
		if got == nil {
			continue
		}
		msg, err := q.open(ctx, got)
		if msg != nil || err != nil {
			return msg, err
		}
	}
}

func (q *Queue[T]) poll(ctx context.Context) (jetstream.Msg, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	pollCtx, cancel := context.WithTimeout(ctx, pollWait)
	defer cancel()
	batch, err := q.consumer.Fetch(1, jetstream.FetchContext(pollCtx))
	if err == nil {
		return <-batch.Messages(), nil
	}
	if q.bus.nc.IsClosed() {
		return nil, fmt.Errorf("nats: %s: %w", q.stream, err)
	}
	return nil, wait(ctx, 200*time.Millisecond)
}

func (q *Queue[T]) open(ctx context.Context, got jetstream.Msg) (*Message[T], error) {
	meta, err := got.Metadata()
	if err != nil {
		return nil, fmt.Errorf("nats: %s: %w", q.stream, err)
	}
	m := &Message[T]{bus: q.bus, msg: got, Deliveries: int(meta.NumDelivered), Trace: got.Headers().Get(traceHeader), stop: make(chan struct{})}
	if err := q.bus.decode(ctx, got.Headers(), got.Data(), &m.Value); err != nil {
		return nil, q.unreadable(ctx, got, m.Deliveries, err)
	}
	m.hold(q.holdEvery)
	return m, nil
}

// unreadable gives a message back (its part may not be there yet) until its deliveries are used up.
func (q *Queue[T]) unreadable(ctx context.Context, got jetstream.Msg, deliveries int, cause error) error {
	if deliveries < q.bus.cfg.MaxDeliver {
		return got.NakWithDelay(lease.RetryDelay(deliveries))
	}
	tokens := strings.SplitN(got.Subject(), ".", 4)
	aside := AsideRecord{Dispatch: tokens[3], Stage: q.stream, Reason: cause.Error(), Deliveries: deliveries}
	if err := q.bus.PutSetAside(ctx, tokens[1], tokens[3], aside); err != nil {
		return err
	}
	return got.TermWithReason(cause.Error())
}

// AsideRecord says why a group was set aside.
type AsideRecord struct {
	Dispatch   string `json:"dispatch"`
	Stage      string `json:"stage"`
	Reason     string `json:"reason"`
	Deliveries int    `json:"deliveries"`
}

// Message is a held value. One of Ack, Nak, Drop must be called, once.
type Message[T any] struct {
	Value T
	// Deliveries counts deliveries, this one included.
	Deliveries int
	// Trace is the traceparent that it was published with.
	Trace string

	bus  *Bus
	msg  jetstream.Msg
	stop chan struct{}
	done sync.WaitGroup
	once sync.Once
}

func (m *Message[T]) hold(every time.Duration) {
	m.done.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-m.stop:
				return
			case <-tick.C:
				_ = m.msg.InProgress() // a lost signal means redelivery, which is harmless
			}
		}
	})
}

func (m *Message[T]) release() {
	m.once.Do(func() { close(m.stop) })
	m.done.Wait()
}

// Ack removes the value from the queue; the next stage must hold the result by now.
func (m *Message[T]) Ack(ctx context.Context) error {
	m.release()
	return m.bus.settled(ctx, "ack "+m.msg.Subject(), func(ctx context.Context) error {
		if err := m.msg.DoubleAck(ctx); !errors.Is(err, nats.ErrMsgAlreadyAckd) {
			return err
		}
		return nil
	})
}

// Nak gives the value back; it is delivered again after the delay.
func (m *Message[T]) Nak(delay time.Duration) error {
	m.release()
	if err := m.msg.NakWithDelay(delay); err != nil && !errors.Is(err, nats.ErrMsgAlreadyAckd) {
		return fmt.Errorf("nats: nak %s: %w", m.msg.Subject(), err)
	}
	return nil
}

// Drop stops holding the value without a word to the server: somebody else has it.
func (m *Message[T]) Drop() { m.release() }

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
