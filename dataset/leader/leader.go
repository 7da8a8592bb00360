// Package leader dispatches groups and assembles batches for one run.
//
// Invariant: every dispatched rollout leaves exactly once (delivered, filtered, stale, unscored,
// failed or set aside) or is in flight with an open lease. What is decided is first appended to a
// log with the expected last sequence, so that a leader which was replaced can decide nothing
// more; only then is the message that led to it acknowledged.
//
//	BACKLOG --admit--> LEDGER(admitted) --> PROMPTS
//	SCORED --buffer--> Parquet object --> BATCHES(record) --> ack        delivered
//	           +-----> LEDGER(closed) --> ack                            failed, unscored
package leader

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
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
	Prompt *task.Prompt `json:"prompt,omitempty"`
	Final  bool         `json:"final,omitempty"`
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
	Run       string `yaml:"-"`
	GroupSize int    `yaml:"group_size"`
	// BatchGroups is the number of groups of a full batch.
	BatchGroups int `yaml:"batch_groups"`
	// MaxGroups bounds the groups that are dispatched and not yet delivered.
	MaxGroups int   `yaml:"max_groups"`
	Seed      int64 `yaml:"seed"`
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
	return Config{GroupSize: 4, BatchGroups: 8, MaxGroups: 64, Overlong: dataset.OverlongNone}
}

// Validate reports every problem at once.
func (c Config) Validate() error {
	var errs []error
	for _, e := range []struct {
		name string
		v    int
		low  int
	}{
		{"group_size", c.GroupSize, 2}, {"batch_groups", c.BatchGroups, 1}, {"max_groups", c.MaxGroups, 1}, {"min_valid", c.MinValid, 0},
	} {
		if e.v < e.low {
			errs = append(errs, fmt.Errorf("leader.%s: %d, want at least %d", e.name, e.v, e.low))
		}
	}
	if c.MinValid > c.GroupSize {
		errs = append(errs, fmt.Errorf("leader.min_valid: %d is above the group size %d", c.MinValid, c.GroupSize))
	}
	if c.MaxGroups < c.BatchGroups {
		errs = append(errs, fmt.Errorf("leader.max_groups: %d is below batch_groups %d: no batch would ever fill", c.MaxGroups, c.BatchGroups))
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

	buffer []Held[trajectory.ScoredGroup] // owned by Run
}

// New rebuilds a leader from the logs' entries.
func New(cfg Config, deps Deps, events []Event, batches []BatchRecord) (*Leader, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Leader{cfg: cfg, deps: deps, books: newBooks(events, batches), changed: make(chan struct{})}, nil
}

// setAsidePoll is how often groups that were set aside are looked for.
const setAsidePoll = time.Second

// Run leads until ctx ends (nil) or it is fenced or cannot write (an error).
func (l *Leader) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	prompts := make(chan Held[BacklogItem])
	scored := make(chan Held[trajectory.ScoredGroup])
	g.Go(func() error { return receive(ctx, l.deps.Streams.NextPrompt, prompts) })
	g.Go(func() error { return receive(ctx, l.deps.Streams.NextScored, scored) })
	g.Go(func() error { return l.loop(ctx, prompts, scored) })
	err := g.Wait()
	for _, h := range l.buffer { // not in a batch: the next leader gets them
		h.Release()
	}
	l.buffer = nil
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
	tick := time.NewTicker(setAsidePoll)
	defer tick.Stop()
	for {
		admit := prompts
		if l.openGroups() >= l.cfg.MaxGroups {
			admit = nil // no capacity: prompts wait in the backlog
		}
		var err error
		select {
		case <-ctx.Done():
			return ctx.Err()
		case h := <-admit:
			if err = l.admit(ctx, h); err != nil {
				h.Release()
			}
		case h := <-scored:
			if err = l.take(ctx, h); err != nil {
				h.Release()
			}
		case <-tick.C:
			err = l.closeSetAside(ctx)
		}
		if err == nil {
			err = l.ship(ctx)
		}
		if err != nil {
			return err
		}
	}
}

