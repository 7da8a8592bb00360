// Package leader dispatches groups and assembles batches for one run.
//
// Invariant: every dispatched rollout leaves exactly once (delivered, filtered, stale, unscored,
// failed or set aside) or is in flight with an open lease. What is decided is first appended to a
// log with the expected last sequence, so that a leader which was replaced can decide nothing
// more; only then is the message that led to it acknowledged.
//
//	BACKLOG --admit--> LEDGER(admitted) --> PROMPTS
//	SCORED --buffer--> Parquet object --> BATCHES(record) --> ack        delivered
//	           +-----> LEDGER(closed) --> ack                            filtered, stale, failed, unscored
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
	"github.com/verigraph/verigraph/dataset/dispatch"
	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

// BacklogItem is one message of the backlog: a prompt, or the end of the input.
type BacklogItem struct {
	Prompt *task.Prompt `json:"prompt,omitempty"`
	// Validate marks a validation prompt: it bypasses filter and staleness and gets batches of its own.
	Validate bool `json:"validate,omitempty"`
	Final    bool `json:"final,omitempty"`
}

// Held is a message that stays in its queue until Ack. Release hands it back unacknowledged.
type Held[T any] struct {
	Value   T
	Ack     func(context.Context) error
	Release func()
}

// Streams is the broker's side. All calls are safe for concurrent use.
type Streams interface {
	NextPrompt(ctx context.Context) (Held[BacklogItem], error)
	// Publish hands a group to the workers.
	Publish(ctx context.Context, d task.Dispatch) error
	NextScored(ctx context.Context) (Held[trajectory.ScoredGroup], error)
	// Waiting counts the prompts that the backlog still holds, held ones included.
	Waiting(ctx context.Context) (int, error)
	// SetAside lists the dispatches that were set aside.
	SetAside(ctx context.Context) (map[string]bool, error)
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
}

// Encode writes rows as one Parquet object.
type Encode func(w *bytes.Buffer, meta dataset.Meta, rows []dataset.Row) error

// Config of a leader.
type Config struct {
	Run             string `yaml:"-"`
	GroupSize       int    `yaml:"group_size"`
	dispatch.Policy `yaml:",inline"`
	Filter          dispatch.Filter `yaml:"filter"`
	// Weights are the shares of data sources at admission; empty serves prompts in their order.
	Weights map[string]float64 `yaml:"weights"`
	Seed    int64              `yaml:"seed"`
	// MinValid is the number of rewarded members below which a group fails; 0 means 2.
	MinValid int `yaml:"min_valid"`
	// FillLost gives lost members a row of mask 0 (for trainers that need group_size rows).
	FillLost bool `yaml:"fill_lost"`
	// Limits are the trainer's prompt and response lengths.
	Limits   dataset.Limits        `yaml:"-"`
	Overlong dataset.OverlongOwner `yaml:"-"`
}

// Defaults of a leader.
func Defaults() Config {
	return Config{
		GroupSize: 4, Policy: dispatch.Policy{BatchGroups: 8, MaxGroups: 64, MaxStaleness: dispatch.Unbounded},
		Filter: dispatch.FilterDefaults(), Overlong: dataset.OverlongNone,
	}
}

// Validate reports every problem at once.
func (c Config) Validate() error {
	errs := []error{c.Policy.Validate(), c.Filter.Validate()}
	if c.GroupSize < 2 {
		errs = append(errs, fmt.Errorf("leader.group_size: %d, want at least 2: a group of one has no baseline", c.GroupSize))
	}
	if c.MinValid < 0 || c.MinValid > c.GroupSize {
		errs = append(errs, fmt.Errorf("leader.min_valid: %d, want 0 to the group size %d", c.MinValid, c.GroupSize))
	}
	for source, w := range c.Weights {
		if !(w > 0) {
			errs = append(errs, fmt.Errorf("leader.weights.%s: %g, want more than 0", source, w))
		}
	}
	return errors.Join(errs...)
}

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
	Epoch int64
	Log   *zap.Logger
}

// Leader is the dispatcher and assembler of one run.
type Leader struct {
	cfg  Config
	deps Deps

	mu      sync.Mutex
	books   *books
	changed chan struct{} // closed and replaced on every change

	commands chan command
	done     chan struct{} // closed when Run returns

	// Owned by Run:
	pools      *dispatch.Pools[Held[BacklogItem]]
	validation []Held[BacklogItem]
	final      *Held[BacklogItem]
	buffer     []Held[trajectory.ScoredGroup]
}

// New rebuilds a leader from the logs' entries.
func New(cfg Config, deps Deps, events []Event, batches []BatchRecord) (*Leader, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Leader{
		cfg: cfg, deps: deps, books: newBooks(events, batches), changed: make(chan struct{}),
		commands: make(chan command), done: make(chan struct{}),
		pools: dispatch.NewPools[Held[BacklogItem]](cfg.Weights),
	}, nil
}

// setAsidePoll is how often groups that were set aside are looked for.
const setAsidePoll = time.Second

// window is how many training prompts are held unadmitted, for choosing between data sources and so
// that a validation prompt is found behind them.
const window = 64

// ErrStopped ends a run whose filter used up its rounds and is told to stop; all state is kept.
var ErrStopped = errors.New("the group filter used up its rounds")

// Run leads until ctx ends (nil) or it is fenced or cannot write (an error). It runs once.
func (l *Leader) Run(ctx context.Context) error {
	defer close(l.done)
	g, ctx := errgroup.WithContext(ctx)
	prompts := make(chan Held[BacklogItem])
	scored := make(chan Held[trajectory.ScoredGroup])
	g.Go(func() error { return receive(ctx, l.deps.Streams.NextPrompt, prompts) })
	g.Go(func() error { return receive(ctx, l.deps.Streams.NextScored, scored) })
	g.Go(func() error { return l.loop(ctx, prompts, scored) })
	err := g.Wait()
	l.handBack()
	if err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("leader: %w", err)
	}
	return nil
}

// handBack releases what is held and not decided: the next leader gets it.
func (l *Leader) handBack() {
	for _, h := range l.buffer {
		h.Release()
	}
	for _, h := range append(l.pools.Drain(), l.validation...) {
		h.Release()
	}
	if l.final != nil {
		l.final.Release()
	}
	l.buffer, l.validation, l.final = nil, nil, nil
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
	tick := time.NewTicker(setAsidePoll)
	defer tick.Stop()
	for {
		take := prompts
		if l.pools.Len() >= window {
			take = nil // prompts wait in the backlog
		}
		var err error
		select {
		case <-ctx.Done():
			return ctx.Err()
		case h := <-take:
			l.hold(h)
		case h := <-scored:
			if err = l.take(ctx, h); err != nil {
				h.Release()
			}
		case c := <-l.commands:
			c.result <- c.run(ctx)
		case <-tick.C:
			err = l.closeSetAside(ctx)
		}
		if err := errors.Join(err, l.settle(ctx)); err != nil {
			return err
		}
	}
}

// settle brings batches out and prompts in until nothing changes.
func (l *Leader) settle(ctx context.Context) error {
	if err := l.ship(ctx); err != nil {
		return err
	}
	if err := l.admit(ctx); err != nil {
		return err
	}
	return l.ship(ctx) // the end of the input may complete the last batch
}

// record appends a decision; what it decides holds from then on.
func (l *Leader) record(ctx context.Context, e Event) error {
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
