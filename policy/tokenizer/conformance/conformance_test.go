// Package conformance compares the tokenizer with the reference implementation on a large corpus;
// make tokenizer-conformance writes the corpus and runs it. CI has the small golden files instead.
package conformance

import (
	"bufio"
	"encoding/json"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/policy/tokenizer"
)

func TestEveryDocumentOfTheCorpusHasTheReferencesIDs(t *testing.T) {
	corpus := os.Getenv("VERIGRAPH_TOKENIZER_CORPUS")
	if corpus == "" {
		t.Skip("VERIGRAPH_TOKENIZER_CORPUS is not set: see make tokenizer-conformance")
	}
	tok, err := tokenizer.Load(os.Getenv("VERIGRAPH_QWEN3_TOKENIZER"))
	require.NoError(t, err)
	f, err := os.Open(corpus)
	require.NoError(t, err)
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 64<<20)
	kinds := map[string]int{}
	docs, tokens, bad, bytes := 0, 0, 0, 0
	var spent time.Duration
	for lines.Scan() {
		var d struct {
			Kind, Text     string
			Plain, Special []int32
		}
		require.NoError(t, json.Unmarshal(lines.Bytes(), &d))
		begin := time.Now()
		plain, special := tok.Encode(d.Text), tok.EncodeSpecial(d.Text)
		spent += time.Since(begin)
		docs, tokens, bytes = docs+1, tokens+len(plain)+len(special), bytes+2*len(d.Text)
		kinds[d.Kind]++
		if !slices.Equal(plain, d.Plain) || !slices.Equal(special, d.Special) {
			if bad++; bad <= 10 {
				t.Errorf("%s %+q: %v and %v, want %v and %v", d.Kind, d.Text, plain, special, d.Plain, d.Special)
			}
		}
	}
	require.NoError(t, lines.Err())
	t.Logf("%d documents, %d ids, %d mismatches, %.1f MB/s, file %s, kinds %v", docs, tokens, bad, float64(bytes)/1e6/spent.Seconds(), tok.SHA256(), kinds)
	require.GreaterOrEqual(t, docs, 40_000)
	require.Zero(t, bad)
}
