package leader_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/dataset/leader"
	"github.com/verigraph/verigraph/internal/patience"
	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

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
		require.ErrorIs(t, l.Run(patience.Context(t)), leader.ErrExhausted)
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
