package leader_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/dataset/leader"
	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

// valued is a scored group whose members have these accuracies, sampled under a version.
func valued(d task.Dispatch, version int64, acc ...float64) trajectory.ScoredGroup {
	statuses := make([]trajectory.ScoreStatus, len(acc))
	for i := range acc {
		statuses[i] = trajectory.ScoreOK
	}
	g := group(d, statuses...)
	for i, a := range acc {
		right := a == 1
		g.Scores[i].Accuracy, g.Scores[i].Correct = a, &right
		sp := &g.Group.Trajectories[i].Segments[0].Spans[0]
		sp.PolicyVersion, sp.PolicyVersionEnd = version, version
	}
	return g
}

func submit(m *memory, n int, final bool) {
	for i := range n {
		m.backlog <- prompt(fmt.Sprintf("p%d", i))
	}
	if final {
		m.backlog <- leader.BacklogItem{Final: true}
	}
}

func TestGroupsWithoutVarianceAreFilteredReplacedAndCountedByValue(t *testing.T) {
	t.Parallel()
	m := newMemory()
	n := 0
	m.onPublish = func(d task.Dispatch) {
		n++
		switch n % 3 {
		case 0:
			m.scored <- valued(d, 0, 1, 1)
		case 1:
			m.scored <- valued(d, 0, 0, 0)
		default:
			m.scored <- valued(d, 0, 0, 1)
		}
	}
	cfg := config()
	cfg.Filter.Enabled = true
	submit(m, 12, true)
	l := m.leader(t, cfg)
	run(t, l)
	got := ledgerOf(t, l)
	require.Equal(t, leader.Ledger{Dispatched: 24, Delivered: 8, Filtered: 16}, got)
	p, err := l.Progress(t.Context())
	require.NoError(t, err)
	require.Equal(t, map[string]int{"filtered acc=0.00": 8, "filtered acc=1.00": 8}, p.Reasons)
	require.Len(t, m.batches, 2, "new prompts fill the batches")
}

// metricFields are the columns that the filter may look at.
var metricFields = map[string]func(*trajectory.Score, float64){
	"acc":              func(s *trajectory.Score, v float64) { s.Accuracy = v },
	"score":            func(s *trajectory.Score, v float64) { s.Total = v },
	"seq_reward":       func(s *trajectory.Score, v float64) { s.Clipped = v },
	"seq_final_reward": func(s *trajectory.Score, v float64) { s.Reward = v },
	"r_process":        func(s *trajectory.Score, v float64) { s.Process = v },
	"r_infer":          func(s *trajectory.Score, v float64) { s.Infer = v },
	"r_outcome":        func(s *trajectory.Score, v float64) { s.Outcome = v },
}

func TestTheFilterLooksAtTheMetricOfItsNameAlone(t *testing.T) {
	t.Parallel()
	for name := range metricFields {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMemory()
			m.onPublish = func(d task.Dispatch) {
				g := valued(d, 0, 0, 0)
				for other, set := range metricFields {
					if (other == name) == (d.Prompt.ID == "p0") { // p0 varies in it alone, p1 in all others
						set(&g.Scores[0], 0.25)
						set(&g.Scores[1], 0.5)
					} else {
						set(&g.Scores[0], 0.25)
						set(&g.Scores[1], 0.25+1e-12) // rounding is no difference
					}
				}
				m.scored <- g
			}
			cfg := config()
			cfg.Filter.Enabled, cfg.Filter.Metric = true, name
			submit(m, 2, true)
			l := m.leader(t, cfg)
			run(t, l)
			require.Equal(t, "p0-0", m.batches[0].Groups[0].Dispatch)
			p, err := l.Progress(t.Context())
			require.NoError(t, err)
			require.Equal(t, map[string]int{"filtered " + name + "=0.25": 2}, p.Reasons)
		})
	}
}

