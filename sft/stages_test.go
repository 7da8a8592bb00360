package sft_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/rollout"
	"github.com/verigraph/verigraph/rollout/compose"
	"github.com/verigraph/verigraph/sft"
	"github.com/verigraph/verigraph/sft/sfttest"
	"github.com/verigraph/verigraph/trajectory"
)

func game(turns int) sfttest.Game {
	g := sfttest.Game{ID: "p", System: "You analyse.", User: "What is the mean?", Config: rollout.Defaults()}
	for range turns {
		g.Turns = append(g.Turns, sfttest.Turn{Text: sfttest.Said("print(1)"), Observation: sfttest.Seen("1")})
	}
	return g
}

func samples(t *testing.T, c sft.Config, r *sft.Record) []sft.Sample {
	t.Helper()
	out, err := c.Samples(r)
	require.NoError(t, err)
	return out
}

func kinds(list []sft.Sample) []sft.Kind {
	var out []sft.Kind
	for _, s := range list {
		out = append(out, s.Kind)
	}
	return out
}

func losses(messages []sft.Message) string {
	var b strings.Builder
	for _, m := range messages {
		switch {
		case m.Role != sft.Assistant:
			b.WriteByte(m.Role[0])
		case m.Trained():
			b.WriteByte('T')
		default:
			b.WriteByte('c')
		}
	}
	return b.String()
}

func TestEachTurnOfStageOneTeachesOneThingInExactlyItsContext(t *testing.T) {
	t.Parallel()
	g := game(4)
	g.Binds, g.Infers = []int{1, 2}, []int{2}
	r, _ := sfttest.Play(t, g)
	got := samples(t, sft.Defaults(), &r)
	require.Equal(t, []sft.Kind{sft.Planning, sft.Bind, sft.Infer, sft.Submit, sft.Trajectory}, kinds(got))
	all := r.Scored.Trajectory.Messages
	for i, s := range got[:4] {
		require.Len(t, s.Messages, 3+2*i)
		for k, m := range s.Messages {
			require.Equal(t, all[k].Content, m.Content)
		}
		require.Equal(t, "su"+strings.Repeat("cu", i)+"T", losses(s.Messages))
		require.Equal(t, 1, s.Stage)
	}
	require.Equal(t, "suTuTuTuT", losses(got[4].Messages))
}

func TestAFailedCellStaysAsContextThatIsNotTrainedOrIsTrainedWhereAsked(t *testing.T) {
	t.Parallel()
	g := game(3)
	g.Turns[1].Status = trajectory.CellException
	r, _ := sfttest.Play(t, g)
	c := sft.Defaults()
	c.Stage1.Enabled = false
	require.Equal(t, "suTucuT", losses(samples(t, c, &r)[0].Messages))
	c.FailedCells = sft.FailedTrain
	require.Equal(t, "suTuTuT", losses(samples(t, c, &r)[0].Messages))
	c.FailedCells = sft.FailedReject
	require.Equal(t, sft.Failed, c.Reject(&r))
}

func TestAReportBecomesTheSampleThatTheComposerSaw(t *testing.T) {
	t.Parallel()
	g := game(2)
	g.Binds = []int{1}
	r, _ := sfttest.Play(t, g)
	r.Report = &compose.Record{Composed: true, Output: "The mean is 1. [c1]"}
	c := sft.Defaults()
	c.Stage2.Enabled = false
	got := samples(t, c, &r)
	last := got[len(got)-1]
	require.Equal(t, sft.Synthesis, last.Kind)
	system, user := compose.Prompt(&r.Scored.Trajectory.Graph, "What is the mean?")
	require.Equal(t, []string{system, user, "The mean is 1. [c1]"}, []string{last.Messages[0].Content, last.Messages[1].Content, last.Messages[2].Content})
	r.Report.Composed = false
	require.Len(t, samples(t, c, &r), len(got)-1, "a list that took the report's place teaches nothing")
}

func TestMessagesThatAreNoConversationAreAnError(t *testing.T) {
	t.Parallel()
	r, _ := sfttest.Play(t, game(2))
	r.Where = "trajectories/p-0/0.json"
	r.Scored.Trajectory.Messages[3].Role = "assistant"
	c := sft.Defaults()
	_, err := c.Samples(&r)
	require.ErrorContains(t, err, "trajectories/p-0/0.json: record r/p-0/0: messages are not")
	require.ErrorContains(t, err, "message 3")
}

// TestObservationsAreNeverTrained also holds for every kind and every configuration of failed cells.
func TestObservationsAreNeverTrained(t *testing.T) {
	t.Parallel()
	g := game(5)
	g.Turns[2].Status, g.Binds = trajectory.CellTimeout, []int{1, 3}
	r, _ := sfttest.Play(t, g)
	for _, failed := range []sft.FailedCells{sft.FailedContext, sft.FailedTrain} {
		c := sft.Defaults()
		c.FailedCells = failed
		for _, s := range samples(t, c, &r) {
			require.NotZero(t, s.TrainedTurns(), s.ID)
			for _, m := range s.Messages {
				require.False(t, m.Role != sft.Assistant && m.Loss != nil, s.ID)
			}
		}
	}
}
