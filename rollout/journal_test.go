package rollout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/verigraph/verigraph/internal/patience"
	"github.com/verigraph/verigraph/lease"
	"github.com/verigraph/verigraph/policy"
	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

// memoryJournal keeps entries as JSON, as the broker does. die is called before an append is stored, or
// after it, with the number of appends so far.
type memoryJournal struct {
	mu      sync.Mutex
	entries map[task.RolloutID][]string
	writer  map[task.RolloutID]int
	appends int
	before  func(n int) error
	after   func(n int)
	forgot  int
}

func newMemoryJournal() *memoryJournal {
	return &memoryJournal{entries: map[task.RolloutID][]string{}, writer: map[task.RolloutID]int{}}
}

func (j *memoryJournal) Open(_ context.Context, id task.RolloutID) (Recorder, []Entry, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.writer[id]++
	var out []Entry
	for _, s := range j.entries[id] {
		var e Entry
		if err := json.Unmarshal([]byte(s), &e); err != nil {
			return nil, nil, err
		}
		out = append(out, e)
	}
	return memoryRecorder{j, id, j.writer[id]}, out, nil
}

func (j *memoryJournal) Forget(context.Context, task.Dispatch) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.forgot++
	clear(j.entries)
	return nil
}

type memoryRecorder struct {
	j      *memoryJournal
	id     task.RolloutID
	writer int
}

func (r memoryRecorder) Append(ctx context.Context, e Entry) error {
	r.j.mu.Lock()
	defer r.j.mu.Unlock()
	n := r.j.appends
	r.j.appends++
	if r.j.before != nil {
		if err := r.j.before(n); err != nil {
			return err
		}
	}
	if r.writer != r.j.writer[r.id] {
		return lease.ErrSuperseded
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	data, err := json.Marshal(e)
	if err != nil {
		return err
	}
	r.j.entries[r.id] = append(r.j.entries[r.id], string(data))
	if r.j.after != nil {
		r.j.after(n)
	}
	return nil
}

func journaledGroup(r *rig, j Journal) *GroupRunner {
	return &GroupRunner{Runner: r.runner, Log: zap.NewNop(), Journal: j}
}

var oneRollout = task.Dispatch{ID: "p-0", Run: "r", GroupSize: 1, Prompt: task.Prompt{ID: "p", Question: "Q?"}}

// withoutTimes is what a crash must not change.
func withoutTimes(t trajectory.Trajectory) trajectory.Trajectory {
	t.Timing = trajectory.Timing{}
	t.Turns = append([]trajectory.Turn(nil), t.Turns...)
	for i := range t.Turns {
		t.Turns[i].GenerateS, t.Turns[i].ToolS = 0, 0
	}
	return t
}

func threeTurns() []reply { return []reply{cellReply("x"), cellReply("y"), cellReply("submit")} }

func TestRolloutThatLostItsWorkerAtAnyWriteEndsAsIfItHadNot(t *testing.T) {
	t.Parallel()
	r := newRig(t, threeTurns()...)
	whole := newMemoryJournal()
	want, err := journaledGroup(r, whole).Run(t.Context(), oneRollout, nil)
	require.NoError(t, err)
	require.Equal(t, trajectory.Submitted, want.Trajectories[0].Termination)
	require.Equal(t, 7, whole.appends, "an answer and an observation for each turn, and the end")
	for n := range whole.appends {
		for _, stored := range []bool{false, true} {
			t.Run(fmt.Sprintf("write %d stored %v", n, stored), func(t *testing.T) {
				ctx, die := context.WithCancel(t.Context())
				defer die()
				r := newRig(t, threeTurns()...)
				j := newMemoryJournal()
				if stored {
					j.after = func(k int) { onWrite(k, n, die) }
				} else {
					j.before = func(k int) error { onWrite(k, n, die); return ctx.Err() }
				}
				g := journaledGroup(r, j)
				_, err := g.Run(ctx, oneRollout, nil)
				require.ErrorIs(t, err, context.Canceled)
				lost := n%2 == 0 && n < 6 && !stored // an answer that was not durable is asked for again
				if lost {
					r.policy.replies = threeTurns()[n/2:]
				}
				j.before, j.after = nil, nil
				got, err := g.Run(t.Context(), oneRollout, nil)
				require.NoError(t, err)
				a, b := withoutTimes(want.Trajectories[0]), withoutTimes(got.Trajectories[0])
				if lost { // the fake's log-probs count its calls
					for i := range b.Segments {
						b.Segments[i].LogProbs = a.Segments[i].LogProbs
					}
				}
				require.Equal(t, a, b)
				calls := 3
				if lost {
					calls = 4
				}
				require.Len(t, r.policy.calls, calls)
				require.Empty(t, g.Resumed.Restarts())
				kept := n == 6 && stored
				goesOn := !kept && (n > 0 || stored)
				require.Equal(t, []bool{kept, goesOn}, []bool{g.Resumed.Kept.Load() == 1, g.Resumed.Continued.Load() == 1})
			})
		}
	}
}

func onWrite(k, n int, die func()) {
	if k == n {
		die()
	}
}

func TestRolloutWhoseCellComesToSomethingElseBeginsAnewWithAReason(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		then, now string
		context   string
		want      map[Restart]int64
		calls     int
	}{
		"another output":       {then: "41", now: "42", want: map[Restart]int64{RestartObservation: 1}, calls: 6},
		"an address":           {then: "<x at 0x7f0011223344>", now: "<x at 0x7f9988776655>", calls: 3},
		"other ids come first": {context: "Another question?", want: map[Restart]int64{RestartContext: 1}, calls: 6},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, die := context.WithCancel(t.Context())
			r := newRig(t, threeTurns()...)
			r.sandbox.output = c.then
			j := newMemoryJournal()
			j.after = func(n int) { onWrite(n, 4, die) }
			g := journaledGroup(r, j)
			_, err := g.Run(ctx, oneRollout, nil)
			require.ErrorIs(t, err, context.Canceled)
			require.Len(t, r.policy.calls, 3)

			if c.calls > 3 {
				r.policy.replies = threeTurns()
			}
			r.sandbox.output = c.now
			d := oneRollout
			if c.context != "" {
				d.Prompt.Question = c.context
			}
			got, err := g.Run(t.Context(), d, nil)
			require.NoError(t, err)
			require.Equal(t, trajectory.Submitted, got.Trajectories[0].Termination)
			require.Len(t, r.policy.calls, c.calls)
			require.Equal(t, c.want, g.Resumed.Restarts())
			require.Equal(t, len(c.want), got.Trajectories[0].Attempt)
		})
	}
}

