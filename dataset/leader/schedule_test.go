package leader

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/verigraph/verigraph/dataset"
	"github.com/verigraph/verigraph/dataset/dispatch"
	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

// world is everything outside one leader, simulated step by step: queues, workers with their own
// clocks and versions, a trainer, and logs that survive the leader.
type world struct {
	rng     *rand.Rand
	cfg     Config
	events  []Event
	batches []BatchRecord
	// prompts wait in the backlog; running groups are at workers, scored ones in the SCORED queue.
	prompts []BacklogItem
	running []task.Dispatch
	scored  []trajectory.ScoredGroup
	aside   map[string]bool
	version int64
	l       *Leader
	heldP   map[string]BacklogItem            // taken, not acknowledged
	heldS   map[string]trajectory.ScoredGroup // taken, not acknowledged
	failing bool
}

func (w *world) NextPrompt(context.Context) (Held[BacklogItem], error) { panic("driven by hand") }
func (w *world) NextScored(context.Context) (Held[trajectory.ScoredGroup], error) {
	panic("driven by hand")
}
func (w *world) Put(context.Context, string, []byte) error { return nil }

func (w *world) Publish(_ context.Context, d task.Dispatch) error {
	if w.failing {
		return fmt.Errorf("broker away")
	}
	w.running = append(w.running, d)
	return nil
}

func (w *world) Waiting(context.Context) (int, error) {
	n := len(w.prompts) + len(w.heldP)
	if _, held := w.heldP["final"]; held {
		n--
	}
	for _, p := range w.prompts {
		if p.Final {
			n--
		}
	}
	return n, nil
}

func (w *world) SetAside(context.Context) (map[string]bool, error) { return w.aside, nil }

func (w *world) OpenLeases(context.Context) (map[string]bool, error) {
	open := map[string]bool{}
	for _, d := range w.running {
		open[d.ID] = true
	}
	for _, g := range w.scored {
		open[g.Group.Dispatch.ID] = true
	}
	for id := range w.heldS {
		open[id] = true
	}
	for id := range w.aside { // until the leader has noticed
		open[id] = true
	}
	for _, p := range w.prompts { // admitted and not published: the prompt is still in the backlog
		if p.Prompt != nil {
			open[task.NewDispatchID(p.Prompt.ID, 0)] = true
		}
	}
	for id := range w.heldP {
		open[task.NewDispatchID(id, 0)] = true
	}
	return open, nil
}

type worldLog[T any] struct {
	w    *world
	into *[]T
}

func (l worldLog[T]) Append(_ context.Context, e T) error {
	if l.w.failing {
		return fmt.Errorf("broker away")
	}
	*l.into = append(*l.into, e)
	return nil
}

// start begins a new leader from the logs; what the old one held comes back.
func (w *world) start(t *testing.T) {
	for _, p := range w.heldP {
		w.prompts = append([]BacklogItem{p}, w.prompts...)
	}
	for _, g := range w.heldS {
		w.scored = append(w.scored, g)
	}
	w.heldP, w.heldS, w.failing = map[string]BacklogItem{}, map[string]trajectory.ScoredGroup{}, false
	var err error
	w.l, err = New(w.cfg, Deps{
		Streams: w, Ledger: worldLog[Event]{w, &w.events}, Batches: worldLog[BatchRecord]{w, &w.batches}, Objects: w,
		Encode:  func(*bytes.Buffer, dataset.Meta, []dataset.Row) error { return nil },
		Archive: func(trajectory.ScoredGroup) error { return nil }, Log: zap.NewNop(),
	}, w.events, w.batches)
	require.NoError(t, err)
}

func (w *world) takePrompt() {
	if len(w.prompts) == 0 || w.l.pools.Len() >= window {
		return
	}
	item := w.prompts[0]
	w.prompts = w.prompts[1:]
	key := "final"
	if item.Prompt != nil {
		key = item.Prompt.ID
	}
	w.heldP[key] = item
	w.l.hold(Held[BacklogItem]{
		Value: item, Ack: func(context.Context) error { delete(w.heldP, key); return nil },
		Release: func() {},
	})
}

func (w *world) takeScored(ctx context.Context) error {
	if len(w.scored) == 0 {
		return nil
	}
	i := w.rng.IntN(len(w.scored))
	g := w.scored[i]
	w.scored = append(w.scored[:i:i], w.scored[i+1:]...)
	id := g.Group.Dispatch.ID
	if _, twice := w.heldS[id]; twice {
		return nil // the broker holds one copy per subject
	}
	w.heldS[id] = g
	return w.l.take(ctx, Held[trajectory.ScoredGroup]{
		Value: g, Ack: func(context.Context) error { delete(w.heldS, id); return nil }, Release: func() {},
	})
}

// finish ends a random running group: scored with or without variance, partly lost, or set aside.
func (w *world) finish() {
	if len(w.running) == 0 {
		return
	}
	i := w.rng.IntN(len(w.running))
	d := w.running[i]
	if w.rng.IntN(12) == 0 { // an attempt that is repeated later: the message stays
		w.scored = append(w.scored, w.group(d))
		return
	}
	w.running = append(w.running[:i:i], w.running[i+1:]...)
	if w.rng.IntN(15) == 0 {
		w.aside[d.ID] = true
		return
	}
	w.scored = append(w.scored, w.group(d))
}

