package rollout

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

// Journal makes what was sampled survive its worker. It holds, for each rollout, what the machine was
// told, in order: every answer of the policy and every observation, each durable before the machine goes
// on. Who opens a rollout's journal goes on where it ends. Safe for concurrent use.
type Journal interface {
	// Open takes the journal of a rollout over and gives what it holds: from then on the writer before
	// fails with lease.ErrSuperseded.
	Open(ctx context.Context, id task.RolloutID) (Recorder, []Entry, error)
	// Forget frees the journals of a group.
	Forget(ctx context.Context, d task.Dispatch) error
}

// JournalMode says whether turns are kept.
type JournalMode string

// Journal modes.
const (
	JournalOn  JournalMode = "on"
	JournalOff JournalMode = "off"
)

// Recorder appends to the journal of one rollout; the entry is durable when it returns. It waits for a
// broker that is away, and fails only with lease.ErrSuperseded or the end of ctx.
type Recorder interface {
	Append(ctx context.Context, e Entry) error
}

// Entry is one entry of a rollout's journal. One of the pointers and Lost is set.
type Entry struct {
	Attempt  int                    `json:"attempt"`
	Turn     int                    `json:"turn"`
	Sampled  *Answer                `json:"sampled,omitempty"`
	Observed *Observed              `json:"observed,omitempty"`
	Finished *trajectory.Trajectory `json:"finished,omitempty"`
	// Lost is why the attempt ended for our reasons: the next one begins anew.
	Lost string `json:"lost,omitempty"`
}

// Answer is a policy call's answer as the machine took it.
type Answer struct {
	// Context is the SHA-256 of the ids that were sent.
	Context    string        `json:"context"`
	IDs        []int32       `json:"ids"`
	LogProbs   []float32     `json:"log_probs"`
	Finish     string        `json:"finish"`
	StopString string        `json:"stop_string,omitempty"`
	Duration   time.Duration `json:"duration"`
	Version    int64         `json:"version"`
	VersionEnd int64         `json:"version_end"`
}

// Observed is what a cell came to.
type Observed struct {
	Text   string                `json:"text"`
	Status trajectory.CellStatus `json:"status"`
	ToolS  float64               `json:"tool_s"`
}

// record is a rollout's journal in the hands of its worker. A nil one records nothing.
type record struct {
	to       Recorder
	attempt  int // the one to begin with
	finished *trajectory.Trajectory
	past     []Entry // of that attempt, not yet told to the machine again
	began    time.Time
	// restarted counts what is given up.
	restarted func(Restart)
}

// openRecord takes a rollout over.
func openRecord(ctx context.Context, j Journal, id task.RolloutID) (*record, error) {
	if j == nil {
		return nil, nil
	}
	to, entries, err := j.Open(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("journal: %s: %w", id, err)
	}
	r := &record{to: to, began: time.Now()}
	for _, e := range entries {
		switch {
		case e.Finished != nil:
			r.finished = e.Finished
		case e.Lost != "":
			r.attempt, r.past = e.Attempt+1, nil
		case e.Attempt != r.attempt:
			r.attempt, r.past = e.Attempt, []Entry{e}
		default:
			r.past = append(r.past, e)
		}
	}
	return r, nil
}

// append makes an entry durable.
func (r *record) append(ctx context.Context, e Entry) error {
	if r == nil {
		return nil
	}
	if err := r.to.Append(ctx, e); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	return nil
}

// next takes the oldest entry that the machine was not told again, if there is one.
func (r *record) next() (Entry, bool) {
	if r == nil || len(r.past) == 0 {
		return Entry{}, false
	}
	e := r.past[0]
	r.past = r.past[1:]
	return e, true
}

// end records how an attempt ended. What the end of the context cut off is not over: the next worker goes
// on with it.
func (r *record) end(ctx context.Context, t trajectory.Trajectory) error {
	switch {
	case r == nil || ctx.Err() != nil || t.Termination == trajectory.Stale:
		return nil
	case t.Termination.Rewarded():
		return r.append(ctx, Entry{Attempt: t.Attempt, Turn: len(t.Turns), Finished: &t})
	}
	r.past = nil
	return r.append(ctx, Entry{Attempt: t.Attempt, Turn: len(t.Turns), Lost: string(t.Termination) + ": " + t.Error})
}

// first is the number of the attempt to begin with.
func (r *record) first() int {
	if r == nil {
		return 0
	}
	return r.attempt
}

// Resumed counts rollouts whose journal held something when a worker took them.
type Resumed struct {
	// Kept were finished, Continued went on from their recorded turns.
	Kept, Continued atomic.Int64

	mu       sync.Mutex
	restarts map[Restart]int64
}

func (c *Resumed) restarted(why Restart) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.restarts == nil {
		c.restarts = map[Restart]int64{}
	}
	c.restarts[why]++
}

// Restarts counts the rollouts that began anew, by reason.
func (c *Resumed) Restarts() map[Restart]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.restarts)
}

// open takes a member over from the worker that had it before.
func (g *GroupRunner) open(ctx context.Context, d task.Dispatch, sample int) (*record, error) {
	id := task.RolloutID{Run: d.Run, Dispatch: d.ID, Sample: sample}
	rec, err := openRecord(ctx, g.Journal, id)
	if err != nil || rec == nil {
		return nil, err
	}
	rec.restarted = g.Resumed.restarted
	switch {
	case rec.finished != nil:
		g.Resumed.Kept.Add(1)
		g.Log.Info("finished rollout kept", zap.Stringer("rollout_id", id))
	case len(rec.past) > 0:
		g.Resumed.Continued.Add(1)
		g.Log.Info("rollout goes on from its journal", zap.Stringer("rollout_id", id), zap.Int("attempt", rec.attempt),
			zap.Int("turn", rec.past[len(rec.past)-1].Turn), zap.Int("entries", len(rec.past)))
	}
	return rec, nil
}
