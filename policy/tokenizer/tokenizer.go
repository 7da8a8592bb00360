// Package tokenizer reads a Hugging Face tokenizer.json of the byte-level BPE kind (Qwen family)
// and turns text into the ids that the engine would use, and back.
//
// Invariants: Encode never yields an added token, so text that a tool printed cannot become a
// control token; Decode(Encode(s)) is s itself, in NFC where the file states that normalizer; a
// file whose rules are not exactly the known ones is refused, never approximated.
package tokenizer

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
)

// Tokenizer is immutable after loading and safe for concurrent use.
type Tokenizer struct {
	tokens       [][]byte         // raw bytes by id; nil for ids without a token
	ids          map[string]int32 // raw bytes to id, added tokens left out
	byteIDs      [256]int32
	merges       map[uint64]merge
	ignoreMerges bool
	nfc          bool
	added        map[string]int32
	raw          matcher // added tokens matched in the text as given
	normalized   matcher // added tokens matched after normalization
	sha          string
}

// Load reads tokenizer.json, or the file of that name in a directory.
func Load(dirOrFile string) (*Tokenizer, error) {
	path := dirOrFile
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, "tokenizer.json")
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	t, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// Encode gives the ids of text. Added tokens are never matched: a printed <|im_end|> stays
// ordinary characters. Bytes that are not valid UTF-8 are kept as they are.
func (t *Tokenizer) Encode(text string) []int32 {
	return t.appendText(nil, t.normalize(text))
}

// EncodeSpecial gives the ids of text with added tokens matched, leftmost and longest first. It is
// for templates only, never for text from tools, data or users.
func (t *Tokenizer) EncodeSpecial(text string) []int32 {
	var out []int32
	t.raw.split(text, func(plain string, id int32, isToken bool) {
		if isToken {
			out = append(out, id)
			return
		}
		t.normalized.split(t.normalize(plain), func(plain string, id int32, isToken bool) {
			if isToken {
				out = append(out, id)
				return
			}
			out = t.appendText(out, plain)
		})
	})
	return out
}

// Decode joins the raw bytes of ids, which need not be valid UTF-8; added tokens come as their
// text and ids without a token as nothing.
func (t *Tokenizer) Decode(ids []int32) []byte {
	n := 0
	for _, id := range ids {
		n += len(t.TokenBytes(id))
	}
	out := make([]byte, 0, n)
	for _, id := range ids {
		out = append(out, t.TokenBytes(id)...)
	}
	return out
}

// TokenBytes gives the raw bytes of one id, nil if there is no such token. The caller must not
// change them.
func (t *Tokenizer) TokenBytes(id int32) []byte {
	if id < 0 || int(id) >= len(t.tokens) {
		return nil
	}
	return t.tokens[id]
}

// TokenID gives the ordinary token with exactly these bytes.
func (t *Tokenizer) TokenID(b []byte) (int32, bool) {
	id, ok := t.ids[string(b)]
	return id, ok
}

// Special gives the id of the added token with exactly this text.
func (t *Tokenizer) Special(text string) (int32, bool) {
	id, ok := t.added[text]
	return id, ok
}

// IsAdded reports whether id is an added token.
func (t *Tokenizer) IsAdded(id int32) bool {
	got, ok := t.added[string(t.TokenBytes(id))]
	return ok && got == id
}

// SHA256 is the lower-case hex digest of the file.
func (t *Tokenizer) SHA256() string { return t.sha }

// Size is the highest id plus one.
func (t *Tokenizer) Size() int { return len(t.tokens) }

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
