package reward_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/reward"
	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

func TestPresetsGiveTheHandComputedRewards(t *testing.T) {
	t.Parallel()
	// Two of three cells succeed; of two required answers one is right; three derived claims, one
	// entailed, one not, one abstained, and a fourth, entailed, that the submission does not use.
	mixed := newRollout(ok, fail, ok, none).data("df@1", 0).
		atomic("c1", 0, "df@1", "@mean[34.65]").atomic("c2", 2, "df@1", "@max[8]").
		derived("c3", 2, "c3 +", "c1", "c2").derived("c4", 2, "c4 -", "c1").derived("c5", 2, "c5 ?", "c2").derived("c6", 2, "c6 +", "c1").
		submit(2, "c1", "c2", "c3", "c4", "c5")
	right := newRollout(ok, ok).data("df@1", 0).atomic("c1", 0, "df@1", "@mean[34.65]").atomic("c2", 1, "df@1", "@max[9]").
		derived("c3", 1, "c3 +", "c1", "c2").submit(1, "c1", "c2", "c3")
	// The maximum is a conclusion, over a step that it needs.
	derived := newRollout(ok, ok).data("df@1", 0).atomic("c1", 0, "df@1", "@mean[34.65]").atomic("c2", 0, "df@1", "B has 9").
		derived("c3", 1, "B is the largest +", "c1", "c2").derived("c4", 1, "@max[9] +", "c2", "c3").submit(1, "c1", "c4")
	missing := newRollout(ok, fail).data("df@1", 0).atomic("c1", 0, "df@1", "@mean[34.65]").derived("c2", 0, "c2 +", "c1")
	silent := newRollout(none)
	cases := []struct {
		preset                       string
		name                         string
		rollout                      *rollout
		process, infer, outcome      float64
		penalty, total, clipped, acc float64
	}{
		// R_infer: mean(+1, -0.5, +1) = 0.5 in scope all. In scope submitted it is mean(0, -0.5) = -0.25 where what
		// is entailed beside the answer is worth 0.
		{"paper", "mixed", mixed, 2.0 / 3, 0.5, 0.5, 0, 2.0/3 + 0.5 + 0.5, 2.0/3 + 1, 0},
		{"reference", "mixed", mixed, 2.0 / 3, 0.5, 0.5, 0, 0.8/3 + 0.075 + 0.175, 0.8/3 + 0.25, 0},
		{"outcome_only", "mixed", mixed, 2.0 / 3, 0, 0.5, 0, 0.5, 0.5, 0},
		{"default", "mixed", mixed, 2.0 / 3, -0.25, 0.5, 0, 0.2/3 - 0.025 + 0.4, 0.2/3 + 0.375, 0},
		{"paper", "right", right, 1, 1, 1, 0, 3, 3, 1},
		{"reference", "right", right, 1, 1, 1, 0, 0.9, 0.8, 1},
		{"outcome_only", "right", right, 1, 0, 1, 0, 1, 1, 1},
		{"default", "right", right, 1, 0, 1, 0, 0.9, 0.9, 1},
		{"default", "derived", derived, 1, 1, 1, 0, 1, 1, 1},
		{"paper", "missing", missing, 0.5, 1, 0, 0, 1.5, 1.5, 0},
		{"reference", "missing", missing, 0.5, 1, 0, -1, 0.2 + 0.15 - 1, -0.3, 0},
		{"outcome_only", "missing", missing, 0.5, 0, 0, 0, 0, 0, 0},
		// progress = (process 0.5 + a grounded claim 1)/2 = 0.75: -0.5 + 0.3*0.75
		{"default", "missing", missing, 0.5, 0, 0, -0.275, -0.275, -0.275, 0},
		{"paper", "silent", silent, 0, 0, 0, 0, 0, 0, 0},
		{"reference", "silent", silent, 0, 0, 0, -1, -1, -0.3, 0},
		{"outcome_only", "silent", silent, 0, 0, 0, 0, 0, 0, 0},
		{"default", "silent", silent, 0, 0, 0, -0.5, -0.5, -0.5, 0},
	}
	for _, c := range cases {
		t.Run(c.preset+" "+c.name, func(t *testing.T) {
			t.Parallel()
			s := scorer(t, c.preset, &scripted{}).Score(t.Context(), c.rollout.Trajectory, prompt, two)
			require.Equal(t, trajectory.ScoreOK, s.Status, s.Reason)
			got := []float64{s.Process, s.Infer, s.Outcome, s.Penalty, s.Total, s.Clipped, s.Reward, s.Accuracy}
			require.InDeltaSlice(t, []float64{c.process, c.infer, c.outcome, c.penalty, c.total, c.clipped, c.clipped, c.acc}, got, 1e-12)
			require.InDelta(t, s.Total, sum(s.TurnRewards), 1e-9)
			require.Len(t, s.TurnRewards, len(c.rollout.Turns))
			require.NotNil(t, s.Correct)
			require.Equal(t, c.acc == 1, *s.Correct)
			require.Equal(t, c.preset, s.Preset)
			require.Len(t, s.PresetHash, 64)
		})
	}
}

