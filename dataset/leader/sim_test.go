package leader

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/verigraph/verigraph/dataset"
	"github.com/verigraph/verigraph/dataset/feed"
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
	weights int                // made so far
	facts   map[string]sampled // by dispatch, as the workers know it
}

// sampled is what is known of a scored group without asking the leader.
type sampled struct {
	oldest   int64
	weights  []int // that its tokens are of
	validate bool
	varies   bool
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
		if _, waits := w.durable.work[d.ID]; waits {
			return
		}
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
	}, slices.Clone(d.events), slices.Clone(d.batches))
	require.NoError(w.t, err)
	w.leader = l
	w.step(func(ctx context.Context) error { return l.recover(ctx) })
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
	err := <-done
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
		}
		g.Group.Trajectories, g.Scores = append(g.Group.Trajectories, t), append(g.Scores, s)
	}
	fact.varies = len(accuracies) > 1
	if _, known := w.facts[j.d.ID]; !known { // a repeat comes after the first was put away for good
		w.facts[j.d.ID] = fact
	}
	return g
}

// wrote holds for a batch at the moment when it is there.
func (w *world) wrote(r BatchRecord) {
	if r.Validate || w.cfg.MaxStaleness == NoStaleness {
		return
	}
	dropped, ahead := w.dropped(), 0
	for _, b := range w.durable.batches {
		if !b.Validate && !dropped[b.Sequence] && b.Sequence > w.trainer.position.Acknowledged && b.Sequence < r.Sequence {
			ahead++
		}
	}
	if ahead > w.cfg.MaxStaleness {
		w.fail("batch %d is numbered while %d wait for the trainer, the bound is %d", r.Sequence, ahead, w.cfg.MaxStaleness)
	}
}

func (w *world) dropped() map[int64]bool {
	out := map[int64]bool{}
	for _, e := range w.durable.events {
		for _, seq := range e.Dropped {
			out[seq] = true
		}
	}
	return out
}

// checkGroup holds for a group at the moment when it is trained on.
func (w *world) checkGroup(seq int64, dispatch string) {
	f := w.facts[dispatch]
	if f.validate {
		w.fail("batch %d for training holds the validation group %s", seq, dispatch)
	}
	if w.cfg.Filter.Enabled && !f.varies {
		w.fail("batch %d holds %s, which does not vary", seq, dispatch)
	}
	if age := w.trainer.version - f.oldest; w.cfg.MaxStaleness != NoStaleness && age > int64(w.cfg.MaxStaleness) {
		w.fail("batch %d is trained on at age %d, the bound is %d", seq, age, w.cfg.MaxStaleness)
	}
	for _, weights := range f.weights {
		if w.mode == Regenerate && !slices.Contains(w.trainer.made[:w.trainer.version+1], weights) {
			w.fail("batch %d holds tokens of %s that a rolled-back policy sampled", seq, dispatch)
		}
	}
}

// train takes the next batch, if there is one, and makes a version of it.
func (w *world) train() bool {
	tr := &w.trainer
	for seq := tr.position.Acknowledged + 1; ; seq++ {
		r, dropped, ok := w.leader.Batch(seq)
		switch {
		case !ok:
			return false
		case dropped || r.Validate:
			continue
		}
		if _, stored := w.durable.objects[r.Object]; !stored {
			w.fail("batch %d is there and its object is not", seq)
		}
		for _, g := range r.Groups {
			w.checkGroup(seq, g.Dispatch)
			tr.seen = append(tr.seen, g.Dispatch)
		}
		tr.version, tr.step = tr.version+1, tr.step+1
		w.weights++
		tr.made = append(tr.made, w.weights)
		tr.position = tr.position.Ack(seq, tr.step)
		w.tell()
		return true
	}
}

// tell repeats SetPolicy until a leader has taken it.
func (w *world) tell() {
	tr := &w.trainer
	for !w.call(func(ctx context.Context) error {
		return w.leader.SetPolicy(ctx, Policy{Version: tr.version, Incarnation: tr.incarnation}, tr.position.Acknowledged)
	}) {
	}
}

func (w *world) checkpoint() {
	tr := &w.trainer
	tr.kept.version, tr.kept.step, tr.kept.seen = tr.version, tr.step, slices.Clone(tr.seen)
	if w.rng.IntN(2) > 0 { // else it dies before it can commit
		w.commit()
	}
}

func (w *world) commit() {
	tr := &w.trainer
	tr.position = tr.position.Commit(tr.step)
	for !w.call(func(ctx context.Context) error {
		_, err := w.leader.Commit(ctx, tr.step, tr.position.Committed.Sequence)
		return err
	}) {
	}
}

