package leader

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/verigraph/verigraph/dataset"
	"github.com/verigraph/verigraph/dataset/feed"
	"github.com/verigraph/verigraph/internal/patience"
	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

var errCrash = errors.New("crash")

// world is everything that survives a crash of the leader, with a clock that only the test moves.
type world struct {
	t       *testing.T
	rng     *rand.Rand
	cfg     Config
	seed    uint64
	now     time.Time
	faults  float64
	started float64 // faults at the start
	durable struct {
		events  []Event
		batches []BatchRecord
		objects map[string]int
		backlog []BacklogItem // nil prompt and not final: acknowledged
		work    map[string]job
		scored  map[string]trajectory.ScoredGroup
		aside   map[string]bool
	}
	leader  *Leader
	read    int             // how far this leader has read the backlog
	held    map[string]bool // scored groups that this leader holds
	long    map[string]bool // prompts whose rollouts take long
	mode    RestoreMode
	trainer struct {
		version, step, incarnation int64
		position                   feed.Position
		seen                       []string
		made                       []int    // which weights each version is; a life after a restore makes others
		kept                       struct { // the last checkpoint
			version, step int64
			seen          []string
		}
	}
	prompts []string           // of the backlog
	weights int                // made so far
	facts   map[string]sampled // by dispatch, as the workers know it
}

// sampled is what is known of a scored group without asking the leader.
type sampled struct {
	oldest   int64
	weights  []int // that its tokens are of
	validate bool
	varies   bool
	rewarded int // members
}

// job is a group in the hands of a worker.
type job struct {
	d       task.Dispatch
	due     time.Time
	started int64 // policy version
	weights int
}

// fault says whether an effect happens and whether it is reported: a crash may fall before or after it.
func (w *world) fault(effect func()) error {
	switch r := w.rng.Float64(); {
	case r < w.faults/2:
		return errCrash
	case r < w.faults:
		effect()
		return errCrash
	}
	effect()
	return nil
}

func (w *world) NextPrompt(context.Context) (Held[BacklogItem], error) { panic("not used") }

func (w *world) NextScored(context.Context) (Held[trajectory.ScoredGroup], error) { panic("not used") }

func (w *world) Publish(_ context.Context, d task.Dispatch) error {
	return w.fault(func() {
		w.checkPublished(d)
		took := time.Duration(1+w.rng.IntN(6)) * time.Second
		if w.long[d.Prompt.ID] {
			took *= 12
		}
		w.durable.work[d.ID] = job{d, w.now.Add(took), w.trainer.version, w.trainer.made[w.trainer.version]}
	})
}

func (w *world) SetAside(context.Context) (map[string]bool, error) {
	var out map[string]bool
	return out, w.fault(func() { out = maps.Clone(w.durable.aside) })
}

func (w *world) ForgetSetAside(_ context.Context, id string) error {
	return w.fault(func() { delete(w.durable.aside, id) })
}

func (w *world) OpenLeases(context.Context) (map[string]bool, error) {
	out := map[string]bool{}
	for id := range w.durable.work {
		out[id] = true
	}
	for id := range w.durable.scored {
		out[id] = true
	}
	return out, nil
}

func (w *world) Put(_ context.Context, name string, data []byte) error {
	return w.fault(func() { w.durable.objects[name] = len(data) })
}

func (w *world) Delete(_ context.Context, name string) error {
	return w.fault(func() { delete(w.durable.objects, name) })
}

type simLog[T any] struct {
	w    *world
	into *[]T
}

func (l simLog[T]) Append(_ context.Context, e T) error {
	return l.w.fault(func() { *l.into = append(*l.into, e) })
}

// lead replaces the leader, as a crash and a restart do.
func (w *world) lead() {
	d := &w.durable
	w.held, w.read = map[string]bool{}, 0
	l, err := New(w.cfg, Deps{
		Streams: w, Ledger: simLog[Event]{w, &d.events}, Batches: simLog[BatchRecord]{w, &d.batches}, Objects: w,
		Encode: func(b *bytes.Buffer, _ dataset.Meta, rows []dataset.Row) error {
			_, err := fmt.Fprint(b, len(rows))
			return err
		},
		Archive: func(trajectory.ScoredGroup) error { return nil },
		Epoch:   1, Log: zap.NewNop(), Now: func() time.Time { return w.now }, Wrote: w.wrote,
	}, w.readAlong())
	require.NoError(w.t, err)
	w.leader = l
	w.step(func(ctx context.Context) error { return l.recover(ctx) })
}

// readAlong reads the logs as a server that stands by does, in parts of any size, either log before or behind the other.
func (w *world) readAlong() *History {
	cuts := rand.New(rand.NewPCG(uint64(len(w.durable.events)), uint64(len(w.durable.batches))))
	h, events, batches := NewHistory(nil, nil), slices.Clone(w.durable.events), slices.Clone(w.durable.batches)
	for len(events)+len(batches) > 0 {
		e, b := cuts.IntN(len(events)+1), cuts.IntN(len(batches)+1)
		h.Add(events[:e], batches[:b])
		events, batches = events[e:], batches[b:]
	}
	return h
}