// policies of the farming table, worst first under the default preset.
func policies() (names []string, by map[string]*rollout) {
	by = map[string]*rollout{
		"plain text answer":  newRollout(none),
		"prints only":        newRollout(ok, ok, ok, ok, ok, ok, ok, ok),
		"submits constants":  newRollout(ok, ok).atomic("c1", 0, "", "@mean[34.65]").submit(1, "!c1"),
		"constants, derived": newRollout(ok, ok).atomic("c1", 0, "", "@mean[34.65]").derived("c2", 1, "fine +", "c1").submit(1, "!c1", "!c2"),
		"never submits":      newRollout(ok, ok).data("df@1", 0).atomic("c1", 1, "df@1", "@mean[34.65]").derived("c2", 1, "fine +", "c1"),
		"beside the point":   newRollout(ok, ok).data("df@1", 0).atomic("c1", 1, "df@1", "The file has 715 rows.").submit(1, "c1"),
		"restates beside the point": newRollout(ok, ok).data("df@1", 0).atomic("c1", 1, "df@1", "The file has 715 rows.").
			restated("c2", 1, "There are 715 rows. +", "c1").submit(1, "c2"),
		"restates a wrong answer": newRollout(ok, ok).data("df@1", 0).atomic("c1", 1, "df@1", "@mean[31.00]").
			restated("c2", 1, "@mean[31.00] +", "c1").submit(1, "c1", "c2"),
		"restates only": newRollout(ok, ok).data("df@1", 0).atomic("c1", 1, "df@1", "@mean[31.00]").
			restated("c2", 1, "@mean[31.00] +", "c1").restated("c3", 1, "@mean[31.00] again +", "c1").submit(1, "c2", "c3"),
		"guesses twice":       newRollout(ok, ok).data("df@1", 0).atomic("c1", 0, "df@1", "@mean[31.00]").atomic("c2", 1, "df@1", "@mean[34.65]").submit(1, "c1", "c2"),
		"wrong, bad step":     newRollout(ok, fail).data("df@1", 0).atomic("c1", 1, "df@1", "@mean[31.00]").derived("c2", 1, "leap -", "c1").submit(1, "c1", "c2"),
		"wrong, one cell bad": newRollout(ok, fail, ok).data("df@1", 0).atomic("c1", 2, "df@1", "@mean[31.00]").submit(2, "c1"),
		"wrong honest":        newRollout(ok, ok).data("df@1", 0).atomic("c1", 1, "df@1", "@mean[31.00]").submit(1, "c1"),
		"right, bad step":     newRollout(ok, ok).data("df@1", 0).atomic("c1", 1, "df@1", "@mean[34.65]").derived("c2", 1, "leap -", "c1").submit(1, "c1", "c2"),
		"right honest":        newRollout(ok, ok).data("df@1", 0).atomic("c1", 1, "df@1", "@mean[34.65]").submit(1, "c1"),
	}
	return []string{
		"constants, derived", "submits constants", "plain text answer", "prints only", "never submits", "restates beside the point", "beside the point",
		"restates only", "wrong, bad step", "restates a wrong answer", "wrong, one cell bad", "guesses twice", "wrong honest", "right, bad step", "right honest",
	}, by
}