func TestWithoutANameTheFilterTakesTheRuleAndElseTheScore(t *testing.T) {
	t.Parallel()
	m := newMemory()
	m.onPublish = func(d task.Dispatch) {
		g := valued(d, 0, 1, 1, 1)
		g.Scores[0].Total, g.Scores[1].Total, g.Scores[2].Total = 0.1, 0.2, 0.3
		switch d.Prompt.ID {
		case "p1": // a judge, no rule, gave one of the members its score
			g.Scores[1].Correct = nil
		case "p2": // that member has no score at all
			g.Scores[1].Correct, g.Scores[1].Status = nil, trajectory.ScoreUnscored
		}
		m.scored <- g
	}
	cfg := config()
	cfg.GroupSize, cfg.Filter.Enabled = 3, true
	submit(m, 3, true)
	l := m.leader(t, cfg)
	run(t, l)
	require.Len(t, m.batches, 1)
	require.Equal(t, "p1-0", m.batches[0].Groups[0].Dispatch)
	p, err := l.Progress(t.Context())
	require.NoError(t, err)
	require.Equal(t, map[string]int{"filtered acc=1.00": 6}, p.Reasons)
}

func TestARunInWhichNothingIsFitToTrainOnSendsNoBatchAndSaysWhy(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		group   func(task.Dispatch) trajectory.ScoredGroup
		ledger  leader.Ledger
		reasons map[string]int
	}{
		"every group is filtered": {
			func(d task.Dispatch) trajectory.ScoredGroup { return valued(d, 0, 1, 1) },
			leader.Ledger{Dispatched: 16, Filtered: 16},
			map[string]int{"filtered acc=1.00": 16},
		},
		"every rollout failed": {
			func(d task.Dispatch) trajectory.ScoredGroup {
				return group(d, trajectory.ScoreLost, trajectory.ScoreLost)
			},
			leader.Ledger{Dispatched: 16, Failed: 16},
			map[string]int{"failed": 16},
		},
		"no rollout has a verdict": {
			func(d task.Dispatch) trajectory.ScoredGroup {
				return group(d, trajectory.ScoreUnscored, trajectory.ScoreUnjudgeable)
			},
			leader.Ledger{Dispatched: 16, Unscored: 16},
			map[string]int{"unscored": 16},
		},
		"every completion is empty": {
			func(d task.Dispatch) trajectory.ScoredGroup {
				g := valued(d, 0, 0, 1)
				for i := range g.Group.Trajectories {
					s := &g.Group.Trajectories[i].Segments[0]
					s.ResponseIDs, s.ResponseMask, s.LogProbs, s.Spans = nil, nil, nil, nil
				}
				return g
			},
			leader.Ledger{Dispatched: 16, Failed: 16},
			map[string]int{"failed": 16},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, exhausted := range []leader.Exhausted{leader.ExhaustedPartial, leader.ExhaustedSkip} {
				m := newMemory()
				m.onPublish = func(d task.Dispatch) { m.scored <- c.group(d) }
				cfg := config()
				cfg.Filter.Enabled, cfg.Filter.MaxRounds, cfg.Filter.Exhausted = true, 1, exhausted
				submit(m, 8, true)
				l := m.leader(t, cfg)
				run(t, l)
				require.Empty(t, m.batches)
				require.Empty(t, m.objects)
				require.Equal(t, c.ledger, ledgerOf(t, l))
				p, err := l.Progress(t.Context())
				require.NoError(t, err)
				require.Equal(t, c.reasons, p.Reasons)
				require.Equal(t, 4, p.RoundsUsedUp, "8 groups are 4 rounds of batches of 2")
			}
		})
	}
}

func TestRolloutsAreReportedByOutcomeAndLength(t *testing.T) {
	t.Parallel()
	m := newMemory()
	m.onPublish = func(d task.Dispatch) {
		lengths, acc := []int{256, 1}, 1.0
		switch d.Prompt.ID {
		case "p1":
			lengths = []int{2, 257}
		case "p2":
			acc = 0 // does not vary
			lengths = []int{1000, 10}
		case "p3": // a member without a reward enters no length
			lengths = []int{3, 4, 9000}
		}
		g := valued(d, 0, make([]float64, 3)...)
		lengths = append(lengths, 1)
		g.Scores[0].Accuracy = acc
		for i := range g.Group.Trajectories {
			s := &g.Group.Trajectories[i].Segments[0]
			n := lengths[i]
			s.ResponseIDs, s.ResponseMask, s.LogProbs = make([]int32, n), make([]int8, n), make([]float32, n)
			s.ResponseMask[n-1], s.Spans[0].Start, s.Spans[0].End = 1, n-1, n
			if n > 1 {
				s.Spans = append([]trajectory.Span{{End: n - 1, Kind: trajectory.SpanObservation}}, s.Spans...)
			}
		}
		if d.Prompt.ID == "p3" {
			g.Scores[2].Status = trajectory.ScoreUnscored
		}
		m.scored <- g
	}
	cfg := config()
	cfg.GroupSize, cfg.Filter.Enabled, cfg.FillLost = 3, true, true
	submit(m, 4, true)
	l := m.leader(t, cfg)
	run(t, l)
	p, err := l.Progress(t.Context())
	require.NoError(t, err)
	require.Equal(t, []leader.Length{
		{UpTo: 256, Outcomes: leader.Outcomes{leader.Delivered: 5, leader.Unscored: 1}},
		{UpTo: 512, Outcomes: leader.Outcomes{leader.Delivered: 3}},
		{UpTo: 1024, Outcomes: leader.Outcomes{leader.Filtered: 3}},
	}, p.Lengths)
	require.InDelta(t, 1.0/12, p.UnscoredShare, 1e-12)
}

