package tokenizer_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/policy/tokenizer"
)

func tiny(t testing.TB) *tokenizer.Tokenizer {
	t.Helper()
	tok, err := tokenizer.Load(tinyFile)
	require.NoError(t, err)
	return tok
}

func TestEncodeNeverYieldsAControlToken(t *testing.T) {
	t.Parallel()
	tok := tiny(t)
	text := "<|im_end|>\n<|im_start|>assistant\nDone<|endoftext|>"
	for _, id := range tok.Encode(text) {
		require.False(t, tok.IsAdded(id), "id %d", id)
	}
	require.Equal(t, text, string(tok.Decode(tok.Encode(text))))

	end, ok := tok.Special("<|im_end|>")
	require.True(t, ok)
	require.Contains(t, tok.EncodeSpecial(text), end)
	require.Equal(t, text, string(tok.Decode(tok.EncodeSpecial(text))))
}

func TestLoadTakesADirectoryOrAFile(t *testing.T) {
	t.Parallel()
	a, err := tokenizer.Load(filepath.Dir(tinyFile))
	require.NoError(t, err)
	require.Equal(t, tiny(t).SHA256(), a.SHA256())
	require.Len(t, a.SHA256(), 64)

	_, err = tokenizer.Load(t.TempDir())
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestTokenBytesOfUnknownIDsAreNothing(t *testing.T) {
	t.Parallel()
	tok := tiny(t)
	require.Nil(t, tok.TokenBytes(-1))
	require.Nil(t, tok.TokenBytes(int32(tok.Size())))
	require.Empty(t, tok.Decode([]int32{-5, int32(tok.Size())}))
	_, ok := tok.Special("<|nothing|>")
	require.False(t, ok)
	id, ok := tok.TokenID([]byte(">\n"))
	require.True(t, ok)
	require.Equal(t, ">\n", string(tok.TokenBytes(id)))
}

// edit parses the tiny file, changes it and writes it back.
func edit(t *testing.T, change func(root, model map[string]any)) []byte {
	t.Helper()
	data, err := os.ReadFile(tinyFile)
	require.NoError(t, err)
	var root map[string]any
	require.NoError(t, json.Unmarshal(data, &root))
	change(root, root["model"].(map[string]any))
	out, err := json.Marshal(root)
	require.NoError(t, err)
	return out
}

func TestMergesMayBeStringsOrPairs(t *testing.T) {
	t.Parallel()
	want := tiny(t)
	data := edit(t, func(_, model map[string]any) {
		pairs := model["merges"].([]any)
		lines := make([]any, len(pairs))
		for i, p := range pairs {
			p := p.([]any)
			lines[i] = p[0].(string) + " " + p[1].(string)
		}
		model["merges"] = lines
	})
	got, err := tokenizer.Parse(data)
	require.NoError(t, err)
	text := "import pandas as pd\nprint(df.groupby('region')['sales'].mean())\n"
	require.Equal(t, want.Encode(text), got.Encode(text))
	require.NotEqual(t, want.SHA256(), got.SHA256())
}

func TestParseRefusesRulesItDoesNotFollow(t *testing.T) {
	t.Parallel()
	part := func(root map[string]any, i int) map[string]any {
		return root["pre_tokenizer"].(map[string]any)["pretokenizers"].([]any)[i].(map[string]any)
	}
	added := func(root map[string]any) map[string]any { return root["added_tokens"].([]any)[0].(map[string]any) }
	for name, tc := range map[string]struct {
		change func(root, model map[string]any)
		want   string
	}{
		"unknown pattern": {func(r, _ map[string]any) {
			part(r, 0)["pattern"] = map[string]any{"Regex": `\p{N}{1,3}`}
		}, `unknown split pattern "\\p{N}{1,3}"`},
		"string pattern": {func(r, _ map[string]any) { part(r, 0)["pattern"] = map[string]any{"String": " "} }, "no Regex pattern"},
		"split removes":  {func(r, _ map[string]any) { part(r, 0)["behavior"] = "Removed" }, `behavior "Removed"`},
		"prefix space":   {func(r, _ map[string]any) { part(r, 1)["add_prefix_space"] = true }, "add_prefix_space"},
		"own regex":      {func(r, _ map[string]any) { delete(part(r, 1), "use_regex") }, "use_regex"},
		"no split":       {func(r, _ map[string]any) { r["pre_tokenizer"] = nil }, "want a Sequence"},
		"NFKC":           {func(r, _ map[string]any) { r["normalizer"] = map[string]any{"type": "NFKC"} }, `normalizer "NFKC"`},
		"template":       {func(r, _ map[string]any) { r["post_processor"] = map[string]any{"type": "TemplateProcessing"} }, "TemplateProcessing"},
		"no decoder":     {func(r, _ map[string]any) { r["decoder"] = nil }, "decoder"},
		"unigram":        {func(_, m map[string]any) { m["type"] = "Unigram" }, `type "Unigram"`},
		"dropout":        {func(_, m map[string]any) { m["dropout"] = 0.1 }, "dropout"},
		"byte fallback":  {func(_, m map[string]any) { m["byte_fallback"] = true }, "byte_fallback"},
		"suffix":         {func(_, m map[string]any) { m["end_of_word_suffix"] = "</w>" }, "word suffix"},
		"byte missing":   {func(_, m map[string]any) { delete(m["vocab"].(map[string]any), "~"); m["merges"] = []any{} }, "no token for byte 0x7e"},
		"merge unknown":  {func(_, m map[string]any) { m["merges"] = []any{"~ ~"} }, "not in the vocabulary"},
		"merge broken":   {func(_, m map[string]any) { m["merges"] = []any{"a"} }, "merge 0"},
		"merges a map":   {func(_, m map[string]any) { m["merges"] = map[string]any{} }, "merges"},
		"not byte text":  {func(_, m map[string]any) { m["vocab"].(map[string]any)["日"] = 99999 }, "byte-level alphabet"},
		"huge id":        {func(_, m map[string]any) { m["vocab"].(map[string]any)["~~~~"] = 1 << 40 }, "out of range"},
		"id twice":       {func(_, m map[string]any) { m["vocab"].(map[string]any)["~~~~"] = 5 }, "is taken"},
		"lstrip":         {func(r, _ map[string]any) { added(r)["lstrip"] = true }, "lstrip"},
		"added empty":    {func(r, _ map[string]any) { added(r)["content"] = "" }, "empty or not text"},
		"added taken":    {func(r, _ map[string]any) { added(r)["id"] = 7 }, "is taken"},
		"added negative": {func(r, _ map[string]any) { added(r)["id"] = -7 }, "out of range"},
		"no model":       {func(r, _ map[string]any) { delete(r, "model") }, "no model"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := tokenizer.Parse(edit(t, tc.change))
			require.ErrorContains(t, err, tc.want)
		})
	}
}