func TestNoFarmingPolicyReachesAWrongHonestAnswerUnderTheDefaultPreset(t *testing.T) {
	t.Parallel()
	names, by := policies()
	rewards := map[string]map[string]float64{}
	for _, preset := range []string{"default", "paper", "reference"} {
		rewards[preset] = map[string]float64{}
		s := scorer(t, preset, &scripted{})
		for name, r := range by {
			score := s.Score(t.Context(), r.Trajectory, prompt, reference)
			require.Equal(t, trajectory.ScoreOK, score.Status, score.Reason)
			rewards[preset][name] = score.Reward
		}
	}
	for _, name := range names {
		t.Logf("%-26s default %+.3f  paper %+.3f  reference %+.3f", name, rewards["default"][name], rewards["paper"][name], rewards["reference"][name])
	}
	def := rewards["default"]
	for _, farm := range []string{
		"plain text answer", "prints only", "submits constants", "constants, derived", "never submits", "beside the point",
		"restates beside the point", "restates a wrong answer", "restates only",
	} {
		require.Less(t, def[farm], def["wrong honest"], farm)
	}
	for _, farm := range []string{"plain text answer", "prints only", "submits constants", "constants, derived", "never submits", "beside the point", "restates only"} {
		require.Less(t, def[farm], def["wrong, bad step"], "even the worst honest answer stands above %q", farm)
	}
	for i := 1; i < len(names); i++ {
		require.LessOrEqual(t, def[names[i-1]], def[names[i]], "%s before %s", names[i-1], names[i])
	}
	require.Greater(t, def["right, bad step"], def["wrong honest"]+0.5)
	// What the default preset is for: under the printed formula, printing alone equals honest work.
	require.GreaterOrEqual(t, rewards["paper"]["prints only"], rewards["paper"]["wrong honest"])
	require.Greater(t, rewards["paper"]["restates only"], rewards["paper"]["wrong honest"])
	require.Greater(t, rewards["paper"]["never submits"], rewards["paper"]["wrong honest"])
	// And the reference clip makes every missing submission the same.
	require.InDelta(t, rewards["reference"]["never submits"], rewards["reference"]["plain text answer"], 0)
}

func TestFailingMembersOfAGroupStillDifferUnderTheDefaultPreset(t *testing.T) {
	t.Parallel()
	group := []*rollout{
		newRollout(none),
		newRollout(fail, ok),
		newRollout(ok, ok).data("df@1", 0),
		newRollout(ok, ok).data("df@1", 0).atomic("c1", 1, "df@1", "@mean[34.65]"),
	}
	s := scorer(t, "default", &scripted{})
	last := math.Inf(-1)
	for i, r := range group {
		got := s.Score(t.Context(), r.Trajectory, prompt, reference).Reward
		require.Greater(t, got, last, "member %d got farther than the one before", i)
		last = got
	}
	require.Negative(t, last)
}

func TestBoundedProgressGainsNothingByRepetition(t *testing.T) {
	t.Parallel()
	s := scorer(t, "default", &scripted{})
	once := newRollout(ok).data("df@1", 0).atomic("c1", 0, "df@1", "a")
	many := newRollout(ok, ok, ok, ok, ok, ok)
	many.data("df@1", 0)
	for i := range 50 {
		many.atomic(fmt.Sprintf("c%d", i), 0, "df@1", "a")
	}
	require.InDelta(t, s.Score(t.Context(), once.Trajectory, prompt, reference).Reward, s.Score(t.Context(), many.Trajectory, prompt, reference).Reward, 0)
}