func TestUsedUpRoundsEndInTheStatedOutcome(t *testing.T) {
	t.Parallel()
	start := func(t *testing.T, outcome leader.Exhausted) (*memory, *leader.Leader) {
		m := newMemory()
		n := 0
		m.onPublish = func(d task.Dispatch) {
			if n++; n == 1 {
				m.scored <- valued(d, 0, 0, 1) // one good group, then none
				return
			}
			m.scored <- valued(d, 0, 0, 0)
		}
		cfg := config()
		cfg.Filter.Enabled, cfg.Filter.MaxRounds, cfg.Filter.Exhausted = true, 2, outcome
		submit(m, 12, true)
		return m, m.leader(t, cfg)
	}
	t.Run("partial writes the good groups that there are", func(t *testing.T) {
		t.Parallel()
		m, l := start(t, leader.ExhaustedPartial)
		run(t, l)
		require.Len(t, m.batches, 1)
		require.Len(t, m.batches[0].Groups, 1)
		require.Equal(t, leader.Ledger{Dispatched: 24, Delivered: 2, Filtered: 22}, ledgerOf(t, l))
		closed := slices.DeleteFunc(m.events, func(e leader.Event) bool { return e.Kind != leader.Closed || e.Sequence != 1 })
		require.Len(t, closed, 3, "with the good one two rounds of two groups")
	})
	t.Run("skip goes on to the next prompts", func(t *testing.T) {
		t.Parallel()
		m, l := start(t, leader.ExhaustedSkip)
		run(t, l)
		require.Len(t, m.batches, 1)
		require.Equal(t, leader.Ledger{Dispatched: 24, Delivered: 2, Filtered: 22}, ledgerOf(t, l))
		p, err := l.Progress(t.Context())
		require.NoError(t, err)
		require.Equal(t, 3, p.RoundsUsedUp, "after 4, 7 and 10 of 12 groups")
		closed := slices.DeleteFunc(m.events, func(e leader.Event) bool { return e.Kind != leader.Closed || e.Sequence != 1 })
		require.Len(t, closed, 11, "the good group leaves when the input has ended")
	})
	t.Run("stop ends the run and keeps the good group", func(t *testing.T) {
		t.Parallel()
		m, l := start(t, leader.ExhaustedStop)
		require.ErrorIs(t, l.Run(t.Context()), leader.ErrExhausted)
		require.Contains(t, m.acks, "released scored p0-0")
	})
	t.Run("an all-filtered run sends no empty batch", func(t *testing.T) {
		t.Parallel()
		m := newMemory()
		m.onPublish = func(d task.Dispatch) { m.scored <- valued(d, 0, 1, 1) }
		cfg := config()
		cfg.Filter.Enabled = true
		submit(m, 4, true)
		l := m.leader(t, cfg)
		run(t, l)
		require.Empty(t, m.batches)
		require.Equal(t, leader.Ledger{Dispatched: 8, Filtered: 8}, ledgerOf(t, l))
	})
}

