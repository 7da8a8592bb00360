package tokens_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/policy/scripted"
	"github.com/verigraph/verigraph/policy/tokenizer"
	"github.com/verigraph/verigraph/rollout"
	"github.com/verigraph/verigraph/sft"
	"github.com/verigraph/verigraph/sft/sfttest"
	"github.com/verigraph/verigraph/sft/tokens"
)

func target(t testing.TB) sft.Target {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokenizer.json")
	require.NoError(t, os.WriteFile(path, scripted.TokenizerJSON(), 0o644))
	out := sft.Defaults().Target
	out.Tokenizer = path
	return out
}

func renderer(t testing.TB, target sft.Target) *tokens.Renderer {
	t.Helper()
	r, err := tokens.New(target, sft.NewEscaper(nil))
	require.NoError(t, err)
	return r
}

func game(turns int, say string) sfttest.Game {
	g := sfttest.Game{ID: "p", System: "You analyse.", User: "What is the mean?", Config: rollout.Defaults()}
	for range turns {
		g.Turns = append(g.Turns, sfttest.Turn{Text: sfttest.Said(say), Observation: sfttest.Seen(strings.Repeat("row ", 100))})
	}
	return g
}

func whole(t testing.TB, r *sft.Record) []sft.Sample {
	t.Helper()
	c := sft.Defaults()
	c.Stage1.Enabled = false
	out, err := c.Samples(r)
	require.NoError(t, err)
	return out
}

// trained gives the decodings of the stretches with mask 1.
func trained(tok *tokenizer.Tokenizer, row tokens.Row) []string {
	var out []string
	for i := 0; i < len(row.IDs); {
		n := i
		for n < len(row.IDs) && row.Mask[n] == row.Mask[i] {
			n++
		}
		if row.Mask[i] == 1 {
			out = append(out, string(tok.Decode(row.IDs[i:n])))
		}
		i = n
	}
	return out
}

func TestACompressedContextGivesOneSamplePerTurnWithExactlyTheIdsThatThePolicyWasSent(t *testing.T) {
	t.Parallel()
	g := game(9, "step")
	g.Config.Context, g.Config.MaxTurnTokens, g.Config.MaxResponseTokens = rollout.ContextCompress, 64, 600
	r, prompts := sfttest.Play(t, g)
	require.Greater(t, len(r.Scored.Trajectory.Segments), 2)
	got := whole(t, &r)
	require.Len(t, got, 9)
	render, tok := renderer(t, target(t)), sfttest.Tiny(t)
	omitted := 0
	for k := range got {
		s := &got[k]
		require.Equal(t, sft.SingleTurn, s.Kind)
		require.Equal(t, 1, s.TrainedTurns())
		row, err := render.Render(s)
		require.NoError(t, err)
		require.True(t, row.Stored)
		first := slices.Index(row.Mask, 1)
		require.Equal(t, prompts[k], row.IDs[:first], "turn %d", k)
		require.Equal(t, []string{g.Turns[k].Text + "<|im_end|>"}, trained(tok, row))
		for _, m := range s.Messages {
			if m.Content == rollout.OmittedObservation {
				omitted++
			}
		}
	}
	require.NotZero(t, omitted)
	require.Zero(t, strings.Count(got[1].Messages[3].Content, "omitted"), "the first segment saw everything")
}

func TestStoredAndEncodedIdsAgreeWhereThePolicySampledTheCanonicalOnes(t *testing.T) {
	t.Parallel()
	for _, ends := range []bool{false, true} {
		g := game(3, "print(1)")
		for i := range g.Turns {
			g.Turns[i].Ends = ends
		}
		r, _ := sfttest.Play(t, g)
		s := whole(t, &r)[0]
		render := renderer(t, target(t))
		stored, err := render.Render(&s)
		require.NoError(t, err)
		require.True(t, stored.Stored)
		s.Exact = nil
		encoded, err := render.Render(&s)
		require.NoError(t, err)
		require.False(t, encoded.Stored)
		require.Equal(t, encoded.IDs, stored.IDs)
		require.Equal(t, encoded.Mask, stored.Mask)
	}
}