func TestJudgeFailureLeavesTheRolloutUnscoredWithoutAnyNumber(t *testing.T) {
	t.Parallel()
	r := newRollout(ok, ok).data("df@1", 0).atomic("c1", 0, "df@1", "@mean[34.65]").derived("c2", 1, "fine +", "c1").derived("c3", 1, "outage !", "c1").submit(1, "c1", "c2", "c3")
	for _, preset := range []string{"default", "paper", "reference"} {
		s := scorer(t, preset, &scripted{}).Score(t.Context(), r.Trajectory, prompt, reference)
		require.Equal(t, trajectory.ScoreUnscored, s.Status)
		require.Contains(t, s.Reason, "c3")
		require.Contains(t, s.Reason, "judge is down")
		require.Equal(t, []trajectory.VerdictKind{trajectory.Entailed, trajectory.NoVerdict}, []trajectory.VerdictKind{s.Verdicts[0].Kind, s.Verdicts[1].Kind})
		require.Equal(t, 2, s.Edges, "unscored rollouts are counted by edges")
		s.Status, s.Reason, s.Verdicts, s.Preset, s.PresetHash, s.Edges = "", "", nil, "", "", 0
		require.Equal(t, trajectory.Score{}, s, "an unscored rollout holds no number")
	}
	s := scorer(t, "outcome_only", nil).Score(t.Context(), r.Trajectory, prompt, reference)
	require.Equal(t, trajectory.ScoreOK, s.Status, "a preset without R_infer asks no judge")
}

func TestRolloutsThatEndedForOurReasonsAreLostAndNeverScored(t *testing.T) {
	t.Parallel()
	judge := &scripted{}
	s := scorer(t, "default", judge)
	for _, reason := range []trajectory.Termination{trajectory.TrajectoryTimeout, trajectory.SandboxLost, trajectory.PolicyUnavailable, trajectory.Canceled, trajectory.Stale, "", "made_up"} {
		r := newRollout(ok).data("df@1", 0).atomic("c1", 0, "df@1", "@mean[34.65]").derived("c2", 0, "+", "c1").submit(0, "c1", "c2")
		r.Termination, r.Error = reason, "worker lost"
		got := s.Score(t.Context(), r.Trajectory, prompt, reference)
		require.Equal(t, trajectory.ScoreLost, got.Status)
		require.Contains(t, got.Reason, "worker lost")
		require.Zero(t, got.Reward)
		require.Nil(t, got.TurnRewards)
	}
	require.Empty(t, judge.calls)
}

func TestAbstentionsLeaveTheMeanAndAreCounted(t *testing.T) {
	t.Parallel()
	r := newRollout(ok).data("df@1", 0).atomic("c1", 0, "df@1", "@mean[34.65]").derived("c2", 0, "open ?", "c1").derived("c3", 0, "leap -", "c1").submit(0, "c1", "c2", "c3")
	s := scorer(t, "paper", &scripted{}).Score(t.Context(), r.Trajectory, prompt, reference)
	require.InDelta(t, -0.5, s.Infer, 0)
	require.Len(t, s.Verdicts, 2)
	only := newRollout(ok).data("df@1", 0).atomic("c1", 0, "df@1", "@mean[34.65]").derived("c2", 0, "open ?", "c1").submit(0, "c1", "c2")
	s = scorer(t, "paper", &scripted{}).Score(t.Context(), only.Trajectory, prompt, reference)
	require.Equal(t, trajectory.ScoreOK, s.Status)
	require.Zero(t, s.Infer)
	require.Equal(t, trajectory.Abstained, s.Verdicts[0].Kind)
}

func TestRestatedConclusionsEarnNothingAndAreNotPutToTheJudge(t *testing.T) {
	t.Parallel()
	r := newRollout(ok).data("df@1", 0).atomic("c1", 0, "df@1", "@mean[34.65]").restated("c2", 0, "the same +", "c1").derived("c3", 0, "@max[9] by a step +", "c1").submit(0, "c1", "c2", "c3")
	judge := &scripted{}
	s := scorer(t, "default", judge).Score(t.Context(), r.Trajectory, prompt, two)
	require.InDelta(t, 0.5, s.Infer, 0)
	require.InDelta(t, -0.025, s.Penalty, 1e-12)
	require.Equal(t, []string{"@max[9] by a step +"}, judge.calls)
	s = scorer(t, "paper", &scripted{}).Score(t.Context(), r.Trajectory, prompt, reference)
	require.InDelta(t, 1, s.Infer, 0)
}

