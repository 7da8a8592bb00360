package reward_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/reward"
	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

// cheap policies that look like work. None may stand above an honest wrong answer with clean cells, those that
// state no answer of their own must stand below it.
func cheap() (atMost, below map[string]*rollout) {
	wrong := func(cells ...trajectory.CellStatus) *rollout {
		return newRollout(cells...).data("df@1", 0).atomic("c1", 0, "df@1", "@mean[31.00]")
	}
	typed := func(id, text, bound string) *rollout { // a template that holds text beside its placeholder
		r := newRollout(ok).data("df@1", 0).atomic(id, 0, "df@1", text)
		r.Graph.Nodes[len(r.Graph.Nodes)-1].Fields = []evidence.Field{{Name: "m", Text: bound}}
		return r
	}
	padded := wrong(ok).submit(0, "c1")
	for i := range 20 {
		id := fmt.Sprintf("d%d", i)
		padded.derived(id, 0, fmt.Sprintf("The mean is above %d. +", i), "c1").submit(0, id)
	}
	chained, before := wrong(ok), "c1"
	for i := range 10 {
		id := fmt.Sprintf("d%d", i)
		chained.derived(id, 0, id+" follows +", before)
		before = id
	}
	diluted := wrong(ok).derived("d0", 0, "leap -", "c1").submit(0, "c1", "d0")
	for i := range 9 {
		id := fmt.Sprintf("t%d", i)
		diluted.derived(id, 0, id+" is true +", "c1").submit(0, id)
	}
	idle := make([]trajectory.CellStatus, 40)
	for i := range idle {
		idle[i] = ok
	}
	many := wrong(ok)
	for i := range 30 {
		many.atomic(fmt.Sprintf("m%d", i), 0, "df@1", fmt.Sprintf("@mean_%d[%d]", i, i)).submit(0, fmt.Sprintf("m%d", i))
	}
	atMost = map[string]*rollout{
		"trivial truths beside a wrong answer":        padded,
		"a chain of trivial truths":                   chained.submit(0, "c1", before),
		"a refuted step among trivial truths":         diluted,
		"forty idle cells and a wrong answer":         wrong(idle...).submit(0, "c1"),
		"thirty names that nobody asked for":          many.submit(0, "c1"),
		"every guess as one value":                    wrong(ok).atomic("c2", 0, "df@1", "@mean[34.65, 31, 30]").submit(0, "c2"),
		"the same wrong value a hundred times":        wrong(ok).atomic("c2", 0, "df@1", "@mean[31.00] @mean[31.00]").submit(0, "c1", "c2"),
		"a wrong value and a right one a claim later": wrong(ok).atomic("c2", 0, "df@1", "@mean[34.65]").submit(0, "c1", "c2"),
	}
	below = map[string]*rollout{
		"an empty value beside a count":     typed("c1", "@mean[] of 715 rows", "715").submit(0, "c1"),
		"a typed number beside a count":     typed("c1", "@mean[31.00] of 715 rows", "715").submit(0, "c1"),
		"a right typed number beside a sum": typed("c1", "@mean[34.65] of 715 rows", "715").submit(0, "c1"),
		"blanks for a value":                typed("c1", "@mean[   ] of 715 rows", "715").submit(0, "c1"),
	}
	return atMost, below
}

func TestCheapPoliciesEarnNoMoreThanAWrongHonestAnswer(t *testing.T) {
	t.Parallel()
	atMost, below := cheap()
	s := scorer(t, "default", &scripted{})
	scoreOf := func(r *rollout) float64 {
		got := s.Score(t.Context(), r.Trajectory, prompt, reference)
		require.Equal(t, trajectory.ScoreOK, got.Status, got.Reason)
		return got.Reward
	}
	honest := scoreOf(newRollout(ok).data("df@1", 0).atomic("c1", 0, "df@1", "@mean[31.00]").submit(0, "c1"))
	paper := scorer(t, "paper", &scripted{})
	for name, r := range atMost {
		got := scoreOf(r)
		t.Logf("%-46s default %+.3f  paper %+.3f", name, got, paper.Score(t.Context(), r.Trajectory, prompt, reference).Reward)
		require.LessOrEqual(t, got, honest, name)
	}
	for name, r := range below {
		got := scoreOf(r)
		t.Logf("%-46s default %+.3f  paper %+.3f", name, got, paper.Score(t.Context(), r.Trajectory, prompt, reference).Reward)
		require.Less(t, got, honest, name)
		require.Negative(t, got, name)
	}
}

// What an answer needs is paid, what stands beside it is not, and a wrong step costs wherever it stands.
func TestOnlyDerivationsThatTheAnswerRestsOnArePaid(t *testing.T) {
	t.Parallel()
	r := newRollout(ok).data("df@1", 0).atomic("c1", 0, "df@1", "mean of A 34.65").
		derived("d1", 0, "needed +", "c1").derived("d2", 0, "@mean[34.65] +", "d1").derived("d3", 0, "beside +", "c1").derived("d4", 0, "beside -", "c1").
		submit(0, "d2", "d3", "d4")
	s := scorer(t, "default", &scripted{}).Score(t.Context(), r.Trajectory, prompt, reference)
	values := map[string]float64{}
	reasons := map[string]string{}
	for _, p := range s.Parts {
		values[p.Name], reasons[p.Name] = p.Value, p.Reason
	}
	require.Equal(t, []float64{1, 1, 0, -0.5}, []float64{values["d1"], values["d2"], values["d3"], values["d4"]})
	require.Equal(t, "entailed, beside the answer", reasons["d3"])
	require.InDelta(t, 1.5/4, s.Infer, 1e-12)
	for _, preset := range []string{"paper", "reference"} {
		s := scorer(t, preset, &scripted{}).Score(t.Context(), r.Trajectory, prompt, reference)
		require.InDelta(t, 2.5/4, s.Infer, 1e-12, preset)
	}
	// Where a judge grades the whole submission, everything submitted is part of it.
	free := task.Reference{PromptID: "p", Text: "about 35"}
	g := &grader{verdict: reward.OutcomeVerdict{Axes: []reward.Axis{{Name: "a", Value: 1}}}}
	sc, err := reward.New(reward.Config{Preset: reward.Defaults(), Judge: &scripted{}, Outcome: g})
	require.NoError(t, err)
	require.InDelta(t, 2.5/4, sc.Score(t.Context(), r.Trajectory, prompt, free).Infer, 1e-12)
}
