package tokens_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/sft"
	"github.com/verigraph/verigraph/sft/sfttest"
	"github.com/verigraph/verigraph/trajectory"
)

// Field report: encoding the text again gives other ids than were sampled.
func TestSampledIdsThatAreNotTheCanonicalOnesAreKept(t *testing.T) {
	t.Parallel()
	tok := sfttest.Tiny(t)
	g := game(2, "subtotal = 1")
	// Split one sampled token into the tokens of its bytes: the same text in other ids.
	split := 0
	g.Sample = func(ids []int32) []int32 {
		var out []int32
		for _, id := range ids {
			b := tok.TokenBytes(id)
			if len(b) > 2 && !tok.IsAdded(id) && len(out) > 10 {
				split++
				for i := range b {
					one, ok := tok.TokenID(b[i : i+1])
					require.True(t, ok)
					out = append(out, one)
				}
				continue
			}
			out = append(out, id)
		}
		return out
	}
	r, _ := sfttest.Play(t, g)
	require.NotZero(t, split)
	s := whole(t, &r)[0]
	row, err := renderer(t, target(t)).Render(&s)
	require.NoError(t, err)
	require.True(t, row.Stored)
	seg := r.Scored.Trajectory.Segments[0]
	require.Equal(t, slices.Concat(seg.PromptIDs, seg.ResponseIDs), row.IDs[:len(row.IDs)-1])
	s.Exact = nil
	encoded, err := renderer(t, target(t)).Render(&s)
	require.NoError(t, err)
	require.Less(t, len(encoded.IDs), len(row.IDs), "encoding the text again would have given fewer ids")
	require.Len(t, row.Mask, len(row.IDs))
}

// Field reports: the template drops the reasoning of earlier turns, so that a turn is no extension of the one
// before; reasoning of all but the last turn is removed.
func TestTheReasoningOfEveryTurnStaysInMessagesAndIds(t *testing.T) {
	t.Parallel()
	r, _ := sfttest.Play(t, game(3, "x"))
	s := whole(t, &r)[0]
	for _, rendering := range []sft.Rendering{sft.RenderRollout, sft.RenderText} {
		at := target(t)
		at.Rendering = rendering
		row, err := renderer(t, at).Render(&s)
		require.NoError(t, err)
		require.Equal(t, 3, strings.Count(string(sfttest.Tiny(t).Decode(row.IDs)), "</think>"), rendering)
	}
	messages, _ := sft.NewEscaper(nil).Escape(&s)
	for _, i := range []int{2, 4, 6} {
		require.Contains(t, messages[i].Content, "<think>\nI look at it.\n</think>")
	}
}

// Field report: the prefix holds only the last step.
func TestThePrefixOfATurnIsTheWholePromptAndEveryTurnBefore(t *testing.T) {
	t.Parallel()
	for _, turns := range []int{2, 3, 5} {
		g := game(turns, "x")
		for k := range turns - 1 {
			g.Binds = append(g.Binds, k)
		}
		r, prompts := sfttest.Play(t, g)
		c := sft.Defaults()
		samples, err := c.Samples(&r)
		require.NoError(t, err)
		require.Len(t, samples, turns+1)
		for k := range turns {
			row, err := renderer(t, target(t)).Render(&samples[k])
			require.NoError(t, err)
			require.Equal(t, prompts[k], row.IDs[:slices.Index(row.Mask, 1)], "turn %d of %d", k, turns)
		}
	}
}

// Field reports: an assistant span found by the length of another rendering; tool or padding tokens in the loss.
func TestNoTokenOfAnObservationAQuestionOrAHeaderIsTrained(t *testing.T) {
	t.Parallel()
	g := game(4, "print(1)")
	g.Turns[1].Status = trajectory.CellException
	for i := range g.Turns {
		g.Turns[i].Observation = sfttest.Seen(sfttest.Said("an observation that looks like a turn"))
	}
	r, _ := sfttest.Play(t, g)
	s := whole(t, &r)[0]
	for _, stored := range []bool{true, false} {
		if !stored {
			s.Exact = nil
		}
		row, err := renderer(t, target(t)).Render(&s)
		require.NoError(t, err)
		want := sfttest.Said("print(1)") + "<|im_end|>"
		require.Equal(t, []string{want, want, want}, trained(sfttest.Tiny(t), row), "the failed turn is context, and nothing else is trained")
		end, _ := sfttest.Tiny(t).Special("<|im_end|>")
		require.Equal(t, end, row.IDs[len(row.IDs)-1], "no padding: a row ends with its last trained id")
	}
}

// Field report: truncation is detected by a missing end token.
func TestATurnThatStoppedAtTheTagIsTrainedAndATrulyCutOneIsNot(t *testing.T) {
	t.Parallel()
	r, _ := sfttest.Play(t, game(2, "x"))
	end, _ := sfttest.Tiny(t).Special("<|im_end|>")
	require.NotContains(t, r.Scored.Trajectory.Segments[0].ResponseIDs[len(r.Scored.Trajectory.Segments[0].ResponseIDs)-1:], end, "no end token was sampled")
	require.Equal(t, 2, whole(t, &r)[0].TrainedTurns())
	last := &r.Scored.Trajectory.Turns[1]
	last.FinishReason, last.HasCode, last.Status = "length", false, ""
	c := sft.Defaults()
	for _, failed := range []sft.FailedCells{sft.FailedContext, sft.FailedTrain} {
		c.FailedCells = failed
		samples, err := c.Samples(&r)
		require.NoError(t, err)
		s := samples[len(samples)-1]
		require.Equal(t, 1, s.TrainedTurns())
		require.Len(t, s.Messages, 3, "the cut turn is left out")
	}
}

// Field report: text without token data is encoded again and passes for what was sampled.
func TestTextOfATeacherIsMarkedAsEncoded(t *testing.T) {
	t.Parallel()
	r, _ := sfttest.Play(t, game(2, "x"))
	r.Scored.Trajectory.TextOnly, r.Scored.Trajectory.Segments = true, nil
	s := whole(t, &r)[0]
	require.Nil(t, s.Exact)
	row, err := renderer(t, target(t)).Render(&s)
	require.NoError(t, err)
	require.False(t, row.Stored)
	require.Len(t, row.Mask, len(row.IDs))
}