func TestSurplusGoodGroupsWaitForTheNextBatch(t *testing.T) {
	t.Parallel()
	m := newMemory()
	var held []task.Dispatch
	m.onPublish = func(d task.Dispatch) {
		if held = append(held, d); len(held) == 3 {
			for _, d := range held {
				m.scored <- valued(d, 0, 0, 1)
			}
		}
	}
	submit(m, 3, true)
	l := m.leader(t, config())
	run(t, l)
	require.Equal(t, leader.Ledger{Dispatched: 6, Delivered: 6}, ledgerOf(t, l))
	require.Len(t, m.batches, 2)
}

// leading runs the leader beside the test.
func leading(t *testing.T, l *leader.Leader) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
}

// until waits for a condition that changes with the leader's books.
func until(t *testing.T, l *leader.Leader, ok func() bool) {
	t.Helper()
	for {
		changed := l.Changed()
		if ok() {
			return
		}
		select {
		case <-changed:
		case <-t.Context().Done():
			t.Fatal("never happened")
		}
	}
}

func TestSynchronousRunAdmitsTheNextBatchOnlyAfterThePolicyMovedOn(t *testing.T) {
	t.Parallel()
	m := newMemory()
	published := make(chan task.Dispatch, 10)
	m.onPublish = func(d task.Dispatch) {
		published <- d
		m.scored <- valued(d, d.PolicyVersion, 0, 1)
	}
	cfg := config()
	cfg.MaxStaleness = 0
	submit(m, 4, false)
	l := m.leader(t, cfg)
	leading(t, l)
	until(t, l, func() bool { return len(l.Batches()) == 1 })
	require.Len(t, published, 2)
	require.NoError(t, l.SetPolicy(t.Context(), leader.Policy{Version: 1}, 1))
	until(t, l, func() bool { return len(l.Batches()) == 2 })
	require.Len(t, published, 4)
	b, _, _ := l.Batch(2)
	require.EqualValues(t, 1, b.PolicyVersionMin, "dispatched under the new version")
}

func TestGroupThatBecameTooOldIsSweptBeforeNumbering(t *testing.T) {
	t.Parallel()
	m := newMemory()
	published := make(chan task.Dispatch, 10)
	m.onPublish = func(d task.Dispatch) { published <- d }
	cfg := config()
	cfg.MaxStaleness = 1
	submit(m, 2, false)
	l := m.leader(t, cfg)
	leading(t, l)
	a, b := <-published, <-published
	require.NoError(t, l.SetPolicy(t.Context(), leader.Policy{Version: 2}, 0))
	m.scored <- valued(a, 0, 0, 1) // two versions behind
	m.scored <- valued(b, 1, 0, 1) // one behind: may wait
	until(t, l, func() bool { return ledgerOf(t, l).Stale == 2 })
	require.Empty(t, l.Batches())
	require.ErrorIs(t, l.SetPolicy(t.Context(), leader.Policy{Version: 1}, 0), leader.ErrRefused, "versions do not go back")
	require.NoError(t, l.SetPolicy(t.Context(), leader.Policy{Version: 2, Incarnation: 1}, 0))
	require.ErrorIs(t, l.SetPolicy(t.Context(), leader.Policy{Version: 3}, 0), leader.ErrOldIncarnation, "a dead trainer's call")
}

func TestValidationInterleavesStaysApartAndIsNeverFiltered(t *testing.T) {
	t.Parallel()
	m := newMemory()
	m.onPublish = func(d task.Dispatch) {
		if d.Validate {
			m.scored <- valued(d, 0, 1, 1) // no variance
			return
		}
		m.scored <- valued(d, 0, 0, 1)
	}
	cfg := config()
	cfg.Filter.Enabled, cfg.MaxStaleness = true, 0
	submit(m, 2, false)
	v := prompt("v")
	v.Validate = true
	m.backlog <- v
	m.backlog <- leader.BacklogItem{Final: true}
	l := m.leader(t, cfg)
	run(t, l)
	require.Len(t, m.batches, 2)
	for _, b := range m.batches {
		if b.Validate {
			require.Equal(t, "v-0", b.Groups[0].Dispatch)
			require.Len(t, b.Groups, 1)
		}
	}
	require.Equal(t, leader.Ledger{Dispatched: 6, Delivered: 6}, ledgerOf(t, l))
}

