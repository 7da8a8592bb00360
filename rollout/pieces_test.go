package rollout

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/policy"
	"github.com/verigraph/verigraph/trajectory"
)

func FuzzPiecesJoinToTheTextTheyWereCutFrom(f *testing.F) {
	for _, text := range []string{"", "a", "abcde", "é数据a", "a\xff\xfe", "<think>\n数</think>x", "a>b>>c", "\x00\x7f\x80"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		ids := Pieces{}.Encode(text)
		require.Equal(t, text, string(Pieces{}.Decode(ids)))
		for _, id := range ids {
			require.Positive(t, id)
			require.NotEqual(t, pieceEnd, id)
		}
	})
}

func TestPiecesEndAtEveryClosingBracket(t *testing.T) {
	t.Parallel()
	for pad := range 8 {
		text := strings.Repeat("x", pad) + "<code_interpreter>1</code_interpreter>after"
		scan := policy.ScanTurn(Pieces{}, Pieces{}.Encode(text), codeClose)
		require.True(t, scan.Found)
		require.True(t, strings.HasSuffix(string(Pieces{}.Decode(Pieces{}.Encode(text)[:scan.N])), codeClose), "%d", pad)
	}
}

func TestATeacherNeedsNoTokenizer(t *testing.T) {
	t.Parallel()
	c, asked, _ := teacher(t, said("<think>数据</think>\n<code_interpreter>\nx\n", "stop"), said(block("submit")+"\n<tool_response>7</tool_response>", "stop"))
	r := newRig(t)
	r.runner.Text, r.runner.Policy, r.runner.Tokenizer, r.runner.Chat = c, nil, Pieces{}, Pieces{}
	got := r.run(t)
	require.Equal(t, trajectory.Submitted, got.Termination, got.Error)
	require.True(t, got.TextOnly)
	require.Empty(t, got.Segments)
	require.Len(t, *asked, 2)
	require.Equal(t, "<think>数据</think>\n<code_interpreter>\nx\n</code_interpreter>", got.Turns[0].Text)
	require.True(t, strings.HasSuffix(got.Turns[1].Text, codeClose), "nothing after the tag is kept: %q", got.Turns[1].Text)
}
