package reward_test

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/reward"
	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

// A conclusion that asserts the answer over a grounded premise which has nothing to do with it.
func asserting(verdict string) *rollout {
	return newRollout(ok).data("df@1", 0).atomic("c1", 0, "df@1", "The file has 715 rows.").
		derived("c2", 0, "Therefore @differs[True] "+verdict, "c1").submit(0, "c2")
}

var differs = task.Reference{PromptID: "p", Answers: []task.NamedAnswer{{Name: "differs", Value: "True"}}}

func TestRefutedConclusionCostsTheSubAnswerThatItCarries(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		needs   reward.AnswerNeeds
		verdict string
		want    float64
	}{
		{reward.NeedsNothing, "-", 1},
		{reward.NeedsNotRefuted, "-", 0},
		{reward.NeedsNotRefuted, "?", 1},
		{reward.NeedsNotRefuted, "+", 1},
		{reward.NeedsEntailed, "-", 0},
		{reward.NeedsEntailed, "?", 0},
		{reward.NeedsEntailed, "+", 1},
	} {
		p := reward.Defaults()
		p.Infer.AnswerNeeds = c.needs
		s, err := reward.New(reward.Config{Preset: p, Judge: &scripted{}})
		require.NoError(t, err)
		got := s.Score(t.Context(), asserting(c.verdict).Trajectory, prompt, differs)
		require.Equal(t, trajectory.ScoreOK, got.Status)
		require.InDelta(t, c.want, got.Outcome, 0, "%s %s", c.needs, c.verdict)
		require.InDelta(t, got.Total, sum(got.TurnRewards), 1e-9)
		require.True(t, *got.Correct, "accuracy stays the benchmark's own figure")
	}
	// Presets that state their sources' formulas keep them.
	for _, preset := range []string{"paper", "reference", "outcome_only"} {
		got := scorer(t, preset, &scripted{}).Score(t.Context(), asserting("-").Trajectory, prompt, differs)
		require.InDelta(t, 1, got.Outcome, 0, preset)
	}
}

func TestRefutationReachesWhatRestsOnTheRefutedClaimAndNothingElse(t *testing.T) {
	t.Parallel()
	r := newRollout(ok).data("df@1", 0).atomic("c1", 0, "df@1", "@mean[34.65]").
		derived("c2", 0, "leap -", "c1").derived("c3", 0, "@max[9] +", "c2").submit(0, "c1", "c3")
	got := scorer(t, "default", &scripted{}).Score(t.Context(), r.Trajectory, prompt, two)
	require.InDelta(t, 0.5, got.Outcome, 0, "the mean stands in a bound claim; the maximum rests on a leap")
}

func TestUnrelatedAssertionScoresBelowAWrongHonestAnswer(t *testing.T) {
	t.Parallel()
	honest := newRollout(ok).data("df@1", 0).atomic("c1", 0, "df@1", "@differs[False]").submit(0, "c1")
	s := scorer(t, "default", &scripted{})
	require.Less(t,
		s.Score(t.Context(), asserting("-").Trajectory, prompt, differs).Reward,
		s.Score(t.Context(), honest.Trajectory, prompt, differs).Reward)
}

func TestOutcomeFollowsTheDataSourcesRule(t *testing.T) {
	t.Parallel()
	ref := task.Reference{
		PromptID: "p", DataSource: "tablebench", Answers: []task.NamedAnswer{{Name: "answer", Value: "10.6"}}, Meta: []byte(`{"qtype": "FactChecking"}`),
	}
	answer := func(text string) *rollout {
		return newRollout(ok).data("df@1", 0).atomic("c1", 0, "df@1", text).submit(0, "c1")
	}
	s := scorer(t, "default", &scripted{})
	right := s.Score(t.Context(), answer("@answer[10.6]").Trajectory, prompt, ref)
	require.InDelta(t, 1, right.Outcome, 0)
	require.Equal(t, "tablebench/EM fixed", right.Method)
	wrong := s.Score(t.Context(), answer("@answer[106]").Trajectory, prompt, ref)
	require.Zero(t, wrong.Outcome)
	require.False(t, *wrong.Correct, "accuracy filters groups, so it goes by the mended rule too")
	official := scorer(t, "official", nil).Score(t.Context(), answer("@answer[106]").Trajectory, prompt, ref)
	require.InDelta(t, 1, official.Outcome, 0, "the official comparison deletes the point")
	require.Equal(t, "tablebench/EM official", official.Method)

	graded := ref
	graded.Meta = []byte(`{"qtype": "DataAnalysis", "qsubtype": "CausalAnalysis"}`)
	graded.Answers = []task.NamedAnswer{{Name: "answer", Value: "yes it does"}}
	part := s.Score(t.Context(), answer("yes it may").Trajectory, prompt, graded)
	require.InDelta(t, 2.0/3, part.Outcome, 1e-12)
	require.Nil(t, part.Correct, "text overlap is no verdict")
	require.InDelta(t, part.Outcome, part.Accuracy, 0)

	bad := ref
	bad.Meta = nil
	require.ErrorContains(t, s.Supports(bad), "meta.qtype")
	require.Equal(t, trajectory.ScoreUnscored, s.Score(t.Context(), answer("x").Trajectory, prompt, bad).Status)
}