func TestCommitFreesBatchesOfTheCheckpoint(t *testing.T) {
	t.Parallel()
	m := newMemory()
	m.onPublish = func(d task.Dispatch) { m.scored <- valued(d, 0, 0, 1) }
	submit(m, 6, false)
	l := m.leader(t, config())
	leading(t, l)
	until(t, l, func() bool { return len(l.Batches()) == 3 })
	n, err := l.Commit(t.Context(), 15, 1)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	m.mu.Lock()
	require.NotContains(t, m.objects, m.batches[0].Object)
	require.Contains(t, m.objects, m.batches[1].Object)
	m.mu.Unlock()
	n, err = l.Commit(t.Context(), 15, 1)
	require.NoError(t, err)
	require.Zero(t, n, "a commit frees once")
	_, err = l.Commit(t.Context(), 20, 4)
	require.ErrorIs(t, err, leader.ErrRefused, "a batch that does not exist")
	_, err = l.Restore(t.Context(), 5, 0, leader.Policy{}, leader.Regenerate)
	require.ErrorIs(t, err, leader.ErrRefused, "behind the commit")
}

// TestCommitFreesTheMessagePartsOfItsGroupsAndOfNoOther: parts that cannot be freed do not hold the commit up.
func TestCommitFreesTheMessagePartsOfItsGroupsAndOfNoOther(t *testing.T) {
	t.Parallel()
	m := newMemory()
	m.onPublish = func(d task.Dispatch) { m.scored <- valued(d, 0, 0, 1) }
	submit(m, 6, false)
	var forgotten []string
	l := m.leaderWith(t, config(), func(d *leader.Deps) {
		d.Forget = func(_ context.Context, dispatch string) error {
			forgotten = append(forgotten, dispatch)
			return errors.New("the store is away")
		}
	})
	leading(t, l)
	until(t, l, func() bool { return len(l.Batches()) == 3 })
	require.Empty(t, forgotten, "before a commit")
	n, err := l.Commit(t.Context(), 15, 2)
	require.NoError(t, err)
	require.Equal(t, 2, n)
	var want []string
	for _, b := range m.batches[:2] {
		for _, g := range b.Groups {
			want = append(want, g.Dispatch)
		}
	}
	require.Len(t, want, 4)
	require.Equal(t, want, forgotten)
}

func TestRestoreTakesBackBatchesOfRolledBackPoliciesAndGeneratesThemAnew(t *testing.T) {
	t.Parallel()
	m := newMemory()
	m.onPublish = func(d task.Dispatch) { m.scored <- valued(d, d.PolicyVersion, 0, 1) }
	cfg := config()
	cfg.MaxStaleness = 0
	submit(m, 4, true)
	l := m.leader(t, cfg)
	leading(t, l)
	until(t, l, func() bool { return l.Last() == 1 })
	require.NoError(t, l.SetPolicy(t.Context(), leader.Policy{Version: 1}, 1))
	until(t, l, func() bool { return l.Last() == 2 && l.Complete() })
	dropped, err := l.Restore(t.Context(), 0, 0, leader.Policy{Incarnation: 1}, leader.Regenerate)
	require.NoError(t, err)
	require.Equal(t, []int64{2}, dropped, "the first batch is of the restored policy")
	again, err := l.Restore(t.Context(), 0, 0, leader.Policy{Incarnation: 1}, leader.Regenerate)
	require.NoError(t, err)
	require.Empty(t, again, "repeating it changes nothing")
	require.NoError(t, l.SetPolicy(t.Context(), leader.Policy{Version: 1, Incarnation: 1}, 1))
	until(t, l, func() bool { return l.Last() == 3 && l.Complete() })
	require.Equal(t, leader.Ledger{Dispatched: 12, Delivered: 8, Stale: 4}, ledgerOf(t, l))
	r, _, _ := l.Batch(3)
	require.ElementsMatch(t, []string{"p2-1", "p3-1"}, []string{r.Groups[0].Dispatch, r.Groups[1].Dispatch})
	replayed, err := l.Restore(t.Context(), 0, 0, leader.Policy{Incarnation: 2}, leader.Replay)
	require.NoError(t, err)
	require.Empty(t, replayed)
	require.True(t, l.Complete(), "a replay generates nothing")
}