func TestEntailedConclusionsOverConstantsEarnNothingInTheDefaultPreset(t *testing.T) {
	t.Parallel()
	r := newRollout(ok).data("df@1", 0).atomic("c1", 0, "df@1", "@mean[31.00]").atomic("c2", 0, "", "one").derived("c3", 0, "one is one +", "c2").submit(0, "c1", "!c3")
	s := scorer(t, "default", &scripted{}).Score(t.Context(), r.Trajectory, prompt, reference)
	require.Zero(t, s.Infer)
	s = scorer(t, "paper", &scripted{}).Score(t.Context(), r.Trajectory, prompt, reference)
	require.InDelta(t, 1, s.Infer, 0)
}

func TestPartsStandOnTheTurnThatEarnedThem(t *testing.T) {
	t.Parallel()
	r := newRollout(ok, none, ok, ok).data("df@1", 0).atomic("c1", 0, "df@1", "@mean[34.65]").atomic("c2", 2, "df@1", "@max[8]").derived("c3", 2, "step +", "c1", "c2").submit(3, "c1", "c2", "c3")
	s := scorer(t, "reference", &scripted{}).Score(t.Context(), r.Trajectory, prompt, two)
	require.InDeltaSlice(t, []float64{0.4/3 + 0.175, 0, 0.4/3 + 0.15, 0.4 / 3}, s.TurnRewards, 1e-12)
	for _, p := range s.Parts {
		require.NotEmpty(t, p.Reason, "%+v", p)
	}
}

func TestOverlongPunishmentFollowsDAPOAndHasOneOwner(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		owner  reward.Owner
		length int
		want   float64
	}{
		{reward.OwnerServer, 0, 0},
		{reward.OwnerServer, 80, 0},
		{reward.OwnerServer, 81, -0.025},
		{reward.OwnerServer, 90, -0.25},
		{reward.OwnerServer, 100, -0.5},
		{reward.OwnerServer, 120, -1},
		{reward.OwnerTrainer, 120, 0},
		{reward.OwnerNone, 120, 0},
	} {
		p := reward.Defaults()
		p.Overlong = reward.Overlong{Owner: c.owner, MaxResponseLength: 100, Buffer: 20, PenaltyFactor: 0.5}
		s, err := reward.New(reward.Config{Preset: p, Judge: &scripted{}})
		require.NoError(t, err)
		r := newRollout(ok).data("df@1", 0).atomic("c1", 0, "df@1", "@mean[34.65]").submit(0, "c1")
		r.Segments[0].ResponseIDs = make([]int32, c.length) // tool tokens are response ids too
		got := s.Score(t.Context(), r.Trajectory, prompt, reference)
		require.InDelta(t, c.want, got.Overlong, 1e-12)
		require.InDelta(t, got.Clipped+c.want, got.Reward, 1e-12)
		require.False(t, math.Signbit(got.Overlong) && got.Overlong == 0, "no negative zero")
	}
}

func TestFreeTextReferencesNeedAnOutcomeJudge(t *testing.T) {
	t.Parallel()
	s := scorer(t, "default", &scripted{})
	require.NoError(t, s.Supports(reference))
	require.ErrorContains(t, s.Supports(task.Reference{PromptID: "p7", Text: "about 35"}), "p7")
	require.ErrorContains(t, s.Supports(task.Reference{PromptID: "p7"}), "no reference answer")
	r := newRollout(ok).data("df@1", 0).atomic("c1", 0, "df@1", "35").submit(0, "c1")
	got := s.Score(t.Context(), r.Trajectory, prompt, task.Reference{Text: "about 35"})
	require.Equal(t, trajectory.ScoreUnscored, got.Status)
}

