package leader

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/verigraph/verigraph/dataset"
	"github.com/verigraph/verigraph/task"
)

// still is a leader that nobody runs: its decisions are asked for one by one.
func still(t *testing.T, edit func(*Config)) *Leader {
	t.Helper()
	cfg := Defaults()
	cfg.Run, cfg.GroupSize, cfg.BatchGroups, cfg.MaxGroups = "r", 2, 2, 4
	edit(&cfg)
	l, err := New(cfg, Deps{Log: zap.NewNop()}, NewHistory(nil, nil))
	require.NoError(t, err)
	return l
}

func (l *Leader) dispatched(id string, version int64, edit func(*Event)) {
	e := Event{Kind: Admitted, Dispatch: id, PromptID: id, Rollouts: 2, Body: &task.Dispatch{
		ID: id, GroupSize: 2, PolicyVersion: version, Prompt: task.Prompt{ID: id},
	}}
	edit(&e)
	l.books.event(e)
}

func training(*Event)     {}
func validation(e *Event) { e.Body.Validate = true }
func request(e *Event)    { e.UID = e.Dispatch }

// good is a training group that waits for its batch.
func (l *Leader) good(id string, oldest, index int64, model string) {
	l.dispatched(id, oldest, training)
	l.buffer = append(l.buffer, scored{id: id, oldest: oldest, newest: oldest, index: index, kind: kind{meta: dataset.Meta{Model: model}}})
}

func ids(of []scored) (out []string) {
	for _, s := range of {
		out = append(out, s.id)
	}
	return out
}

func TestABatchTakesTheOldestPolicyThenTheOldestDispatch(t *testing.T) {
	t.Parallel()
	l := still(t, func(*Config) {})
	l.good("new", 2, 0, "m")
	l.good("late", 1, 5, "m")
	l.good("early", 1, 4, "m")
	require.Equal(t, []string{"early", "late"}, ids(l.nextBatch()))
}

// With a bound of one version a batch is held back for a running group that the batch after it would be the last for.
func TestOnlyARunningTrainingGroupHoldsABatchBack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		of   func(*Event)
		held bool
	}{"training": {training, true}, "validation": {validation, false}, "request": {request, false}} {
		l := still(t, func(cfg *Config) { cfg.MaxStaleness, cfg.BatchGroups = 1, 1 })
		l.books.event(Event{Kind: PolicySet, Policy: &Policy{Version: 1}})
		l.good("next", 1, 1, "m")
		l.dispatched("slow", 0, c.of)
		require.Equal(t, c.held, l.nextBatch() == nil, name)
		require.Equal(t, c.held, l.hold == "slow", name)
	}
	l := still(t, func(cfg *Config) { cfg.MaxStaleness, cfg.BatchGroups = 1, 1 })
	l.good("a", 0, 1, "m")
	l.dispatched("slow", 0, training)
	require.Equal(t, []string{"a"}, ids(l.nextBatch()), "what is in the batch does not wait for another one before the slow group's")
}

func TestAPartialBatchLeavesOnceNothingCanFillIt(t *testing.T) {
	t.Parallel()
	stale := func(l *Leader, id string) {
		l.dispatched(id, 0, training)
		l.books.event(Event{Kind: Closed, Dispatch: id, Outcomes: Outcomes{Stale: 2}, Again: true})
	}
	full := func(l *Leader) { // of two kinds, so that no batch is full
		l.cfg.MaxGroups = 2
		l.good("other", 0, 2, "another model")
	}
	for name, c := range map[string]struct {
		set  func(*Leader)
		want bool
	}{
		"prompts may come":                              {func(*Leader) {}, false},
		"the input has ended":                           {func(l *Leader) { l.books.ended = true }, true},
		"a group runs":                                  {func(l *Leader) { l.books.ended = true; l.dispatched("runs", 0, training) }, false},
		"a group of a request runs":                     {func(l *Leader) { l.books.ended = true; l.dispatched("runs", 0, request) }, true},
		"a stale prompt comes again":                    {func(l *Leader) { l.books.ended = true; stale(l, "s") }, false},
		"a prompt came after the end":                   {func(l *Leader) { l.books.ended = true; l.pool.count = 1 }, false},
		"no room, prompts may come":                     {full, true},
		"no room, a stale prompt comes again":           {func(l *Leader) { full(l); l.books.ended = true; stale(l, "s") }, true},
		"no room, the trainer paused":                   {func(l *Leader) { full(l); l.books.policy.Paused = true }, false},
		"no room before the trainer's next version":     {func(l *Leader) { full(l); l.cfg.MaxStaleness, l.books.pending = 1, 1 }, false},
		"no room, and no bound on versions to wait for": {func(l *Leader) { full(l); l.books.pending = 1 }, true},
	} {
		l := still(t, func(*Config) {})
		l.good("g", 0, 1, "m")
		c.set(l)
		require.Equal(t, c.want, l.nothingToWaitFor(), name)
	}
}

func TestAPartialValidationBatchWaitsForNoRequest(t *testing.T) {
	t.Parallel()
	l := still(t, func(*Config) {})
	require.True(t, l.noMoreValidation())
	l.dispatched("asked", 0, func(e *Event) { validation(e); request(e) })
	require.True(t, l.noMoreValidation())
	l.dispatched("v", 0, validation)
	require.False(t, l.noMoreValidation())
}