// crashTrainer goes back to the last checkpoint.
func (w *world) crashTrainer() {
	tr := &w.trainer
	tr.version, tr.step, tr.seen = tr.kept.version, tr.kept.step, slices.Clone(tr.kept.seen)
	tr.incarnation++
	tr.made = tr.made[:tr.version+1]
	base, err := tr.position.At(tr.step)
	require.NoError(w.t, err)
	for !w.call(func(ctx context.Context) error {
		_, err := w.leader.Restore(ctx, tr.step, base, Policy{Version: tr.version, Incarnation: tr.incarnation}, w.mode)
		return err
	}) {
	}
	tr.position, err = tr.position.Rewind(tr.step)
	require.NoError(w.t, err)
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 7)), long: map[string]bool{}, now: time.Unix(1000, 0)}
	pick := func(of ...int) int { return of[w.rng.IntN(len(of))] }
	w.cfg = Defaults()
	w.cfg.Run, w.cfg.GroupSize, w.cfg.BatchGroups = "r", 2, pick(1, 2, 3)
	w.cfg.MaxGroups = w.cfg.BatchGroups * pick(1, 2, 4)
	w.cfg.MaxStaleness = pick(NoStaleness, 0, 0, 1, 2, 4)
	w.cfg.Stragglers = []Stragglers{StragglersWait, StragglersDrop}[w.rng.IntN(2)]
	w.cfg.Filter.Enabled, w.cfg.Filter.MaxRounds = w.rng.IntN(2) == 0, pick(1, 2, 5)
	w.cfg.Filter.Exhausted = []Exhausted{ExhaustedPartial, ExhaustedSkip}[w.rng.IntN(2)]
	if w.rng.IntN(3) == 0 {
		w.cfg.Weights = map[string]float64{"a": 3}
	}
	w.mode = []RestoreMode{Regenerate, Replay}[w.rng.IntN(2)]
	w.facts, w.trainer.made = map[string]sampled{}, []int{0}
	w.durable.objects, w.durable.work = map[string]int{}, map[string]job{}
	w.durable.scored, w.durable.aside = map[string]trajectory.ScoredGroup{}, map[string]bool{}
	for i := range 3 + w.rng.IntN(10) {
		id := strconv.Itoa(i)
		w.durable.backlog = append(w.durable.backlog, BacklogItem{
			Prompt:   &task.Prompt{ID: id, Question: "q", DataSource: []string{"a", "b"}[w.rng.IntN(2)]},
			Validate: w.rng.IntN(8) == 0, Priority: w.rng.IntN(2),
		})
		w.long[id] = w.rng.IntN(5) == 0
	}
	w.durable.backlog = append(w.durable.backlog, BacklogItem{Final: true})
	w.faults = []float64{0, 0.02, 0.1}[w.rng.IntN(3)]
	w.started = w.faults
	return w
}

// play runs one schedule to its end.
func (w *world) play() {
	w.lead()
	for range 60 {
		w.now = w.now.Add(time.Duration(w.rng.IntN(3)) * time.Second)
		switch w.rng.IntN(12) {
		case 0, 1, 2:
			w.deliverPrompt()
		case 3, 4, 5:
			w.deliverScored()
		case 6, 7:
			w.finishWork()
		case 8, 9:
			w.train()
		case 10:
			w.step(w.leader.closeSetAside)
		case 11:
			switch {
			case w.faults == 0:
				w.checkpoint()
			case w.rng.IntN(3) == 0:
				w.lead()
			case w.rng.IntN(2) == 0:
				w.crashTrainer()
			default:
				w.checkpoint()
			}
		}
	}
	w.faults = 0
	for range 5000 {
		w.now = w.now.Add(time.Second)
		did := w.deliverPrompt()
		did = w.finishWork() || did
		did = w.deliverScored() || did
		did = w.train() || did
		w.step(w.leader.closeSetAside)
		if !did && w.leader.Complete() && !w.train() {
			if w.trainer.step > 0 {
				w.commit()
			}
			return
		}
	}
	p, _ := w.leader.Progress(w.t.Context())
	w.fail("the run never ends: %+v\nconfig %+v\nprogress %+v", w.leader.view, w.cfg, p)
}