func TestARequestBypassesCapacityAndARepeatedUIDReplacesTheEarlierAttempt(t *testing.T) {
	t.Parallel()
	m := newMemory()
	published := make(chan task.Dispatch, 20)
	m.onPublish = func(d task.Dispatch) { published <- d }
	cfg := config()
	cfg.MaxStaleness, cfg.MaxGroups = 0, 2
	submit(m, 4, false)
	l := m.leader(t, cfg)
	leading(t, l)
	<-published
	<-published // the capacity is used up
	ask := func() string {
		ids, err := l.Request(t.Context(), []leader.Asked{{UID: "u-1", Prompt: task.Prompt{ID: "q", Question: "?"}, Rollouts: 3}})
		require.NoError(t, err)
		return ids[0]
	}
	first := ask()
	old := <-published
	require.Equal(t, 3, old.GroupSize)
	second := ask()
	d := <-published
	require.NotEqual(t, first, second)
	a, ended := l.Answer(first)
	require.True(t, ended)
	require.True(t, a.Replaced)
	m.scored <- valued(old, 0, 0, 1, 1)
	m.scored <- valued(d, 0, 1, 1, 1) // no filter in request mode
	until(t, l, func() bool { _, ended := l.Answer(second); return ended })
	a, _ = l.Answer(second)
	require.Equal(t, 3, a.Result.Rows)
	until(t, l, func() bool { return ledgerOf(t, l).Stale == 3 })
	require.Equal(t, 3, ledgerOf(t, l).Delivered)
	require.Empty(t, l.Batches(), "its rows leave outside the batches")
	_, err := l.Request(t.Context(), []leader.Asked{{UID: "", Rollouts: 1}})
	require.ErrorIs(t, err, leader.ErrRefused)
}

func TestEndpointsOutsideTheAllowListAreRefused(t *testing.T) {
	t.Parallel()
	cfg := config()
	cfg.Endpoints = []string{"10.0.0.*:8000", "trainer:*"}
	l := newMemory().leader(t, cfg)
	leading(t, l)
	for endpoint, ok := range map[string]bool{
		"10.0.0.7:8000": true, "trainer:1234": true, "10.0.0.7:22": false, "evil:8000": false,
		"trainer": false, "user@trainer:80": false, "10.0.0.7:8000/../evil:1": false,
	} {
		err := l.SetPolicy(t.Context(), leader.Policy{Endpoints: []string{endpoint}}, 0)
		if ok {
			require.NoError(t, err, endpoint)
		} else {
			require.ErrorIs(t, err, leader.ErrRefused, endpoint)
		}
	}
	require.Len(t, l.Policy().Endpoints, 1, "what was refused changed nothing")
}

func TestAPausedRunDispatchesNothingUntilItIsResumed(t *testing.T) {
	t.Parallel()
	m := newMemory()
	published := make(chan task.Dispatch, 10)
	m.onPublish = func(d task.Dispatch) { published <- d }
	l := m.leader(t, config())
	leading(t, l)
	require.NoError(t, l.SetPolicy(t.Context(), leader.Policy{Paused: true}, 0))
	submit(m, 1, false)
	waitsFor(t, l, "paused dispatching")
	require.Empty(t, published)
	require.NoError(t, l.SetPolicy(t.Context(), leader.Policy{}, 0))
	<-published
}

func TestWeightsShareDispatchesOutAndPriorityGoesFirst(t *testing.T) {
	t.Parallel()
	m := newMemory()
	published := make(chan task.Dispatch, 100)
	m.onPublish = func(d task.Dispatch) { published <- d }
	cfg := config()
	cfg.Weights = map[string]float64{"math": 3}
	cfg.MaxGroups = 64
	l := m.leader(t, cfg)
	leading(t, l)
	require.NoError(t, l.SetPolicy(t.Context(), leader.Policy{Paused: true}, 0))
	for i := range 40 {
		it := prompt(fmt.Sprintf("m%d", i))
		it.Prompt.DataSource = "math"
		m.backlog <- it
	}
	for i := range 40 {
		it := prompt(fmt.Sprintf("t%d", i))
		it.Prompt.DataSource = "tables"
		m.backlog <- it
	}
	urgent := prompt("urgent")
	urgent.Priority = 5
	m.backlog <- urgent
	until(t, l, func() bool { return l.Backlog() == 81 })
	require.NoError(t, l.SetPolicy(t.Context(), leader.Policy{}, 0))
	require.Equal(t, "urgent", (<-published).Prompt.ID)
	count := map[string]int{}
	for range 40 {
		count[(<-published).Prompt.DataSource]++
	}
	require.Equal(t, map[string]int{"math": 30, "tables": 10}, count)
}