func TestWorkerThatWokeUpTooLateStopsAtItsNextWriteAndDropsItsGroup(t *testing.T) {
	t.Parallel()
	r := newRig(t, threeTurns()...)
	j := newMemoryJournal()
	l := newLease(1)
	l.d.GroupSize = 1
	j.before = func(n int) error {
		if n == 3 { // another worker opens the journal meanwhile
			j.writer[task.RolloutID{Run: "r", Dispatch: "p-0"}]++
		}
		return nil
	}
	w := worker(r, fakeFiles{}, l)
	w.Runner.Journal = j
	require.Equal(t, "dropped", work(t, w, l))
	require.Len(t, r.policy.calls, 2, "nothing is sampled after that write")
	require.Zero(t, j.forgot, "the journal is the other one's")
}

func TestFinishedRolloutsOfAGroupAreKept(t *testing.T) {
	t.Parallel()
	j := newMemoryJournal()
	first := newRig(t, cellReply("submit"))
	one, err := journaledGroup(first, j).Run(t.Context(), oneRollout, nil)
	require.NoError(t, err)
	r := newRig(t, cellReply("submit"))
	l := newLease(1)
	w := worker(r, fakeFiles{}, l)
	w.Runner.Journal = j
	require.Equal(t, "finish", work(t, w, l))
	require.Len(t, r.policy.calls, 1, "the second member alone is sampled")
	require.Equal(t, one.Trajectories[0], l.group.Trajectories[0])
	require.EqualValues(t, 1, w.Runner.Resumed.Kept.Load())
	require.Equal(t, 1, j.forgot, "the group is durable")
}

func TestAttemptThatWasLostIsNotGoneOnFrom(t *testing.T) {
	t.Parallel()
	j := newMemoryJournal()
	r := newRig(t, cellReply("x"))
	r.runner.Config.MaxAttempts = 1
	r.sandbox.runErr = errors.New("no capacity")
	g := journaledGroup(r, j)
	got, err := g.Run(t.Context(), oneRollout, nil)
	require.NoError(t, err)
	require.Equal(t, trajectory.SandboxLost, got.Trajectories[0].Termination)

	r.sandbox.runErr, r.policy.replies = nil, threeTurns()
	got, err = g.Run(t.Context(), oneRollout, nil)
	require.NoError(t, err)
	require.Equal(t, trajectory.Submitted, got.Trajectories[0].Termination)
	require.Equal(t, 1, got.Trajectories[0].Attempt, "the next delivery counts on")
}

// tells is a lease whose Finish and SetAside look at the journal, and fail.
type tells struct {
	*fakeLease
	look func()
	err  error
}

func (l tells) Finish(ctx context.Context, g trajectory.Group) error {
	l.look()
	return errors.Join(l.err, l.fakeLease.Finish(ctx, g))
}

func (l tells) SetAside(ctx context.Context, reason string) error {
	l.look()
	return errors.Join(l.err, l.fakeLease.SetAside(ctx, reason))
}