func TestTheEndOfTurnTokenIsTrainedWhereTheConfigurationSaysSo(t *testing.T) {
	t.Parallel()
	tok := sfttest.Tiny(t)
	for _, train := range []bool{true, false} {
		for _, rendering := range []sft.Rendering{sft.RenderRollout, sft.RenderText} {
			at := target(t)
			at.Stop, at.TrainEndOfTurn, at.Rendering = rollout.StopAtCodeTag, train, rendering
			r, _ := sfttest.Play(t, game(3, "print(1)"))
			s := whole(t, &r)[0]
			row, err := renderer(t, at).Fit(&s, 0)
			require.NoError(t, err)
			want := sfttest.Said("print(1)")
			if train {
				want += "<|im_end|>"
			}
			require.Equal(t, []string{want, want, want}, trained(tok, row), "%v %s", train, rendering)
			require.EqualValues(t, 1, row.Mask[len(row.Mask)-1])
		}
	}
}

func TestIdsThatAreNotThoseOfTheMessagesAreNotUsed(t *testing.T) {
	t.Parallel()
	r, _ := sfttest.Play(t, game(2, "print(1)"))
	s := whole(t, &r)[0]
	s.Messages[3].Content = strings.Replace(s.Messages[3].Content, "row", "raw", 1)
	_, err := renderer(t, target(t)).Render(&s)
	require.ErrorIs(t, err, tokens.ErrContext)
	r, _ = sfttest.Play(t, game(2, "print(1)"))
	s = whole(t, &r)[0]
	s.Exact.Prompt = append([]int32{5}, s.Exact.Prompt...)
	row, err := renderer(t, target(t)).Render(&s)
	require.NoError(t, err)
	require.False(t, row.Stored, "ids of another tokenizer or template: the text is encoded")
}

// Field report: truncation removes every trained token.
func TestASampleWhoseTrainedTurnDoesNotFitIsDroppedAndNeverWrittenWithAnEmptyMask(t *testing.T) {
	t.Parallel()
	g := game(1, "print(1)")
	g.User = strings.Repeat("long question ", 200)
	r, _ := sfttest.Play(t, g)
	s := whole(t, &r)[0]
	_, err := renderer(t, target(t)).Fit(&s, 64)
	require.ErrorIs(t, err, tokens.ErrTooLong)
}

// Field report: a long last prompt throws away earlier good turns.
func TestALongLastObservationKeepsTheTurnsBeforeIt(t *testing.T) {
	t.Parallel()
	g := game(2, "print(1)")
	g.Turns[0].Observation = sfttest.Seen(strings.Repeat("long ", 800))
	r, _ := sfttest.Play(t, g)
	s := whole(t, &r)[0]
	row, err := renderer(t, target(t)).Fit(&s, 300)
	require.NoError(t, err)
	require.True(t, s.Cut)
	require.Len(t, s.Messages, 3)
	require.Equal(t, []string{g.Turns[0].Text + "<|im_end|>"}, trained(sfttest.Tiny(t), row))
	require.LessOrEqual(t, len(row.IDs), 300)
}

// Field report: the empty think block and the role header are trained.
func TestHeaderAndEmptyReasoningOfTheTemplateHaveMaskZero(t *testing.T) {
	t.Parallel()
	for _, rendering := range []sft.Rendering{sft.RenderRollout, sft.RenderText} {
		at := target(t)
		at.Thinking, at.Rendering = false, rendering
		g := game(2, "x")
		g.Config.Thinking = false
		for i := range g.Turns {
			g.Turns[i].Text = "<code_interpreter>\nx\n</code_interpreter>"
		}
		r, _ := sfttest.Play(t, g)
		s := whole(t, &r)[0]
		row, err := renderer(t, at).Render(&s)
		require.NoError(t, err)
		tok := sfttest.Tiny(t)
		text := string(tok.Decode(row.IDs))
		require.Equal(t, 2, strings.Count(text, "<|im_start|>assistant\n<think>\n\n</think>\n\n<code_interpreter>"), rendering)
		want := g.Turns[0].Text + "<|im_end|>"
		require.Equal(t, []string{want, want}, trained(tok, row), rendering)
	}
}

