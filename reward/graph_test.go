package reward_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/reward"
	"github.com/verigraph/verigraph/reward/gov"
	"github.com/verigraph/verigraph/reward/judges"
	"github.com/verigraph/verigraph/trajectory"
)

func govScorer(t *testing.T, judge reward.Judge, change func(*reward.Preset)) *reward.Scorer {
	t.Helper()
	p, err := reward.LoadPreset("paper")
	require.NoError(t, err)
	p.Infer.Strategy = reward.StrategyGov
	if change != nil {
		change(&p)
	}
	s, err := reward.New(reward.Config{Preset: p, Judge: judge})
	require.NoError(t, err)
	return s
}

// chain: c1 grounded, c2 constant; d1(c1) holds, d2(d1) is a leap, d3(d2) would hold, d4(c2) would
// hold over a constant, d5(c1) holds.
func chain() *rollout {
	return newRollout(ok, ok).data("df@1", 0).atomic("c1", 0, "df@1", "@mean[34.65]").atomic("c2", 0, "", "7").
		derived("d1", 0, "d1 +", "c1").derived("d2", 0, "d2 -", "d1").derived("d3", 1, "d3 +", "d2").
		derived("d4", 1, "d4 +", "c2").derived("d5", 1, "d5 +", "c1").submit(1, "c1", "d3", "!d4", "d5")
}

func TestGraphVerificationCostsNoCallForWhatRestsOnAFalseNode(t *testing.T) {
	t.Parallel()
	judge := &scripted{}
	s := govScorer(t, judge, nil).Score(t.Context(), withValues(chain()).Trajectory, prompt, reference)
	require.Equal(t, trajectory.ScoreOK, s.Status, s.Reason)
	require.ElementsMatch(t, []string{"d1 +", "d2 -", "d5 +"}, judge.calls)
	// d1 +1, d2 -0.5, d3 -0.5 (implied), d4 -0.5 (constant), d5 +1
	require.InDelta(t, 0.5/5, s.Infer, 1e-12)
	require.Equal(t, &trajectory.GovResult{FirstFailing: "d2", Units: 7, Calls: 3, CallsSaved: 2}, s.Gov)
	reasons := map[string]string{}
	for _, p := range s.Parts {
		reasons[p.Name] = p.Reason
	}
	require.Equal(t, "false without a call: its premise d2 is false", reasons["d3"])
	require.Equal(t, "false without a call: its premise c2 is false", reasons["d4"])

	edges := scorer(t, "paper", &scripted{}).Score(t.Context(), chain().Trajectory, prompt, reference)
	require.InDelta(t, (4-0.5)/5, edges.Infer, 1e-12, "each edge on its own: four hold")
	require.Nil(t, edges.Gov)
}

// withValues gives the atomic claims the values that structural grounding looks at.
func withValues(r *rollout) *rollout {
	for i := range r.Graph.Nodes {
		n := &r.Graph.Nodes[i]
		for _, f := range n.Fields {
			n.Values = append(n.Values, valueOf(f.Name, f.Text))
		}
	}
	for i := range r.Graph.Edges {
		if r.Graph.Edges[i].Kind == "ground" {
			r.Graph.Edges[i].Role = "m"
		}
	}
	return r
}

func TestGlobalStopLeavesUnjudgedEdgesOutOfTheMean(t *testing.T) {
	t.Parallel()
	judge := &scripted{}
	s := govScorer(t, judge, func(p *reward.Preset) {
		p.Infer.Gov.Stop, p.Infer.Gov.Blocks = gov.StopGlobal, gov.BlocksClosures
		p.Infer.Scope = reward.ScopeSubmitted
	}).Score(t.Context(), withValues(chain()).Trajectory, prompt, reference)
	require.Equal(t, trajectory.ScoreOK, s.Status, s.Reason)
	require.Equal(t, []string{"d1 +", "d2 -"}, judge.calls)
	require.InDelta(t, (1-0.5)/2, s.Infer, 1e-12)
	require.Equal(t, 3, s.Gov.CallsSaved)
}

func TestReplayedMismatchMakesAnAtomicClaimFalse(t *testing.T) {
	t.Parallel()
	no := false
	r := withValues(newRollout(ok).data("df@1", 0).atomic("c1", 0, "df@1", "@mean[34.65]").derived("d1", 0, "d1 +", "c1").submit(0, "c1", "d1"))
	judge := &scripted{}
	require.InDelta(t, 1, govScorer(t, judge, nil).Score(t.Context(), r.Trajectory, prompt, reference).Infer, 0)
	r.Graph.Grounding[0].Replayed = &no
	judge = &scripted{}
	s := govScorer(t, judge, nil).Score(t.Context(), r.Trajectory, prompt, reference)
	require.Empty(t, judge.calls)
	require.InDelta(t, -0.5, s.Infer, 0)
	require.Equal(t, "c1", s.Gov.FirstFailing)
}

func TestJudgeFailureDuringGraphVerificationLeavesTheRolloutUnscored(t *testing.T) {
	t.Parallel()
	r := withValues(newRollout(ok).data("df@1", 0).atomic("c1", 0, "df@1", "@mean[34.65]").
		derived("d1", 0, "d1 +", "c1").derived("d2", 0, "outage !", "d1").submit(0, "c1", "d2"))
	s := govScorer(t, &scripted{}, nil).Score(t.Context(), r.Trajectory, prompt, reference)
	require.Equal(t, trajectory.ScoreUnscored, s.Status)
	require.Contains(t, s.Reason, "d2")
	require.NotEmpty(t, s.Verdicts, "what was said before is kept for people")
}

