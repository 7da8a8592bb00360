package leader

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

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
		dropped, err := w.leader.Restore(ctx, tr.step, base, Policy{Version: tr.version, Incarnation: tr.incarnation}, w.mode)
		w.checkDropped(dropped)
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
	w.cfg.Run, w.cfg.GroupSize, w.cfg.BatchGroups = "r", pick(2, 3), pick(1, 2, 3)
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
	n := 3 + w.rng.IntN(10)
	hurried := w.rng.IntN(16) == 0 // the trainer is fast, and a task takes as long as many of its steps
	if hurried {
		n = 40
		w.cfg.BatchGroups, w.cfg.MaxGroups, w.cfg.MaxStaleness, w.cfg.Stragglers = 1, 4, 1, StragglersDrop
		w.cfg.Filter.Enabled = false
	}
	for i := range n {
		id := strconv.Itoa(i)
		w.durable.backlog = append(w.durable.backlog, BacklogItem{
			Prompt:   &task.Prompt{ID: id, Question: "q", DataSource: []string{"a", "b"}[w.rng.IntN(2)]},
			Validate: w.rng.IntN(8) == 0, Priority: w.rng.IntN(2),
		})
		w.long[id] = w.rng.IntN(5) == 0
		if hurried {
			w.long[id] = i == 1
		}
		w.prompts = append(w.prompts, id)
		if w.rng.IntN(10) == 0 { // it stands there twice
			w.durable.backlog = append(w.durable.backlog, w.durable.backlog[w.rng.IntN(len(w.durable.backlog))])
		}
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
		w.checkComplete()
	}
	w.faults = 0
	for range 5000 {
		w.now = w.now.Add(time.Second)
		did := w.deliverPrompt()
		did = w.finishWork() || did
		did = w.deliverScored() || did
		did = w.train() || did
		w.step(w.leader.closeSetAside)
		w.checkComplete()
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

// TestRandomSchedulesKeepTheLedgerTheAgeBoundAndLiveness plays schedules with crashes of leader and
// trainer, restores, filters and new versions. VERIGRAPH_SEED replays a single one.
func TestRandomSchedulesKeepTheLedgerTheAgeBoundAndLiveness(t *testing.T) {
	t.Parallel()
	first, n := uint64(0), uint64(10_000)
	if testing.Short() {
		n = 1000
	}
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
