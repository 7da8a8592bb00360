package tokenizer

import (
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/unicode/norm"
)

func load(t testing.TB) *Tokenizer {
	t.Helper()
	tok, err := Load("../scripted/tokenizer.json")
	require.NoError(t, err)
	return tok
}

func TestHeapAndScanMergeAlike(t *testing.T) {
	t.Parallel()
	tok := load(t)
	rng := rand.New(rand.NewPCG(1, 2))
	words := []string{"print", "mean", "code", "_interpreter", "ing", "a", "b", "the", ">", "\n", "\xff", "é"}
	for range 500 {
		var b strings.Builder
		for b.Len() < 30 {
			b.WriteString(words[rng.IntN(len(words))])
		}
		piece := b.String()
		require.LessOrEqual(t, len(piece), shortPiece)
		require.Equal(t, tok.appendPiece(nil, piece), tok.appendLong(nil, piece), "%q", piece)
	}
}

func TestLongRunsOfMarksAreNormalizedWithoutAJoiner(t *testing.T) {
	t.Parallel()
	marks := strings.Repeat("\u0301", 40)
	require.Contains(t, norm.NFC.String("a"+marks), "\u034f", "x/text inserts one: the reason for our own composition")
	require.Equal(t, "x\u00e1"+marks[2:]+"y", normalizeNFC("xa"+marks+"y"))

	// Below the limit both agree, also where classes are out of order.
	for _, text := range []string{
		"a" + strings.Repeat("\u0323\u0301", 6), "q" + strings.Repeat("\u0301\u0316", 7) + "\u0323 z\u0301",
		"\u1100" + strings.Repeat("\u1161", 9), strings.Repeat("\u0344", 9), "e\u0301\u0302x",
		"\u09c7\u09be" + strings.Repeat("\u0323", 8), "\u0915\u093c" + strings.Repeat("\u094d", 9) + "e\u0301",
	} {
		require.Equal(t, norm.NFC.String(text), normalizeNFC(text), "%+q", text)
	}
}

func TestSplitFollowsThePattern(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"it's we'LL 'sx('dx":        "it|'s| we|'LL| '|sx|('|dx",
		"a  b":                      "a| | b",
		"a\n\n  b":                  "a|\n\n| | b",
		"x  \n  ":                   "x|  \n|  ",
		"12 ab12":                   "1|2| ab|1|2",
		"</code_interpreter>\n\nok": "</|code|_interpreter|>\n\n|ok",
		" ><x":                      " ><|x",
		"\r\n\tif x":                "\r\n|\tif| x",
		"\u00a0x\u3000\u3000y":      "\u00a0x|\u3000|\u3000y",
		"(df['a']":                  "(df|['|a|']",
		"'":                         "'",
		"'r":                        "'r",
		"\xffa":                     "\xffa",
		"$\xff.\n":                  "$\xff.\n",
		"你好，世界":                     "你好|，世界",
	} {
		var got []string
		for i := 0; i < len(text); {
			end := nextPiece(text, i)
			require.Greater(t, end, i)
			got = append(got, text[i:end])
			i = end
		}
		require.Equal(t, want, strings.Join(got, "|"), "%q", text)
	}
}

func FuzzDecodeOfEncodeIsTheNormalizedText(f *testing.F) {
	tok := load(f)
	for _, s := range []string{"", "it's\r\n  1", "<|im_end|>", "e\u0301 \u1100\u1161", "a" + strings.Repeat("\u0301", 40), "\U0001f9d1\u200d", "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		ids := tok.Encode(text)
		for _, id := range ids {
			if tok.IsAdded(id) {
				t.Fatalf("control token %d in %q", id, text)
			}
		}
		got := string(tok.Decode(ids))
		if want := normalizeNFC(text); got != want {
			t.Fatalf("got %+q, want %+q", got, want)
		}
		if !utf8.ValidString(text) {
			return
		}
		if want := norm.NFC.String(text); got != want && !strings.Contains(want, "\u034f") {
			t.Fatalf("got %+q, want %+q", got, want)
		}
		if again := string(tok.Decode(tok.EncodeSpecial(got))); again != got {
			t.Fatalf("with control tokens: got %+q, want %+q", again, got)
		}
	})
}

func FuzzParseNeverPanics(f *testing.F) {
	data, err := os.ReadFile("../scripted/tokenizer.json")
	require.NoError(f, err)
	f.Add(data[:2000])
	f.Add([]byte(`{"model":{"type":"BPE","vocab":{"a":0},"merges":[["a","a"],["a"]]},"decoder":{"type":"ByteLevel"}}`))
	f.Add([]byte(`{"added_tokens":[{"id":-1,"content":""}],"model":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		tok, err := Parse(data)
		if err == nil {
			tok.Decode(tok.Encode("a b"))
		}
	})
}