func (w *world) group(d task.Dispatch) trajectory.ScoredGroup {
	g := trajectory.ScoredGroup{Group: trajectory.Group{
		Dispatch: d, Model: "m", Sampling: trajectory.Sampling{Temperature: 1, TopP: 1, RepetitionPenalty: 1},
	}}
	same := w.rng.IntN(3) == 0
	for i := range d.GroupSize {
		status := trajectory.ScoreOK
		if w.rng.IntN(10) == 0 {
			status = trajectory.ScoreLost
		}
		value := float64(i % 2)
		if same {
			value = 1
		}
		// Sampled between dispatch and now.
		version := d.PolicyVersion
		if w.version > version {
			version += w.rng.Int64N(w.version - version + 1)
		}
		t := trajectory.Trajectory{
			ID: task.RolloutID{Run: d.Run, Dispatch: d.ID, Sample: i}, PromptID: d.Prompt.ID, Termination: trajectory.NoSubmission,
			Turns: []trajectory.Turn{{Text: "x", SampledIDs: 1}},
			Segments: []trajectory.Segment{{
				PromptIDs: []int32{1}, ResponseIDs: []int32{2}, ResponseMask: []int8{1}, LogProbs: []float32{-1},
				Spans: []trajectory.Span{{End: 1, Kind: trajectory.SpanSampled, PolicyVersion: version, PolicyVersionEnd: version}},
			}},
		}
		t.Graph.SubmitTurn = -1
		g.Group.Trajectories = append(g.Group.Trajectories, t)
		g.Scores = append(g.Scores, trajectory.Score{Status: status, Reward: value, Accuracy: value, TurnRewards: []float64{0}})
	}
	return g
}

// check holds after every step.
func (w *world) check(t *testing.T, seed uint64) {
	leases, _ := w.OpenLeases(t.Context())
	ledger := w.l.books.ledger(leases)
	require.True(t, ledger.Balanced(), "seed %d: %+v", seed, ledger)
	require.LessOrEqual(t, w.l.books.openTraining(), w.cfg.MaxGroups, "seed %d: more groups than allowed", seed)
	seen := map[string]bool{}
	for _, b := range w.batches {
		require.NotEmpty(t, b.Groups, "seed %d: an empty batch", seed)
		for _, g := range b.Groups {
			require.False(t, seen[g.Dispatch], "seed %d: %s is delivered twice", seed, g.Dispatch)
			seen[g.Dispatch] = true
		}
		if w.cfg.MaxStaleness != dispatch.Unbounded && !b.Validate {
			require.LessOrEqual(t, b.Policy.Version-b.PolicyVersionMin, int64(w.cfg.MaxStaleness), "seed %d: batch %d is too old", seed, b.Sequence)
		}
	}
}

// Over random schedules of workers, trainer, broker outages and leader crashes: the ledger always
// balances, nothing is delivered twice or too old, and in the end everything has left.
func TestLedgerAgeBoundAndLivenessHoldOverRandomSchedules(t *testing.T) {
	t.Parallel()
	schedules := uint64(10_000)
	if testing.Short() {
		schedules = 500
	}
	for seed := range schedules {
		runSchedule(t, seed)
	}
}

func runSchedule(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	cfg := Defaults()
	cfg.Run, cfg.GroupSize = "r", 2
	cfg.BatchGroups = 1 + rng.IntN(3)
	cfg.MaxGroups = cfg.BatchGroups + rng.IntN(4)
	cfg.MaxStaleness = rng.IntN(4) - 1
	cfg.Filter.Enabled = rng.IntN(2) == 0
	cfg.Filter.MaxRounds = rng.IntN(4)
	cfg.Filter.Exhausted = []dispatch.Exhausted{dispatch.ExhaustedPartial, dispatch.ExhaustedSkip}[rng.IntN(2)]
	w := &world{rng: rng, cfg: cfg, aside: map[string]bool{}, heldP: map[string]BacklogItem{}, heldS: map[string]trajectory.ScoredGroup{}}
	n := 1 + rng.IntN(10)
	for i := range n {
		w.prompts = append(w.prompts, BacklogItem{Prompt: &task.Prompt{ID: fmt.Sprint(i)}, Validate: rng.IntN(6) == 0})
	}
	w.prompts = append(w.prompts, BacklogItem{Final: true})
	w.start(t)
	ctx := t.Context()
	var trained int64
	for step := 0; !w.l.Complete() || w.l.books.open() > 0; step++ {
		require.Less(t, step, 5_000, "seed %d: the run does not end", seed)
		calm := step > 300 // liveness: in the end the world is kind
		var err error
		switch what := rng.IntN(20); {
		case what < 4:
			w.takePrompt()
		case what < 9:
			w.finish()
		case what < 14:
			err = w.takeScored(ctx)
		case what < 16:
			err = w.l.closeSetAside(ctx)
		case what == 16 && !calm:
			w.failing = true
		case what == 17 && !calm:
			w.start(t)
		default: // the trainer takes a batch and moves on, or is slow
			if int64(len(w.batches)) > trained || rng.IntN(8) == 0 {
				trained = int64(len(w.batches))
				w.version++
				err = w.l.record(ctx, Event{Kind: PolicySet, Version: w.version})
			}
		}
		if err == nil {
			err = w.l.settle(ctx)
		}
		if err != nil || w.failing && rng.IntN(3) == 0 {
			w.start(t) // a leader that cannot write ends; the next one takes over
		}
		if w.version > w.l.books.policy.Version && !w.failing {
			require.NoError(t, w.l.record(ctx, Event{Kind: PolicySet, Version: w.version}))
		}
		w.check(t, seed)
	}
	require.Zero(t, w.l.books.ledger(nil).InFlight, "seed %d", seed)
	require.Len(t, w.l.books.sizes, n, "seed %d: every prompt was dispatched", seed)
}
