package tokenizer

import (
	"encoding/json"
	"maps"
	"slices"
)

// Form writes a tokenizer.json of the kind that Parse knows: NFC, the pre-tokenizer of the Qwen family.
// tokens holds the bytes of the ordinary tokens by id, nil where an id has none; merges are in the order
// of their rank.
func Form(tokens [][]byte, merges [][2][]byte, added map[string]int32) ([]byte, error) {
	vocab := make(map[string]int, len(tokens))
	for id, b := range tokens {
		if b != nil {
			vocab[toByteLevel(b)] = id
		}
	}
	pairs := make([][2]string, len(merges))
	for i, m := range merges {
		pairs[i] = [2]string{toByteLevel(m[0]), toByteLevel(m[1])}
	}
	var specials []addedToken
	for _, text := range slices.Sorted(maps.Keys(added)) {
		specials = append(specials, addedToken{ID: int64(added[text]), Content: text})
	}
	return json.Marshal(map[string]any{
		"added_tokens": specials,
		"normalizer":   map[string]any{"type": "NFC"},
		"pre_tokenizer": map[string]any{"type": "Sequence", "pretokenizers": []any{
			map[string]any{"type": "Split", "pattern": map[string]string{"Regex": splitPattern}, "behavior": "Isolated", "invert": false},
			map[string]any{"type": "ByteLevel", "add_prefix_space": false, "use_regex": false},
		}},
		"decoder": map[string]any{"type": "ByteLevel"},
		"model":   map[string]any{"type": "BPE", "vocab": vocab, "merges": pairs},
	})
}

// ByteAlphabet lists the bytes in the order of the byte-level alphabet, which is that of the ids of the
// single-byte tokens in files of this kind.
func ByteAlphabet() []byte {
	runes := slices.Sorted(maps.Keys(byteOfRune))
	out := make([]byte, len(runes))
	for i, r := range runes {
		out[i] = byteOfRune[r]
	}
	return out
}

var runeOfByte = func() (table [256]rune) {
	for r, b := range byteOfRune {
		table[b] = r
	}
	return table
}()

func toByteLevel(b []byte) string {
	out := make([]rune, len(b))
	for i := range b {
		out[i] = runeOfByte[b[i]]
	}
	return string(out)
}