func TestOpenTasksNeedNoReferenceAndTheirRubricReachesTheJudge(t *testing.T) {
	t.Parallel()
	g := &grader{verdict: reward.OutcomeVerdict{Axes: []reward.Axis{{Name: "content", Value: 0.75}, {Name: "format", Value: 0.25}}, Judge: "grader"}}
	s, err := reward.New(reward.Config{Preset: reward.Defaults(), Judge: &scripted{}, Outcome: g})
	require.NoError(t, err)
	r := newRollout(ok).data("df@1", 0).atomic("c1", 0, "df@1", "Fees fell.").submit(0, "c1")
	for _, ref := range []task.Reference{
		{DataSource: "dabstep_research", Meta: []byte(`{"checklist": "covers fees"}`)},
		{DataSource: "dabstep_research", Text: "covers fees"},
		{Meta: []byte(`{"judge_task": "open", "rubric": "covers fees"}`)},
	} {
		require.NoError(t, s.Supports(ref))
		got := s.Score(t.Context(), r.Trajectory, prompt, ref)
		require.Equal(t, trajectory.ScoreOK, got.Status, got.Reason)
		require.InDelta(t, 0.5, got.Outcome, 1e-12)
		require.Equal(t, "judge open grader", got.Method)
		require.Equal(t, reward.TaskOpen, g.item.Task)
		require.Equal(t, "covers fees", g.item.Rubric)
		require.Empty(t, g.item.Reference)
	}
	closed := task.Reference{Text: "35", Meta: []byte(`{"judge_task": "closed"}`)}
	require.NoError(t, s.Supports(closed))
	s.Score(t.Context(), r.Trajectory, prompt, closed)
	require.Equal(t, reward.TaskClosed, g.item.Task)
	require.Equal(t, "35", g.item.Reference)
	require.ErrorContains(t, s.Supports(task.Reference{Text: "35", Meta: []byte(`{"judge_task": "maybe"}`)}), "judge_task")
}

// hook is a custom scorer.
type hook struct {
	grade reward.Grade
	err   error
	item  reward.HookItem
}

func (h *hook) Grade(_ context.Context, item reward.HookItem) (reward.Grade, error) {
	h.item = item
	return h.grade, h.err
}

func TestCustomScorerGivesTheOutcomeUnderTheSameFailureRules(t *testing.T) {
	t.Parallel()
	yes := true
	ref := task.Reference{PromptID: "p", Text: "x", Meta: []byte(`{"scorer": "mine"}`)}
	r := newRollout(ok).data("df@1", 0).atomic("c1", 0, "df@1", "35").submit(0, "c1")
	for name, c := range map[string]struct {
		hook   hook
		status trajectory.ScoreStatus
		value  float64
	}{
		"a share":       {hook{grade: reward.Grade{Score: 0.5, Correct: &yes}}, trajectory.ScoreOK, 0.5},
		"axes":          {hook{grade: reward.Grade{Axes: []reward.Axis{{Name: "a", Value: 1}, {Name: "b"}}}}, trajectory.ScoreOK, 0.5},
		"no verdict":    {hook{err: fmt.Errorf("%w: timeout", reward.ErrNoVerdict)}, trajectory.ScoreUnscored, 0},
		"NaN":           {hook{grade: reward.Grade{Score: math.NaN()}}, trajectory.ScoreUnscored, 0},
		"above its end": {hook{grade: reward.Grade{Score: 85}}, trajectory.ScoreUnscored, 0},
	} {
		s, err := reward.New(reward.Config{Preset: reward.Defaults(), Judge: &scripted{}, Hooks: map[string]reward.Hook{"mine": &c.hook}})
		require.NoError(t, err)
		require.NoError(t, s.Supports(ref))
		got := s.Score(t.Context(), r.Trajectory, prompt, ref)
		require.Equal(t, c.status, got.Status, name)
		require.InDelta(t, c.value, got.Outcome, 0, name)
		require.Equal(t, "35", c.hook.item.Answer)
		require.Equal(t, []reward.HookClaim{{ID: "c1", Kind: "atomic", Text: "35", Structural: true, Lexical: true}}, c.hook.item.Claims)
	}
	s := scorer(t, "default", &scripted{})
	require.ErrorContains(t, s.Supports(ref), `no scorer "mine"`)
	require.Equal(t, trajectory.ScoreUnscored, s.Score(t.Context(), r.Trajectory, prompt, ref).Status)
}