// check holds for every schedule at rest.
func (w *world) check(report *lengthReport) {
	p, err := w.leader.Progress(w.t.Context())
	require.NoError(w.t, err)
	if !p.Ledger.Balanced() || p.Ledger.InFlight != 0 || len(w.durable.work)+len(w.durable.scored) > 0 {
		w.fail("ledger %+v with %d leases", p.Ledger, len(w.durable.work)+len(w.durable.scored))
	}
	again, _ := New(w.cfg, w.leader.deps, w.durable.events, w.durable.batches)
	if q, _ := again.Progress(w.t.Context()); q.Ledger != p.Ledger {
		w.fail("rebuilt ledger %+v, want %+v", q.Ledger, p.Ledger)
	}
	w.checkPrompts()
	var want []string
	for _, r := range w.leader.Batches() {
		_, stored := w.durable.objects[r.Object]
		if freed := !r.Validate && r.Sequence <= w.trainer.position.Committed.Sequence; freed == stored {
			w.fail("the object of batch %d (validation %t, committed %d) is stored: %t", r.Sequence, r.Validate, w.trainer.position.Committed.Sequence, stored)
		}
		if len(r.Groups) == 0 {
			w.fail("batch %d is empty", r.Sequence)
		}
		if r.Validate || w.leader.books.dropped[r.Sequence] {
			continue
		}
		for _, g := range r.Groups {
			want = append(want, g.Dispatch)
		}
	}
	if !slices.Equal(want, w.trainer.seen) {
		w.fail("the trainer's checkpoint lineage saw %v, the batches hold %v", w.trainer.seen, want)
	}
	if slices.Sort(want); len(slices.Compact(slices.Clone(want))) != len(want) {
		w.fail("a group was delivered twice: %v", want)
	}
	report.add(w)
}

// checkPrompts: a prompt is given up as stale after three further dispatches, not before, and never because of a restore.
func (w *world) checkPrompts() {
	const further = 3
	b := w.leader.books
	for _, d := range b.latest {
		if d.outcomes[Stale] > 0 && d.count < further {
			w.fail("prompt %s was given up after %d dispatches", d.promptID, d.count+1)
		}
	}
	for _, e := range w.durable.events {
		if e.Kind == Closed && e.Again && b.all[e.Dispatch].count >= further {
			w.fail("dispatch %s grew stale and comes again", e.Dispatch)
		}
		if e.Kind == Restored && w.mode == Replay && len(e.Dropped) > 0 {
			w.fail("a replay took batches %v back", e.Dropped)
		}
	}
}

// lengthReport counts prompts by how long their rollouts take.
type lengthReport struct {
	mu                sync.Mutex
	prompts, lost     map[string]int // by class: prompts, and those given up as stale
	stale, dispatches map[string]int
}

func (r *lengthReport) add(w *world) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range w.leader.books.latest {
		if d.validate || w.cfg.MaxStaleness == NoStaleness {
			continue
		}
		class := string(w.cfg.Stragglers) + "/short"
		if w.long[d.promptID] {
			class = string(w.cfg.Stragglers) + "/long"
		}
		r.prompts[class]++
		if d.outcomes[Stale] > 0 {
			r.lost[class]++
		}
		r.dispatches[class] += d.count + 1
		if w.started == 0 { // nothing crashed
			r.stale[class] += d.count
		}
	}
}

// TestRandomSchedulesKeepTheLedgerTheAgeBoundAndLiveness plays schedules with crashes of leader and
// trainer, restores, filters and new versions. VERIGRAPH_SEED replays a single one.
func TestRandomSchedulesKeepTheLedgerTheAgeBoundAndLiveness(t *testing.T) {
	t.Parallel()
	first, n := uint64(0), uint64(10_000)
	if s := os.Getenv("VERIGRAPH_SEED"); s != "" {
		v, err := strconv.ParseUint(s, 10, 64)
		require.NoError(t, err)
		first, n = v, 1
	}
	report := &lengthReport{prompts: map[string]int{}, lost: map[string]int{}, stale: map[string]int{}, dispatches: map[string]int{}}
	t.Run("schedules", func(t *testing.T) {
		const parts = 4
		for part := range uint64(parts) {
			t.Run(fmt.Sprint(part), func(t *testing.T) {
				t.Parallel()
				for seed := first + part; seed < first+n; seed += parts {
					w := newWorld(t, seed)
					w.play()
					w.check(report)
				}
			})
		}
	})
	for _, class := range slices.Sorted(maps.Keys(report.prompts)) {
		t.Logf("%s: %d prompts, %d dispatches, %d given up as stale; without crashes %d dispatched again",
			class, report.prompts[class], report.dispatches[class], report.lost[class], report.stale[class])
	}
	if n > 1 {
		require.Zero(t, report.stale["wait/long"], "long tasks are starved")
		require.Positive(t, report.stale["drop/long"], "nothing would have starved them")
	}
}