func TestJournalIsFreedAfterItsGroupHasLeftAndNotBefore(t *testing.T) {
	t.Parallel()
	down := reply{err: &policy.Error{Outcome: policy.Unreachable, Err: errors.New("down")}}
	for name, c := range map[string]struct {
		replies []reply
		err     error
		forgot  int
	}{
		"it is in the next stage":           {replies: threeTurns(), forgot: 1},
		"the next stage is away":            {replies: threeTurns(), err: errors.New("away")},
		"it is set aside":                   {replies: []reply{down}, forgot: 1},
		"it is not set aside for some time": {replies: []reply{down}, err: errors.New("away")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newMemoryJournal()
			l := newLease(3)
			l.d.GroupSize = 1
			w := worker(newRig(t, c.replies...), fakeFiles{}, tells{l, func() {
				j.mu.Lock()
				defer j.mu.Unlock()
				if j.forgot > 0 {
					t.Error("freed before it has left")
				}
			}, c.err})
			w.Runner.Journal = j
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- w.Run(ctx) }()
			patience.Receive(t, l.ended, "the end of the lease")
			if c.err != nil {
				require.Equal(t, "retry", patience.Receive(t, l.ended, "its return"))
			}
			cancel()
			require.NoError(t, patience.Receive(t, done, "its end"))
			require.Equal(t, c.forgot, j.forgot)
		})
	}
}

// Entries that are not those of the trajectory: an observation where an answer should be, an answer of another turn.
func TestRecordThatIsNotATrajectorysBeginsAnew(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func([]Entry) []Entry{
		"an answer is missing":                 func(e []Entry) []Entry { return e[1:] },
		"an observation is missing":            func(e []Entry) []Entry { return append(e[:1:1], e[2]) },
		"an answer is of another turn":         func(e []Entry) []Entry { e[2].Turn++; return e },
		"an observation is of another turn":    func(e []Entry) []Entry { e[1].Turn++; return e },
		"a cell ended in another way, as said": func(e []Entry) []Entry { e[1].Observed.Status = trajectory.CellException; return e },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, die := context.WithCancel(t.Context())
			r := newRig(t, threeTurns()...)
			j := newMemoryJournal()
			j.after = func(n int) { onWrite(n, 3, die) }
			g := journaledGroup(r, j)
			_, err := g.Run(ctx, oneRollout, nil)
			require.ErrorIs(t, err, context.Canceled)
			id := task.RolloutID{Run: "r", Dispatch: "p-0"}
			_, entries, err := j.Open(t.Context(), id)
			require.NoError(t, err)
			require.Len(t, entries, 4)
			j.entries[id] = nil
			for _, e := range spoil(entries) {
				data, err := json.Marshal(e)
				require.NoError(t, err)
				j.entries[id] = append(j.entries[id], string(data))
			}
			want := RestartRecord
			if name == "a cell ended in another way, as said" {
				want = RestartObservation
			}
			r.policy.replies = threeTurns()
			got, err := g.Run(t.Context(), oneRollout, nil)
			require.NoError(t, err)
			require.Equal(t, trajectory.Submitted, got.Trajectories[0].Termination)
			require.Equal(t, map[Restart]int64{want: 1}, g.Resumed.Restarts())
		})
	}
}

func TestTheAttemptAfterALostOneIsGoneOnFrom(t *testing.T) {
	t.Parallel()
	r := newRig(t, cellReply("x"))
	r.runner.Config.MaxAttempts = 1
	j := newMemoryJournal()
	g := journaledGroup(r, j)
	r.sandbox.runErr = errors.New("no capacity")
	_, err := g.Run(t.Context(), oneRollout, nil)
	require.NoError(t, err, "its answer and its loss are on record")
	ctx, die := context.WithCancel(t.Context())
	defer die()
	first := j.appends
	j.after = func(n int) { onWrite(n, first, die) } // the next attempt's first answer
	r.sandbox.runErr, r.policy.replies = nil, threeTurns()
	_, err = g.Run(ctx, oneRollout, nil)
	require.ErrorIs(t, err, context.Canceled)
	j.after = nil
	got, err := g.Run(t.Context(), oneRollout, nil)
	require.NoError(t, err)
	require.Equal(t, trajectory.Submitted, got.Trajectories[0].Termination)
	require.Equal(t, 1, got.Trajectories[0].Attempt)
	require.Len(t, r.policy.calls, 4, "one of the lost attempt, three of the next")
	require.Empty(t, g.Resumed.Restarts())
}

func TestStaleGroupIsSampledAnew(t *testing.T) {
	t.Parallel()
	j := newMemoryJournal()
	r := newRig(t, threeTurns()...)
	l := newLease(1)
	l.d.GroupSize = 1
	w := worker(r, fakeFiles{}, l)
	w.Runner.Journal, w.Runner.MaxStaleness, w.Runner.Recheck = j, func() int64 { return 0 }, time.Hour
	j.after = func(n int) {
		if n == 1 {
			r.version = 1 // read by the same goroutine
		}
	}
	require.Equal(t, "retry", work(t, w, l))
	require.Equal(t, 1, j.forgot)
	require.Empty(t, j.entries)
}