func TestEasyAndHardPromptsOfAnEarlierPolicyComeByTheirWeights(t *testing.T) {
	t.Parallel()
	for pool, accuracy := range map[string][2]string{ // just in the pool, just outside
		"easy": {"0.9", "0.89"},
		"hard": {"0.1", "0.11"},
	} {
		t.Run(pool, func(t *testing.T) {
			t.Parallel()
			m := newMemory()
			published := make(chan task.Dispatch, 100)
			m.onPublish = func(d task.Dispatch) { published <- d }
			cfg := config()
			cfg.MaxGroups = 64
			cfg.Difficulty.Key, cfg.Difficulty.Weights = "pass_rate", map[string]float64{pool: 0.25}
			l := m.leader(t, cfg)
			leading(t, l)
			require.NoError(t, l.SetPolicy(t.Context(), leader.Policy{Paused: true}, 0))
			for i := range 30 {
				in, out := prompt(fmt.Sprintf("in%d", i)), prompt(fmt.Sprintf("out%d", i))
				in.Prompt.Meta, out.Prompt.Meta = []byte(`{"pass_rate": `+accuracy[0]+`}`), []byte(`{"pass_rate": `+accuracy[1]+`}`)
				m.backlog <- in
				m.backlog <- out
			}
			until(t, l, func() bool { return l.Backlog() == 60 })
			require.NoError(t, l.SetPolicy(t.Context(), leader.Policy{}, 0))
			in := 0
			for range 25 {
				if (<-published).Prompt.ID[0] == 'i' {
					in++
				}
			}
			require.Equal(t, 5, in)
		})
	}
}

func TestASourceThatHadNoPromptsDoesNotMakeUpForIt(t *testing.T) {
	t.Parallel()
	m := newMemory()
	published := make(chan task.Dispatch, 100)
	m.onPublish = func(d task.Dispatch) { published <- d }
	cfg := config()
	cfg.MaxGroups, cfg.Weights = 64, map[string]float64{"early": 1, "late": 1}
	l := m.leader(t, cfg)
	leading(t, l)
	add := func(source string, from, n int) {
		for i := from; i < from+n; i++ {
			it := prompt(fmt.Sprint(source, i))
			it.Prompt.DataSource = source
			m.backlog <- it
		}
	}
	add("early", 0, 20)
	for range 20 {
		<-published
	}
	require.NoError(t, l.SetPolicy(t.Context(), leader.Policy{Paused: true}, 0))
	add("late", 0, 20)
	add("early", 20, 20)
	until(t, l, func() bool { return l.Backlog() == 40 })
	require.NoError(t, l.SetPolicy(t.Context(), leader.Policy{}, 0))
	count := map[string]int{}
	for range 20 {
		count[(<-published).Prompt.DataSource]++
	}
	require.InDelta(t, 10, count["late"], 1)
}

func TestValidationAndTrainingTakeTurnsWhileBothWait(t *testing.T) {
	t.Parallel()
	m := newMemory()
	published := make(chan task.Dispatch, 100)
	m.onPublish = func(d task.Dispatch) { published <- d }
	cfg := config()
	cfg.MaxGroups = 64
	l := m.leader(t, cfg)
	leading(t, l)
	require.NoError(t, l.SetPolicy(t.Context(), leader.Policy{Paused: true}, 0))
	for i := range 20 {
		it := prompt(fmt.Sprint(i))
		it.Validate = i < 10
		if i == 9 {
			it.Priority = 1
		}
		m.backlog <- it
	}
	until(t, l, func() bool { return l.Backlog() == 20 })
	require.NoError(t, l.SetPolicy(t.Context(), leader.Policy{}, 0))
	validate, first := 0, ""
	for range 10 {
		if d := <-published; d.Validate {
			validate++
			if first == "" {
				first = d.Prompt.ID
			}
		}
	}
	require.Equal(t, 5, validate)
	require.Equal(t, "9", first, "of the higher priority")
}