// step lets the leader do one thing and then all that follows from it; an error is its end.
func (w *world) step(f func(context.Context) error) {
	if err := f(w.t.Context()); err == nil {
		if err = w.leader.settle(w.t.Context()); err == nil {
			return
		}
	}
	w.lead()
}

// call runs a call of the outside in the leader's loop. It reports whether the leader answered well.
func (w *world) call(f func(context.Context) error) bool {
	done := make(chan error, 1)
	go func() { done <- f(w.t.Context()) }()
	fatal := w.leader.command(w.t.Context(), <-w.leader.commands)
	err := patience.Receive(w.t, done, "its end")
	if errors.Is(err, ErrRefused) {
		w.fail("a call of the trainer was refused: %v", err)
	}
	w.step(func(context.Context) error { return fatal })
	return err == nil
}

func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("seed %d: "+format, append([]any{w.seed}, args...)...)
}

func (w *world) deliverPrompt() bool {
	for w.read < len(w.durable.backlog) {
		i := w.read
		w.read++
		it := w.durable.backlog[i]
		if it.Prompt == nil && !it.Final {
			continue
		}
		h := Held[BacklogItem]{Value: it, Release: func() {}, Ack: func(context.Context) error {
			return w.fault(func() { w.durable.backlog[i] = BacklogItem{} })
		}}
		w.step(func(ctx context.Context) error { return w.leader.queue(ctx, h) })
		return true
	}
	return false
}

func (w *world) deliverScored() bool {
	ids := slices.Sorted(maps.Keys(w.durable.scored))
	if w.rng.IntN(10) > 0 { // else a hold was lost and the message comes again
		ids = slices.DeleteFunc(ids, func(id string) bool { return w.held[id] })
	}
	if len(ids) == 0 || w.now.Before(w.leader.retryAt) {
		return false
	}
	id := ids[w.rng.IntN(len(ids))]
	w.held[id] = true
	held := w.held // of this leader
	h := Held[trajectory.ScoredGroup]{Value: w.durable.scored[id], Release: func() { delete(held, id) }, Ack: func(context.Context) error {
		return w.fault(func() { delete(w.durable.scored, id); delete(held, id) })
	}, Drop: func() {}}
	w.step(func(ctx context.Context) error { return w.leader.take(ctx, h) })
	return true
}

// finishWork ends the groups that are due: scored, set aside, or once in a while twice.
func (w *world) finishWork() bool {
	did := false
	for _, id := range slices.Sorted(maps.Keys(w.durable.work)) {
		j := w.durable.work[id]
		if j.due.After(w.now) {
			continue
		}
		did = true
		if w.rng.IntN(40) == 0 {
			w.durable.aside[id] = true
			delete(w.durable.work, id)
			continue
		}
		if _, waits := w.durable.scored[id]; !waits { // the queue holds one for each dispatch
			w.durable.scored[id] = w.group(j)
		}
		if w.rng.IntN(20) > 0 { // else the worker died before its ack and the group is worked on again
			delete(w.durable.work, id)
		}
	}
	return did
}

func (w *world) group(j job) trajectory.ScoredGroup {
	newest := max(w.trainer.version, j.started)
	if w.rng.IntN(2) == 0 {
		newest = j.started
	}
	oldest := min(j.started, newest)
	fact := sampled{oldest: oldest, weights: []int{j.weights}, validate: j.d.Validate}
	if newest > j.started {
		fact.weights = append(fact.weights, w.trainer.made[newest])
	}
	accuracies := map[bool]bool{}
	g := trajectory.ScoredGroup{Group: trajectory.Group{Dispatch: j.d}}
	correct := w.rng.IntN(4)
	for i := range j.d.GroupSize {
		t := trajectory.Trajectory{
			ID: task.RolloutID{Run: j.d.Run, Dispatch: j.d.ID, Sample: i}, Termination: trajectory.Submitted,
			Segments: []trajectory.Segment{{
				PromptIDs: []int32{1}, ResponseIDs: []int32{2}, ResponseMask: []int8{1}, LogProbs: []float32{-1},
				Spans: []trajectory.Span{{End: 1, Kind: trajectory.SpanSampled, PolicyVersion: oldest, PolicyVersionEnd: newest}},
			}},
		}
		right := correct == 0 || correct > 1 && i == 0
		s := trajectory.Score{Status: trajectory.ScoreOK, Correct: &right}
		if right {
			s.Accuracy = 1
		}
		switch w.rng.IntN(30) {
		case 0:
			s.Status = trajectory.ScoreUnscored
		case 1:
			s.Status, t.Termination, t.Segments = trajectory.ScoreLost, trajectory.SandboxLost, nil
		case 2:
			t.Segments[0].ResponseIDs, t.Segments[0].ResponseMask = nil, nil // an empty completion with a reward
			t.Segments[0].LogProbs, t.Segments[0].Spans = nil, nil
		default:
			accuracies[right] = true
			fact.rewarded++
		}
		g.Group.Trajectories, g.Scores = append(g.Group.Trajectories, t), append(g.Scores, s)
	}
	fact.varies = len(accuracies) > 1
	if _, known := w.facts[j.d.ID]; !known { // a repeat comes after the first was put away for good
		w.facts[j.d.ID] = fact
	}
	return g
}