type grader struct {
	verdict reward.OutcomeVerdict
	err     error
	item    reward.OutcomeItem
}

func (*grader) Name() string { return "grader" }
func (g *grader) Outcome(_ context.Context, item reward.OutcomeItem) (reward.OutcomeVerdict, error) {
	g.item = item
	return g.verdict, g.err
}

func TestOutcomeOfFreeTextIsTheMeanOfThreeAxes(t *testing.T) {
	t.Parallel()
	g := &grader{verdict: reward.OutcomeVerdict{Axes: []reward.Axis{{Name: "correctness", Value: 1}, {Name: "completeness", Value: 0.5}, {Name: "faithfulness", Value: 0.75}}, Judge: "grader"}}
	s, err := reward.New(reward.Config{Preset: reward.Defaults(), Judge: &scripted{}, Outcome: g})
	require.NoError(t, err)
	ref := task.Reference{Text: "about 35"}
	require.NoError(t, s.Supports(ref))
	r := newRollout(ok).data("df@1", 0).atomic("c1", 0, "df@1", "It is 35.").derived("c2", 0, "So it is odd. +", "c1").submit(0, "c2")
	got := s.Score(t.Context(), r.Trajectory, prompt, ref)
	require.Equal(t, trajectory.ScoreOK, got.Status, got.Reason)
	require.InDelta(t, 0.75, got.Outcome, 1e-12)
	require.InDelta(t, 0.75, got.Accuracy, 1e-12)
	require.Nil(t, got.Correct)
	require.InDelta(t, got.Total, sum(got.TurnRewards), 1e-9)
	require.Equal(t, "So it is odd. +", g.item.Answer)
	require.Equal(t, "c1 (bound from t.csv): It is 35.\nc2 (derived from c1): So it is odd. + (reasoning: as the premises say)\n", g.item.Evidence)

	silent := s.Score(t.Context(), newRollout(ok).Trajectory, prompt, ref)
	require.Equal(t, trajectory.ScoreOK, silent.Status)
	require.Zero(t, silent.Outcome)
}

func TestOutcomeJudgeFailureIsUnscoredAndNeverANumber(t *testing.T) {
	t.Parallel()
	r := newRollout(ok).data("df@1", 0).atomic("c1", 0, "df@1", "35").submit(0, "c1")
	for name, g := range map[string]*grader{
		"outage":       {err: fmt.Errorf("%w: 503", reward.ErrNoVerdict)},
		"NaN":          {verdict: reward.OutcomeVerdict{Axes: []reward.Axis{{Name: "correctness", Value: math.NaN()}}}},
		"out of range": {verdict: reward.OutcomeVerdict{Axes: []reward.Axis{{Name: "completeness", Value: 85}}}},
		"negative":     {verdict: reward.OutcomeVerdict{Axes: []reward.Axis{{Name: "faithfulness", Value: -1}}}},
	} {
		s, err := reward.New(reward.Config{Preset: reward.Defaults(), Judge: &scripted{}, Outcome: g})
		require.NoError(t, err)
		got := s.Score(t.Context(), r.Trajectory, prompt, task.Reference{Text: "about 35"})
		require.Equal(t, trajectory.ScoreUnscored, got.Status, name)
		require.Zero(t, got.Reward)
	}
}

func TestScorerWithoutAJudgeIsAConfigErrorWhereInferCounts(t *testing.T) {
	t.Parallel()
	_, err := reward.New(reward.Config{Preset: reward.Defaults()})
	require.ErrorContains(t, err, "no judge")
	p := reward.Defaults()
	p.Weights.Infer = math.NaN()
	_, err = reward.New(reward.Config{Preset: p, Judge: &scripted{}})
	require.ErrorContains(t, err, "weights.infer")
}

func TestReferenceOfAnotherPromptIsNeverUsed(t *testing.T) {
	t.Parallel()
	r := newRollout(ok).data("df@1", 0).atomic("c1", 0, "df@1", "@mean[34.65]").submit(0, "c1")
	got := scorer(t, "default", &scripted{}).Score(t.Context(), r.Trajectory, prompt, task.Reference{PromptID: "q", Answers: reference.Answers})
	require.Equal(t, trajectory.ScoreUnscored, got.Status)
}