func (l *Leader) openGroups() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.books.open()
}

// admit creates the dispatch of a prompt. A prompt that the ledger knows already was admitted by a
// leader that died before the ack: it is published again, which the queue recognises.
func (l *Leader) admit(ctx context.Context, h Held[BacklogItem]) error {
	if h.Value.Final {
		if err := l.record(ctx, Event{Kind: InputEnded}); err != nil {
			return err
		}
		return h.Ack(ctx)
	}
	p := h.Value.Prompt
	d := l.dispatch(*p)
	l.mu.Lock()
	_, left := l.books.closed[d.ID]
	index, known := l.books.index[d.ID]
	if d.Index = index; !known {
		d.Index = int64(len(l.books.sizes))
	}
	l.mu.Unlock()
	if left {
		return h.Ack(ctx)
	}
	if !known {
		e := Event{Kind: Admitted, Dispatch: d.ID, PromptID: p.ID, Rollouts: d.GroupSize}
		if err := l.record(ctx, e); err != nil {
			return err
		}
	}
	if err := l.deps.Streams.Publish(ctx, d); err != nil {
		return err
	}
	return h.Ack(ctx)
}

func (l *Leader) dispatch(p task.Prompt) task.Dispatch {
	id := task.NewDispatchID(p.ID, 0)
	h := fnv.New64a()
	_, _ = h.Write([]byte(id))
	return task.Dispatch{
		ID: id, Run: l.cfg.Run, Prompt: p, GroupSize: l.cfg.GroupSize,
		// Seeds hang on the dispatch's name, not on the order of arrival.
		Seed: l.cfg.Seed ^ int64(h.Sum64()>>1),
	}
}

// take archives a scored group and buffers it, or closes it when it cannot be delivered.
func (l *Leader) take(ctx context.Context, h Held[trajectory.ScoredGroup]) error {
	id := h.Value.Group.Dispatch.ID
	l.mu.Lock()
	_, left := l.books.closed[id]
	_, admitted := l.books.sizes[id]
	l.mu.Unlock()
	if left || !admitted || l.buffered(id) {
		return h.Ack(ctx) // a repeat: our record decides, not the broker's window
	}
	if err := l.deps.Archive(h.Value); err != nil {
		return err
	}
	_, err := dataset.Rows(h.Value, 0, l.rowOptions())
	var few *dataset.TooFewValidError
	var row *dataset.RowError
	switch {
	case errors.As(err, &few), errors.As(err, &row):
		l.deps.Log.Warn("group failed", zap.String("dispatch", id), zap.Error(err))
		outcomes := undelivered(outcomesOf(h.Value.Scores))
		if err := l.record(ctx, Event{Kind: Closed, Dispatch: id, Outcomes: outcomes, Reason: err.Error()}); err != nil {
			return err
		}
		return h.Ack(ctx)
	case err != nil:
		return err
	}
	l.buffer = append(l.buffer, h)
	return nil
}

func (l *Leader) buffered(id string) bool {
	for _, h := range l.buffer {
		if h.Value.Group.Dispatch.ID == id {
			return true
		}
	}
	return false
}

func (l *Leader) rowOptions() dataset.RowOptions {
	return dataset.RowOptions{Limits: l.cfg.Limits, MinValid: l.cfg.MinValid, FillLost: l.cfg.FillLost}
}

// ship writes full batches, oldest groups first, and partial ones when nothing else can arrive. What
// holds for a whole batch (model, tokenizer, reward preset) must be equal in all its groups.
func (l *Leader) ship(ctx context.Context) error {
	for {
		batch := l.nextBatch()
		if len(batch) == 0 {
			return nil
		}
		if err := l.write(ctx, batch); err != nil {
			return err
		}
		l.buffer = slices.DeleteFunc(l.buffer, func(h Held[trajectory.ScoredGroup]) bool {
			return slices.ContainsFunc(batch, func(b Held[trajectory.ScoredGroup]) bool {
				return b.Value.Group.Dispatch.ID == h.Value.Group.Dispatch.ID
			})
		})
	}
}

