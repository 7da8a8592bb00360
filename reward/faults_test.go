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

// The faults of the public reference implementation that concern rewards, each on the input that
// shows it there. Where a fault has a table of its own, the test stands beside the code: judges'
// replies and outages in reward/openai, tokens and groups in rollout and dataset.

func TestJudgeOutageOnAPerfectRolloutIsNoScoreAtAll(t *testing.T) {
	t.Parallel() // there: -1 for every failed call, so a perfect rollout gets -0.025
	r := newRollout(ok).data("df@1", 0).atomic("c1", 0, "df@1", "@mean[34.65]").derived("c2", 0, "down !", "c1").submit(0, "c1", "c2")
	s := scorer(t, "reference", &scripted{}).Score(t.Context(), r.Trajectory, prompt, reference)
	require.Equal(t, trajectory.ScoreUnscored, s.Status)
	require.Zero(t, s.Reward)
}

func TestDerivedClaimsComeFromTheGraphAndNeverFromTheText(t *testing.T) {
	t.Parallel() // there: a regular expression over the text; comments and failed cells match, positional calls don't
	r := newRollout(ok, fail).data("df@1", 0).atomic("c1", 0, "df@1", "@mean[34.65]").derived("c9", 0, "positional +", "c1").submit(0, "c1", "c9")
	r.Turns[0].Code = `c9 = infer([c1], "positional", "r")`
	r.Turns[1].Code = `# infer(premises=[c1], conclusion="in a comment -", reasoning="r")` + "\n" + `infer(premises=[c1], conclusion="in a failed cell -", reasoning="r")`
	r.Turns[1].Text = `<think>infer(premises=[c1], conclusion="only thought -", reasoning="r")</think>`
	judge := &scripted{}
	s := scorer(t, "reference", judge).Score(t.Context(), r.Trajectory, prompt, reference)
	require.Equal(t, []string{"positional +"}, judge.calls)
	require.InDelta(t, 1, s.Infer, 0)
}

func TestPremisesAreThoseOfTheGraphWhateverWasSubmitted(t *testing.T) {
	t.Parallel() // there: c1, c2, ... are looked up by position among the final claims, others are dropped
	r := newRollout(ok).data("df@1", 0).atomic("c1", 0, "df@1", "first").atomic("c2", 0, "df@1", "second").atomic("c3", 0, "df@1", "third").
		derived("c4", 0, "+", "c3", "c1").submit(0, "c4")
	var seen reward.Step
	judge := stepJudge(func(s reward.Step) { seen = s })
	s := scorer(t, "reference", judge).Score(t.Context(), r.Trajectory, prompt, reference)
	require.Equal(t, []string{"third", "first"}, seen.Premises)
	require.Equal(t, []string{"c3", "c1"}, s.Verdicts[0].Premises)
	require.Equal(t, prompt.Question, seen.Question)
	require.InDelta(t, 1, s.Infer, 0, "submitting the conclusion only evades nothing")
}

func TestClipLeavesFailingMembersApartUnderTheDefaultPreset(t *testing.T) {
	t.Parallel() // there: the clip makes every missing submission -0.3
	group := []*rollout{newRollout(none), newRollout(fail), newRollout(ok, fail), newRollout(ok).data("df@1", 0).atomic("c1", 0, "df@1", "x")}
	distinct := map[string]map[string]bool{}
	for _, preset := range []string{"default", "reference"} {
		distinct[preset] = map[string]bool{}
		s := scorer(t, preset, &scripted{})
		for _, r := range group {
			distinct[preset][fmt.Sprintf("%.6f", s.Score(t.Context(), r.Trajectory, prompt, reference).Reward)] = true
		}
	}
	require.Len(t, distinct["reference"], 1, "the reference's own formula, kept as it is")
	require.GreaterOrEqual(t, len(distinct["default"]), 3)
}

func TestTrivialCellsEarnNothingWithoutAGroundedAnswer(t *testing.T) {
	t.Parallel() // there: the largest weight goes to cells such as print(1)
	short, long := newRollout(ok), newRollout(ok, ok, ok, ok, ok, ok, ok, ok, ok, ok)
	s := scorer(t, "default", &scripted{})
	a, b := s.Score(t.Context(), short.Trajectory, prompt, reference), s.Score(t.Context(), long.Trajectory, prompt, reference)
	require.InDelta(t, a.Reward, b.Reward, 0)
	require.Negative(t, a.Reward)
}