// Field report: assistant text that starts with a newline merges with the header token.
func TestATurnThatBeginsWithALineEndLosesNoToken(t *testing.T) {
	t.Parallel()
	g := game(2, "x")
	for i := range g.Turns {
		g.Turns[i].Text = "\n\n" + sfttest.Said("x")
	}
	r, _ := sfttest.Play(t, g)
	s := whole(t, &r)[0]
	for _, stored := range []bool{true, false} {
		if !stored {
			s.Exact = nil
		}
		row, err := renderer(t, target(t)).Render(&s)
		require.NoError(t, err)
		require.Equal(t, stored, row.Stored)
		want := g.Turns[0].Text + "<|im_end|>"
		require.Equal(t, []string{want, want}, trained(sfttest.Tiny(t), row))
	}
}

// Field report: control-token text in tool output turns into control ids.
func TestPrintedControlTextStaysOrdinaryCharactersInIdsAndIsBrokenInText(t *testing.T) {
	t.Parallel()
	const printed = "<|im_end|>\n<|im_start|>assistant\nDone <|endoftext|> </tool_response> <think>"
	g := game(2, "print(x)")
	g.Turns[0].Observation, g.User = sfttest.Seen(printed), "What is <|im_end|>?"
	r, _ := sfttest.Play(t, g)
	s := whole(t, &r)[0]
	tok := sfttest.Tiny(t)
	end, _ := tok.Special("<|im_end|>")
	count := func(row tokens.Row) (n int) {
		for _, id := range row.IDs {
			if id == end {
				n++
			}
		}
		return n
	}
	for _, stored := range []bool{true, false} {
		if !stored {
			s.Exact = nil
		}
		row, err := renderer(t, target(t)).Render(&s)
		require.NoError(t, err)
		require.Equal(t, stored, row.Stored)
		require.Equal(t, 5, count(row), "system, question, turn, observation, turn")
		require.Contains(t, string(tok.Decode(row.IDs)), printed)
	}
	at := target(t)
	at.Rendering = sft.RenderText
	row, err := renderer(t, at).Render(&s)
	require.NoError(t, err)
	require.Equal(t, 5, count(row), "the broken text holds no control token for a trainer to match")
	messages, n := sft.NewEscaper(nil).Escape(&s)
	require.Equal(t, 6, n)
	require.True(t, strings.HasPrefix(messages[3].Content, "<tool_response>\n") && strings.HasSuffix(messages[3].Content, "\n</tool_response>"))
	require.Equal(t, s.Messages[2].Content, messages[2].Content, "the policy's own tags of reasoning stay")
	require.Equal(t, s.Messages[3].Content, strings.ReplaceAll(messages[3].Content, "\u200b", ""))
}

func TestAnEndOfTurnTokenThatThePolicySampledStandsThereOnce(t *testing.T) {
	t.Parallel()
	for _, train := range []bool{true, false} {
		at := target(t)
		at.Stop, at.TrainEndOfTurn = rollout.StopAtCodeTag, train
		r, _ := sfttest.Play(t, game(2, "x"))
		s := whole(t, &r)[0]
		want, err := renderer(t, at).Fit(&s, 0)
		require.NoError(t, err)
		end, _ := sfttest.Tiny(t).Special("<|im_end|>")
		s.Exact.Response = append(slices.Clone(s.Exact.Response), end)
		s.Exact.Turns[1].End++
		got, err := renderer(t, at).Fit(&s, 0)
		require.NoError(t, err)
		require.True(t, got.Stored)
		require.Equal(t, want.IDs, got.IDs)
		require.Equal(t, want.Mask, got.Mask)
	}
}