func (l *Leader) nextBatch() []Held[trajectory.ScoredGroup] {
	last := l.lastGroups()
	alike := map[dataset.Meta][]Held[trajectory.ScoredGroup]{}
	var order []dataset.Meta
	for _, h := range l.buffer {
		m := l.meta(h)
		if len(alike[m]) == 0 {
			order = append(order, m)
		}
		if alike[m] = append(alike[m], h); len(alike[m]) == l.cfg.BatchGroups {
			return alike[m]
		}
	}
	if last && len(order) > 0 {
		return alike[order[0]]
	}
	return nil
}

func (l *Leader) meta(h Held[trajectory.ScoredGroup]) dataset.Meta {
	return dataset.MetaOf(h.Value, l.cfg.Limits, l.cfg.Overlong)
}

// lastGroups: the input ended and every open group stands in the buffer.
func (l *Leader) lastGroups() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.books.ended && l.books.open() == len(l.buffer)
}

func (l *Leader) write(ctx context.Context, held []Held[trajectory.ScoredGroup]) error {
	record, data, err := l.encode(held)
	if err != nil {
		return err
	}
	if err := l.deps.Objects.Put(ctx, record.Object, data); err != nil {
		return err
	}
	if err := l.deps.Batches.Append(ctx, record); err != nil {
		return err
	}
	if l.deps.Wrote != nil {
		l.deps.Wrote(record)
	}
	l.update(func(b *books) { b.batch(record) })
	l.deps.Log.Info("batch written", zap.Int64("sequence", record.Sequence), zap.Int("groups", len(held)),
		zap.Int("rows", record.Rows), zap.Int64("bytes", record.Size))
	for _, h := range held {
		if err := h.Ack(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (l *Leader) encode(held []Held[trajectory.ScoredGroup]) (BatchRecord, []byte, error) {
	l.mu.Lock()
	sequence := int64(len(l.books.batches)) + 1
	l.mu.Unlock()
	r := BatchRecord{Sequence: sequence, Epoch: l.deps.Epoch}
	r.Object = fmt.Sprintf("batches/%s-e%d-%06d.parquet", l.cfg.Run, r.Epoch, r.Sequence)
	var rows []dataset.Row
	for _, h := range held {
		// row_idx is the rollout's position in the run, whichever batch it lands in.
		d := h.Value.Group.Dispatch
		g, err := dataset.Rows(h.Value, int(d.Index)*d.GroupSize, l.rowOptions())
		if err != nil {
			return r, nil, err
		}
		rows = append(rows, g...)
		r.Groups = append(r.Groups, BatchGroup{Dispatch: h.Value.Group.Dispatch.ID, Outcomes: outcomesOf(h.Value.Scores)})
	}
	r.Rows = len(rows)
	for i, row := range rows {
		if i == 0 {
			r.PolicyVersionMin, r.PolicyVersionMax = row.PolicyVersionMin, row.PolicyVersionMax
		}
		r.PolicyVersionMin = min(r.PolicyVersionMin, row.PolicyVersionMin)
		r.PolicyVersionMax = max(r.PolicyVersionMax, row.PolicyVersionMax)
	}
	var buf bytes.Buffer
	if err := l.deps.Encode(&buf, l.meta(held[0]), rows); err != nil {
		return r, nil, err
	}
	sum := sha256.Sum256(buf.Bytes())
	r.Size, r.SHA256 = int64(buf.Len()), hex.EncodeToString(sum[:])
	return r, buf.Bytes(), nil
}

// closeSetAside closes the groups that were set aside since the last look.
func (l *Leader) closeSetAside(ctx context.Context) error {
	aside, err := l.deps.Streams.SetAside(ctx)
	if err != nil {
		return err
	}
	for id := range aside {
		l.mu.Lock()
		n, admitted := l.books.sizes[id]
		_, left := l.books.closed[id]
		l.mu.Unlock()
		if !admitted || left {
			continue
		}
		e := Event{Kind: Closed, Dispatch: id, Outcomes: Outcomes{SetAside: n}, Reason: "set aside"}
		if err := l.record(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

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