func TestTheStatusHasTheRateOfTheLastMinuteAndTheAgesOfBatches(t *testing.T) {
	t.Parallel()
	m := newMemory()
	published := make(chan task.Dispatch, 10)
	m.onPublish = func(d task.Dispatch) { published <- d }
	var seconds atomic.Int64
	cfg := config()
	cfg.MaxStaleness = 1
	submit(m, 2, false)
	l := m.leaderWith(t, cfg, func(d *leader.Deps) { d.Now = func() time.Time { return time.Unix(seconds.Load(), 0) } })
	leading(t, l)
	a, b := <-published, <-published
	require.NoError(t, l.SetPolicy(t.Context(), leader.Policy{Version: 1}, 0))
	m.scored <- valued(a, 0, 0, 1)
	m.scored <- valued(b, 1, 0, 1)
	until(t, l, func() bool { return l.Last() == 1 })
	progress := func() leader.Progress {
		p, err := l.Progress(t.Context())
		require.NoError(t, err)
		return p
	}
	require.InDelta(t, 4.0/60, progress().PerSecond, 1e-9)
	require.Equal(t, map[int64]int{1: 1}, progress().Ages)
	seconds.Store(61)
	require.Zero(t, progress().PerSecond)
}

func TestValidationGroupsThatFailUseUpNoRound(t *testing.T) {
	t.Parallel()
	m := newMemory()
	m.onPublish = func(d task.Dispatch) { m.scored <- group(d, trajectory.ScoreLost, trajectory.ScoreLost) }
	cfg := config()
	cfg.Filter.Enabled, cfg.Filter.MaxRounds, cfg.Filter.Exhausted = true, 1, leader.ExhaustedStop
	for i := range 6 {
		it := prompt(fmt.Sprint(i))
		it.Validate = true
		m.backlog <- it
	}
	m.backlog <- leader.BacklogItem{Final: true}
	l := m.leader(t, cfg)
	run(t, l)
	require.Equal(t, leader.Ledger{Dispatched: 12, Failed: 12}, ledgerOf(t, l))
}

func TestMembersWithoutARewardOrWithoutTokensEnterNoStatistic(t *testing.T) {
	t.Parallel()
	m := newMemory()
	m.onPublish = func(d task.Dispatch) {
		g := valued(d, 0, 1, 1, 0, 1)
		switch d.Prompt.ID {
		case "p0": // the only different member has no reward: the group does not vary
			g.Scores[2].Status = trajectory.ScoreUnscored
		case "p1": // the only different member has no tokens, and a length that would stand out
			s := &g.Group.Trajectories[2].Segments[0]
			s.ResponseIDs, s.ResponseMask, s.LogProbs, s.Spans = nil, nil, nil, nil
		}
		m.scored <- g
	}
	cfg := config()
	cfg.GroupSize, cfg.Filter.Enabled = 4, true
	submit(m, 3, true)
	l := m.leader(t, cfg)
	run(t, l)
	require.Equal(t, leader.Ledger{Dispatched: 12, Delivered: 4, Filtered: 6, Unscored: 1, Failed: 1}, ledgerOf(t, l))
}

func TestSetAsideGroupGoesOnAfterARequeue(t *testing.T) {
	t.Parallel()
	m := newMemory()
	first := true
	m.onPublish = func(d task.Dispatch) {
		if first {
			first = false
			m.mu.Lock()
			m.aside[d.ID] = true
			delete(m.leases, d.ID)
			m.mu.Unlock()
			return
		}
	}
	submit(m, 1, true)
	l := m.leader(t, config())
	leading(t, l)
	until(t, l, l.Complete)
	require.Equal(t, leader.Ledger{Dispatched: 2, SetAside: 2}, ledgerOf(t, l))
	require.ErrorIs(t, l.Requeue(t.Context(), "nobody-0"), leader.ErrRefused)
	require.NoError(t, l.Requeue(t.Context(), "p0-0"))
	require.NotContains(t, m.aside, "p0-0")
	until(t, l, func() bool { return ledgerOf(t, l) == leader.Ledger{Dispatched: 4, SetAside: 2, InFlight: 2} })
	m.scored <- valued(m.published[1], 0, 0, 1)
	until(t, l, l.Complete)
	require.Equal(t, leader.Ledger{Dispatched: 4, SetAside: 2, Delivered: 2}, ledgerOf(t, l))
}
