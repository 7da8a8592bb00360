package policy_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/policy"
	"github.com/verigraph/verigraph/policy/scripted"
	"github.com/verigraph/verigraph/policy/tokenizer"
)

const codeTag = "</code_interpreter>"

func tiny(t *testing.T) *tokenizer.Tokenizer {
	t.Helper()
	tok, err := scripted.Tokenizer()
	require.NoError(t, err)
	return tok
}

// withThink is the tiny tokenizer with the reasoning tags as added tokens, as in Qwen3.
func withThink(t *testing.T) *tokenizer.Tokenizer {
	t.Helper()
	var root map[string]any
	require.NoError(t, json.Unmarshal(scripted.TokenizerJSON(), &root))
	root["added_tokens"] = append(root["added_tokens"].([]any),
		map[string]any{"id": 5000, "content": "<think>"}, map[string]any{"id": 5001, "content": "</think>"})
	data, err := json.Marshal(root)
	require.NoError(t, err)
	tok, err := tokenizer.Parse(data)
	require.NoError(t, err)
	return tok
}

// kept is the longest text that may remain; a tokenization that cuts at the tag keeps less of it.
func TestTrimKeepsTheShortestPrefixThatHoldsTheTagOutsideReasoning(t *testing.T) {
	t.Parallel()
	const block = "<code_interpreter>\nprint(1)\n</code_interpreter>"
	for name, tc := range map[string]struct {
		text, kept string // kept is "" if nothing is found
		thinkOpen  bool
	}{
		"no tag":                      {text: "plain answer"},
		"tag at the end":              {text: "x " + block, kept: "x " + block},
		"last token runs past":        {text: block + "\nmore", kept: block + "\n"},
		"token joins the next tag":    {text: block + "<tool_response>\n1", kept: block + "<"},
		"overrun of several tokens":   {text: block + "\n<tool_response>\n42\n</tool_response>\nSo it is", kept: block + "\n"},
		"two blocks":                  {text: block + " and " + block, kept: block},
		"after reasoning":             {text: "<think>\nhm\n</think>\n" + block + "\n", kept: "<think>\nhm\n</think>\n" + block + "\n"},
		"inside open reasoning":       {text: "<think>\ndraft " + block + "\n", thinkOpen: true},
		"open reasoning":              {text: "<think>\ndraft", thinkOpen: true},
		"draft, then the real one":    {text: "<think>" + block + "</think>" + block + "x", kept: "<think>" + block + "</think>" + block},
		"three drafts":                {text: "<think>" + block + block + block + "</think> " + block, kept: "<think>" + block + block + block + "</think> " + block},
		"reasoning that quotes open":  {text: "<think>a <think> b</think>" + block, kept: "<think>a <think> b</think>" + block},
		"code that prints think":      {text: "<code_interpreter>print('<think>')</code_interpreter>\nx", kept: "<code_interpreter>print('<think>')</code_interpreter>\n"},
		"reasoning opened a 2nd time": {text: "<think>a</think>b<think>" + block, thinkOpen: true},
		"stray closing think":         {text: "a</think>" + block, kept: "a</think>" + block},
		"stray closing tag":           {text: "a</code_interpreter>b", kept: "a</code_interpreter>"},
		"unfinished tag":              {text: "<code_interpreter>x</code_interpreter"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, tok := range []*tokenizer.Tokenizer{tiny(t), withThink(t)} {
				for _, ids := range [][]int32{tok.EncodeSpecial(tc.text), bytesOf(tok, tc.text)} {
					n, found := policy.Trim(tok, ids, make([]float32, len(ids)), codeTag)
					require.Equal(t, tc.kept != "", found)
					scan := policy.ScanTurn(tok, ids, codeTag)
					require.Equal(t, tc.thinkOpen, scan.ThinkOpen)
					if !found {
						require.Len(t, ids, n)
						continue
					}
					requireShortest(t, tok, ids, n, tc.kept)
				}
			}
		})
	}
}

// requireShortest: kept is the longest text that any tokenization may keep; the last token is
// needed, and the text without it lacks the tag.
func requireShortest(t *testing.T, tok *tokenizer.Tokenizer, ids []int32, n int, kept string) {
	t.Helper()
	got := string(tok.Decode(ids[:n]))
	if len(got) < len(kept) {
		require.Equal(t, kept[:len(got)], got)
		require.Equal(t, codeTag, got[len(got)-len(codeTag):])
	} else {
		require.Equal(t, kept, got)
	}
	_, found := policy.Trim(tok, ids[:n-1], make([]float32, n-1), codeTag)
	require.False(t, found)
}

// bytesOf is the least canonical tokenization: one token for each byte.
func bytesOf(tok *tokenizer.Tokenizer, text string) (ids []int32) {
	for i := range len(text) {
		id, _ := tok.TokenID([]byte{text[i]})
		ids = append(ids, id)
	}
	return ids
}

func TestAQuotedClosingTagDoesNotEndReasoningThatATokenOpened(t *testing.T) {
	t.Parallel()
	tok := withThink(t)
	const block = "<code_interpreter>1</code_interpreter>"
	ids := slices.Concat([]int32{5000}, tok.Encode("the tag </think> closes it "+block), []int32{5001}, tok.Encode(block+"\n"))
	scan := policy.ScanTurn(tok, ids, codeTag)
	require.True(t, scan.Found)
	require.Len(t, ids, scan.N)
	text := string(tok.Decode(ids))
	require.Equal(t, len(text)-len(block)-1+len("<code_interpreter>"), scan.CodeStart)
	require.Equal(t, "1", text[scan.CodeStart:scan.CodeEnd])

	open := policy.ScanTurn(tok, ids[:len(ids)-3], codeTag)
	require.False(t, open.Found)
}

func TestScanGivesTheBlocksContent(t *testing.T) {
	t.Parallel()
	tok := tiny(t)
	for text, want := range map[string]string{
		"<think>x</think><code_interpreter>\ndf = 1\n</code_interpreter>\n": "\ndf = 1\n",
		"<code_interpreter></code_interpreter>":                             "",
		"<code_interpreter><code_interpreter>1</code_interpreter>":          "<code_interpreter>1",
	} {
		ids := tok.Encode(text)
		scan := policy.ScanTurn(tok, ids, codeTag)
		require.True(t, scan.Found && scan.HasCode, text)
		require.Equal(t, want, string(tok.Decode(ids)[scan.CodeStart:scan.CodeEnd]))
	}
	require.False(t, policy.ScanTurn(tok, tok.Encode("a</code_interpreter>"), codeTag).HasCode)
}

func TestTrimFindsNothingInArraysOfUnequalLength(t *testing.T) {
	t.Parallel()
	tok := tiny(t)
	ids := tok.Encode("<code_interpreter>1</code_interpreter>")
	n, found := policy.Trim(tok, ids, make([]float32, len(ids)-1), codeTag)
	require.False(t, found)
	require.Equal(t, len(ids)-1, n)
	n, found = policy.Trim(tok, ids, make([]float32, len(ids)), "")
	require.False(t, found)
	require.Len(t, ids, n)
}