func TestRolloutThatEndedBeforeItsFirstTurnHasOneTurnReward(t *testing.T) {
	t.Parallel()
	r := newRollout()
	r.Termination = trajectory.ContextFull
	got := scorer(t, "default", &scripted{}).Score(t.Context(), r.Trajectory, prompt, reference)
	require.Equal(t, []float64{-0.5}, got.TurnRewards)
}

// TestNothingThatLeavesIsNaNOrInfinite is the package's invariant over random, also broken, graphs.
func TestNothingThatLeavesIsNaNOrInfinite(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	endings := []trajectory.Termination{trajectory.Submitted, trajectory.NoSubmission, trajectory.MaxTurns, trajectory.ContextFull}
	statuses := []trajectory.CellStatus{ok, fail, none, trajectory.CellTimeout}
	texts := []string{"+", "-", "?", "@mean[34.65]", "@mean[nan] +", "@mean[1e999] -", "@max[9] ?"}
	var scorers []*reward.Scorer
	for _, name := range reward.PresetNames() {
		p, err := reward.LoadPreset(name)
		require.NoError(t, err)
		p.Overlong = reward.Overlong{Owner: reward.OwnerServer, MaxResponseLength: 3, Buffer: 2, PenaltyFactor: 100}
		s, err := reward.New(reward.Config{Preset: p, Judge: &scripted{}})
		require.NoError(t, err)
		scorers = append(scorers, s)
	}
	scored := 0
	for range 2000 {
		r := newRollout()
		for range rng.IntN(5) {
			r.Turns = append(r.Turns, trajectory.Turn{HasCode: rng.IntN(2) == 0, Status: statuses[rng.IntN(len(statuses))]})
		}
		var ids []string
		for i := range rng.IntN(8) {
			id := fmt.Sprintf("c%d", i)
			n := evidence.Node{ID: id, Kind: evidence.NodeAtomic, Turn: rng.IntN(9) - 2, Text: texts[rng.IntN(len(texts))]}
			if rng.IntN(2) == 0 {
				n.Kind = evidence.NodeDerived
			}
			if rng.IntN(4) == 0 {
				n.Restates = "c0"
			}
			r.node(n)
			for range rng.IntN(3) { // cycles and unknown ends included
				r.edge(fmt.Sprintf("c%d", rng.IntN(9)), id, []evidence.EdgeKind{evidence.EdgeDerive, evidence.EdgeGround, evidence.EdgeCompute}[rng.IntN(3)])
			}
			ids = append(ids, []string{"", "!"}[rng.IntN(2)]+id)
		}
		rng.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
		r.submit(rng.IntN(7)-1, append(ids[:rng.IntN(len(ids)+1)], "!unknown")...)
		r.Termination = endings[rng.IntN(len(endings))]
		r.Segments[0].ResponseIDs = make([]int32, rng.IntN(10))
		for _, s := range scorers {
			score := s.Score(t.Context(), r.Trajectory, prompt, two)
			_, err := json.Marshal(score) // refuses NaN and infinities wherever they are
			require.NoError(t, err)
			if score.Status != trajectory.ScoreOK {
				continue
			}
			scored++
			require.InDelta(t, score.Total, sum(score.TurnRewards), 1e-9)
			require.GreaterOrEqual(t, score.Infer, -0.5)
			require.LessOrEqual(t, score.Infer, 1.0)
			require.LessOrEqual(t, score.Penalty, 0.0)
			require.LessOrEqual(t, score.Overlong, 0.0)
			for _, v := range []float64{score.Process, score.Outcome, score.Accuracy} {
				require.True(t, v >= 0 && v <= 1)
			}
			require.Equal(t, score, s.Score(t.Context(), r.Trajectory, prompt, two), "a score is a pure function")
		}
	}
	require.Greater(t, scored, 1000)
}