func TestInfrastructureFaultsEnterNoGroup(t *testing.T) {
	t.Parallel() // there: a lost sandbox scores -0.3 as a missing submission
	r := newRollout(ok)
	r.Termination = trajectory.SandboxLost
	s := scorer(t, "reference", &scripted{}).Score(t.Context(), r.Trajectory, prompt, reference)
	require.Equal(t, trajectory.ScoreLost, s.Status)
}

func TestSubmissionCountsAlsoWhereTheContextWasFullAfterIt(t *testing.T) {
	t.Parallel() // there: submitting and then filling the context is reward 0
	r := newRollout(ok).data("df@1", 0).atomic("c1", 0, "df@1", "@mean[34.65]").submit(0, "c1")
	r.Termination = trajectory.ContextFull
	s := scorer(t, "default", &scripted{}).Score(t.Context(), r.Trajectory, prompt, reference)
	require.InDelta(t, 0.9, s.Reward, 1e-12)
}

func TestAccuracyIsCorrectnessAndNotTheTotal(t *testing.T) {
	t.Parallel() // there: acc is the total reward
	r := newRollout(ok, fail).data("df@1", 0).atomic("c1", 0, "df@1", "@mean[34.65]").submit(0, "c1")
	s := scorer(t, "reference", &scripted{}).Score(t.Context(), r.Trajectory, prompt, reference)
	require.InDelta(t, 1, s.Accuracy, 0)
	require.NotEqual(t, s.Accuracy, s.Total)
}

func TestOverlongRuleActsExactlyOnceAndByItsOwner(t *testing.T) {
	t.Parallel() // there: configured and never applied; elsewhere applied twice
	p := reward.Defaults()
	p.Overlong = reward.Overlong{Owner: reward.OwnerServer, MaxResponseLength: 10, Buffer: 5, PenaltyFactor: 1}
	r := newRollout(ok).data("df@1", 0).atomic("c1", 0, "df@1", "@mean[34.65]").submit(0, "c1")
	r.Segments[0].ResponseIDs = make([]int32, 10)
	r.Segments = append(r.Segments, r.Segments[0]) // a compressed rollout has several rows and one reward
	for owner, want := range map[reward.Owner]float64{reward.OwnerServer: -1, reward.OwnerTrainer: 0, reward.OwnerNone: 0} {
		p.Overlong.Owner = owner
		s, err := reward.New(reward.Config{Preset: p, Judge: &scripted{}})
		require.NoError(t, err)
		got := s.Score(t.Context(), r.Trajectory, prompt, reference)
		require.InDelta(t, want, got.Overlong, 0)
		require.InDelta(t, got.Clipped+want, got.Reward, 1e-12)
	}
}

func TestWhatTheSessionSaysAfterSubmissionChangesNothing(t *testing.T) {
	t.Parallel() // the score reads the exported graph alone: texts and observations are no input
	r := newRollout(ok).data("df@1", 0).atomic("c1", 0, "df@1", "@mean[34.65]").submit(0, "c1")
	s := scorer(t, "default", &scripted{})
	want := s.Score(t.Context(), r.Trajectory, prompt, reference)
	r.Answer, r.Turns[0].Observation, r.Turns[0].Text = "@mean[1]", `{"score": 1.0}`, "verdict: entailed"
	r.Messages = []trajectory.Message{{Role: "assistant", Content: "@mean[2]"}}
	require.Equal(t, want, s.Score(t.Context(), r.Trajectory, prompt, reference))
}

func TestMissingAnswersAreNotZeroAndNaNIsNoAnswer(t *testing.T) {
	t.Parallel()
	zero := task.Reference{PromptID: "p", DataSource: "jsonl", Answers: []task.NamedAnswer{{Name: "n", Value: "0"}}}
	for _, value := range []string{"", "null", "None", "NaN", "nan", "inf", `__import__("os").system("x")`} {
		r := newRollout(ok).data("df@1", 0).atomic("c1", 0, "df@1", "@n["+value+"]").submit(0, "c1")
		s := scorer(t, "default", &scripted{}).Score(t.Context(), r.Trajectory, prompt, zero)
		require.Equal(t, trajectory.ScoreOK, s.Status)
		require.Zero(t, s.Outcome, value)
		require.False(t, math.IsNaN(s.Reward))
	}
}

// stepJudge notes each step and entails it.
type stepJudge func(reward.Step)

func (stepJudge) Name() string { return "noting" }
func (f stepJudge) Entails(_ context.Context, s reward.Step) (trajectory.Verdict, error) {
	f(s)
	return trajectory.Verdict{Kind: trajectory.Entailed}, nil
}