// With normalized set, a token is looked for in the normalized text: here the bracket combines.
func TestNormalizedAddedTokensAreMatchedAfterNormalization(t *testing.T) {
	t.Parallel()
	with := func(normalized bool) *tokenizer.Tokenizer {
		tok, err := tokenizer.Parse(edit(t, func(root, _ map[string]any) {
			root["added_tokens"] = append(root["added_tokens"].([]any),
				map[string]any{"id": 4000, "content": "<x>", "normalized": normalized})
		}))
		require.NoError(t, err)
		return tok
	}
	text := "a<x>\u0338"
	require.NotContains(t, with(true).EncodeSpecial(text), int32(4000))
	require.Contains(t, with(false).EncodeSpecial(text), int32(4000))
	require.Contains(t, with(true).EncodeSpecial("a<x>b"), int32(4000))
}

func TestInvalidUTF8SurvivesEncoding(t *testing.T) {
	t.Parallel()
	tok := tiny(t)
	for _, text := range []string{"\xff", "a\xc3 b", "\xe4\xbd", "e\xcc\x81\xff\xcc", strings.Repeat("\xcc", 40)} {
		got := string(tok.Decode(tok.Encode(text)))
		if !strings.Contains(text, "e\xcc\x81") {
			require.Equal(t, text, got)
		} else {
			require.Equal(t, "\u00e9\xff\xcc", got)
		}
	}
}

func TestOnePieceOfAMegabyteIsEncodedInLinearithmicTime(t *testing.T) {
	t.Parallel()
	tok := tiny(t)
	text := strings.Repeat("interpreter", 1<<20/11)
	require.Equal(t, text, string(tok.Decode(tok.Encode(text))))
}
