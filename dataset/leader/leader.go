// Package leader dispatches groups and assembles batches for one run.
//
// Invariant: every dispatched rollout leaves exactly once (delivered, filtered, stale, unscored,
// failed or set aside) or is in flight with an open lease. What is decided is first appended to a
// log with the expected last sequence, so that a leader which was replaced can decide nothing
// more; only then is the message that led to it acknowledged.
//
//	BACKLOG --admit--> LEDGER(admitted) --> PROMPTS
//	SCORED --filter, sweep--> Parquet object --> BATCHES(record) --> ack     delivered
//	           +------------> LEDGER(closed) --> ack                         filtered, stale, failed, unscored
//
// Decisions (policy.go, pool.go, books.go) are plain values and functions; the loop below owns all
// state and takes one decision at a time. After a crash the books are rebuilt from the two logs, and
// a dispatch that was admitted and never published is published again.
package leader

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/verigraph/verigraph/dataset"
	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

// BacklogItem is one message of the backlog: a prompt, or the end of the input.
type BacklogItem struct {
	Prompt   *task.Prompt `json:"prompt,omitempty"`
	Validate bool         `json:"validate,omitempty"`
	// Priority: higher leaves first.
	Priority int  `json:"priority,omitempty"`
	Final    bool `json:"final,omitempty"`
}

// Held is a message that stays in its queue until Ack. Release hands it back unacknowledged. Drop does neither:
// a later delivery of the same message stands for it.
type Held[T any] struct {
	Value T
	// Trace is the traceparent that came along with it.
	Trace   string
	Ack     func(context.Context) error
	Release func()
	Drop    func()
}

// Streams is the broker's side. All calls are safe for concurrent use.
type Streams interface {
	// NextPrompt waits for the next message of the backlog. Messages come in order, each once per
	// leader; those that were not acknowledged come again to the next one.
	NextPrompt(ctx context.Context) (Held[BacklogItem], error)
	// Publish hands a group to the workers.
	Publish(ctx context.Context, d task.Dispatch) error
	NextScored(ctx context.Context) (Held[trajectory.ScoredGroup], error)
	// SetAside lists the dispatches that were set aside.
	SetAside(ctx context.Context) (map[string]bool, error)
	// ForgetSetAside removes one of them.
	ForgetSetAside(ctx context.Context, dispatch string) error
	// OpenLeases lists the dispatches that some queue still holds.
	OpenLeases(ctx context.Context) (map[string]bool, error)
}

// Log appends entries, fenced by the expected last sequence.
type Log[T any] interface {
	Append(ctx context.Context, entry T) error
}

// Objects stores batches.
type Objects interface {
	Put(ctx context.Context, name string, data []byte) error
	// Delete removes an object; one that is not there is no error.
	Delete(ctx context.Context, name string) error
}

// Encode writes rows as one Parquet object.
type Encode func(w *bytes.Buffer, meta dataset.Meta, rows []dataset.Row) error

// Deps are what a leader works with.
type Deps struct {
	Streams Streams
	Ledger  Log[Event]
	Batches Log[BatchRecord]
	Objects Objects
	Encode  Encode
	// Archive keeps a scored group where a person can open it, before the group may leave.
	Archive func(trajectory.ScoredGroup) error
	// Wrote, if set, is told of every batch when its record is durable.
	Wrote func(BatchRecord)
	// Forget, if set, frees what the broker's messages of a dispatch left behind in the blob store.
	Forget func(ctx context.Context, dispatch string) error
	// Share, if set, is told how many groups the run could have in work and says how many it may. It is
	// asked before every dispatch and must not block.
	Share func(wants int) int
	Epoch int64
	Log   *zap.Logger
	// Now is the clock; nil takes the real one.
	Now func() time.Time
}

// Why a leader ends, or refuses a call.
var (
	// ErrExhausted: max_rounds went by without a full batch and the configuration says stop.
	ErrExhausted = errors.New("the rounds of dynamic sampling are used up")
	// ErrRefused: the call is wrong and nothing changed.
	ErrRefused = errors.New("refused")
	// ErrOldIncarnation: the call comes from an earlier life of the trainer.
	ErrOldIncarnation = errors.New("an earlier incarnation of the trainer")
	// ErrNotLeading: this leader has ended.
	ErrNotLeading = errors.New("not leading")
)

// Leader is the dispatcher and assembler of one run.
type Leader struct {
	cfg  Config
	deps Deps

	mu      sync.Mutex
	books   *books
	rates   rates
	changed chan struct{} // closed and replaced on every change
	view    loopView      // what the loop holds, for Progress

	commands chan command
	stopped  chan struct{} // closed when Run has ended

	// Owned by the loop.
	buffer  []scored
	pool    *pool
	final   []Held[BacklogItem]
	hold    string    // the straggler that a batch is held back for
	stalled error     // the store or the archive refused something
	retryAt time.Time // when it is tried again
	// stalledBy is which of them.
	stalledBy string

	wasLosing bool // what the log said last
}