// blocks answers blocks in one call.
type blocks struct {
	scripted
	seen []reward.Block
}

func (b *blocks) EntailsBlock(_ context.Context, block reward.Block) (int, trajectory.Verdict, error) {
	b.seen = append(b.seen, block)
	for i, s := range block.Steps {
		if v, err := b.Entails(context.Background(), s); err != nil || v.Kind == trajectory.NotEntailed {
			return i, trajectory.Verdict{Judge: "blocks"}, err
		}
	}
	return -1, trajectory.Verdict{Judge: "blocks"}, nil
}

func TestBlocksOfACellAreOneCallWithAllThatWasFoundTrueBefore(t *testing.T) {
	t.Parallel()
	judge := &blocks{}
	s := govScorer(t, judge, func(p *reward.Preset) {
		p.Infer.Gov = gov.Config{Granularity: gov.Block, Context: gov.Inclusive, Stop: gov.StopBranch, Blocks: gov.BlocksCells}
	}).Score(t.Context(), withValues(chain()).Trajectory, prompt, reference)
	require.Equal(t, trajectory.ScoreOK, s.Status, s.Reason)
	require.Len(t, judge.seen, 1, "the second cell holds one open step, which is no block")
	require.Len(t, judge.seen[0].Steps, 2)
	require.Equal(t, []string{"@mean[34.65]"}, judge.seen[0].Given)
	require.InDelta(t, 0.5/5, s.Infer, 1e-12, "as judged one by one")
	require.Equal(t, 2, s.Gov.Calls)
}

func TestPanelIsAskedAboutABlockOnceAMember(t *testing.T) {
	t.Parallel()
	members := []*blocks{{}, {}, {}}
	panel, err := judges.NewPanel([]reward.Judge{members[0], members[1], members[2]}, nil)
	require.NoError(t, err)
	s := govScorer(t, panel.Judge(), func(p *reward.Preset) {
		p.Infer.Gov = gov.Config{Granularity: gov.Block, Context: gov.Inclusive, Stop: gov.StopBranch, Blocks: gov.BlocksCells}
	}).Score(t.Context(), withValues(chain()).Trajectory, prompt, reference)
	require.Equal(t, trajectory.ScoreOK, s.Status, s.Reason)
	require.InDelta(t, 0.5/5, s.Infer, 1e-12, "as judged one by one")
	require.Equal(t, 2, s.Gov.Calls)
	for _, m := range members {
		require.Len(t, m.seen, 1)
	}
	reasons := map[string]string{}
	for _, v := range s.Verdicts {
		reasons[v.Claim] = v.Judge + " " + v.Reason
	}
	require.Contains(t, reasons["d2"], "vote(scripted,scripted,scripted) scripted: step 2 of 2 is wrong")
}

func TestStepThatTheJudgeCantTellOfIsLeftOpenAlsoInABlock(t *testing.T) {
	t.Parallel()
	r := withValues(newRollout(ok).data("df@1", 0).atomic("c1", 0, "df@1", "@mean[34.65]").
		derived("d1", 0, "d1 +", "c1").derived("d2", 0, "d2 ?", "c1").derived("d3", 0, "d3 +", "c1").submit(0, "d1", "d2", "d3"))
	for _, g := range []gov.Granularity{gov.Atomic, gov.Block} {
		s := govScorer(t, &scripted{}, func(p *reward.Preset) { p.Infer.Gov.Granularity = g }).Score(t.Context(), r.Trajectory, prompt, reference)
		require.Equal(t, trajectory.ScoreOK, s.Status, s.Reason)
		require.InDelta(t, 1, s.Infer, 0, "%s: an abstention leaves the mean", g)
		require.False(t, s.Gov.Valid, "%s: what nobody could tell is not valid", g)
		require.Empty(t, s.Gov.FirstFailing)
	}
}

// The strategies agree wherever nothing is false.
func TestGraphAndEdgesAgreeOnASoundDerivation(t *testing.T) {
	t.Parallel()
	r := newRollout(ok).data("df@1", 0).atomic("c0", 0, "df@1", "@mean[34.65]")
	ids := []string{"c0"}
	for i := range 12 {
		id := fmt.Sprintf("d%d", i)
		r.derived(id, 0, id+" +", ids[i/2])
		ids = append(ids, id)
	}
	r = withValues(r.submit(0, ids...))
	want := scorer(t, "paper", &scripted{}).Score(t.Context(), r.Trajectory, prompt, reference)
	for _, g := range []gov.Granularity{gov.Atomic, gov.Block} {
		for _, c := range []gov.Context{gov.Minimal, gov.Inclusive} {
			got := govScorer(t, &scripted{}, func(p *reward.Preset) { p.Infer.Gov.Granularity, p.Infer.Gov.Context = g, c }).
				Score(t.Context(), r.Trajectory, prompt, reference)
			require.InDelta(t, want.Reward, got.Reward, 0)
			require.True(t, got.Gov.Valid)
			require.Zero(t, got.Gov.CallsSaved)
		}
	}
}