// command is a call that the loop runs between two decisions.
type command struct {
	run  func(context.Context) error
	done chan error
}

// New rebuilds a leader from the logs' entries. It takes the history over.
func New(cfg Config, deps Deps, history *History) (*Leader, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Now == nil {
		deps.Now = time.Now
	}
	return &Leader{
		cfg: cfg, deps: deps, books: history.end(), changed: make(chan struct{}), pool: newPool(cfg),
		commands: make(chan command), stopped: make(chan struct{}),
	}, nil
}

const (
	// setAsidePoll is how often groups that were set aside are looked for.
	setAsidePoll = time.Second
	// storeRetry is the pause after the store refused an object.
	storeRetry = time.Second
)

// Run leads until ctx ends (nil) or it is fenced or cannot write (an error). It runs once.
func (l *Leader) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	prompts := make(chan Held[BacklogItem])
	scored := make(chan Held[trajectory.ScoredGroup])
	g.Go(func() error { return receive(ctx, l.deps.Streams.NextPrompt, prompts) })
	g.Go(func() error { return receive(ctx, l.deps.Streams.NextScored, scored) })
	g.Go(func() error { return l.loop(ctx, prompts, scored) })
	err := g.Wait()
	for _, s := range l.buffer { // not in a batch: the next leader gets them
		s.held.Release()
	}
	l.buffer = nil
	close(l.stopped)
	l.update(func(*books) {}) // wakes those who wait for a change
	if err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("leader: %w", err)
	}
	return nil
}

func receive[T any](ctx context.Context, next func(context.Context) (Held[T], error), into chan<- Held[T]) error {
	for {
		h, err := next(ctx)
		if err != nil {
			return err
		}
		select {
		case into <- h:
		case <-ctx.Done():
			h.Release()
			return ctx.Err()
		}
	}
}

// loop takes all decisions, one at a time.
func (l *Leader) loop(ctx context.Context, prompts <-chan Held[BacklogItem], scored <-chan Held[trajectory.ScoredGroup]) error {
	if err := l.recover(ctx); err != nil {
		return err
	}
	tick := time.NewTicker(setAsidePoll)
	defer tick.Stop()
	for {
		if err := l.settle(ctx); err != nil {
			return err
		}
		in := scored
		if l.deps.Now().Before(l.retryAt) {
			in = nil // nothing can be stored: scored groups wait in their queue
		}
		var err error
		select {
		case <-ctx.Done():
			return ctx.Err()
		case h := <-prompts:
			err = l.queue(ctx, h)
		case h := <-in:
			if err = l.take(ctx, h); err != nil {
				h.Release()
			}
		case c := <-l.commands:
			err = l.command(ctx, c)
		case <-tick.C:
			err = l.closeSetAside(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// settle does all that can be done with what is there.
func (l *Leader) settle(ctx context.Context) error {
	for {
		if err := l.sweep(ctx); err != nil {
			return err
		}
		shipped, err := l.ship(ctx)
		if err != nil {
			return err
		}
		admitted, err := l.admit(ctx)
		if err != nil {
			return err
		}
		if !shipped && !admitted {
			return l.endInput(ctx)
		}
	}
}

// do runs f in the loop. Errors that wrap ErrRefused or ErrOldIncarnation changed nothing; any other
// ends the leader.
func (l *Leader) do(ctx context.Context, f func(context.Context) error) error {
	c := command{f, make(chan error, 1)}
	select {
	case l.commands <- c:
	case <-l.stopped:
		return ErrNotLeading
	case <-ctx.Done():
		return ctx.Err()
	}
	return <-c.done // the loop answers every command that it took
}

func (l *Leader) command(ctx context.Context, c command) error {
	err := c.run(ctx)
	c.done <- err
	if errors.Is(err, ErrRefused) || errors.Is(err, ErrOldIncarnation) {
		return nil
	}
	return err
}

func (l *Leader) record(ctx context.Context, e Event) error {
	e.At = l.deps.Now().UTC()
	l.mu.Lock()
	e.Sequence = l.books.next()
	l.mu.Unlock()
	if err := l.deps.Ledger.Append(ctx, e); err != nil {
		return err
	}
	l.update(func(b *books) { b.event(e) })
	return nil
}

func (l *Leader) update(f func(*books)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(l.books)
	close(l.changed)
	l.changed = make(chan struct{})
}

// read runs f on the books, which only the loop changes; it is for the loop and its helpers.
func read[T any](l *Leader, f func(*books) T) T {
	l.mu.Lock()
	defer l.mu.Unlock()
	return f(l.books)
}
