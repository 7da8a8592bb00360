package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// splitPattern is the pre-tokenizer's pattern of Qwen2, Qwen2.5 and Qwen3, which split.go follows by hand.
const splitPattern = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`

// maxID bounds the id table, so that a broken file cannot ask for all memory.
const maxID = 1 << 22

type file struct {
	Added         []addedToken    `json:"added_tokens"`
	Normalizer    *component      `json:"normalizer"`
	PreTokenizer  *component      `json:"pre_tokenizer"`
	PostProcessor *component      `json:"post_processor"`
	Decoder       *component      `json:"decoder"`
	Model         json.RawMessage `json:"model"`
}

type addedToken struct {
	ID         int64  `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	Normalized bool   `json:"normalized"`
}

type component struct {
	Type          string      `json:"type"`
	PreTokenizers []component `json:"pretokenizers"`
	Normalizers   []component `json:"normalizers"`
	Pattern       struct {
		Regex  *string `json:"Regex"`
		String *string `json:"String"`
	} `json:"pattern"`
	Behavior       string `json:"behavior"`
	Invert         bool   `json:"invert"`
	AddPrefixSpace bool   `json:"add_prefix_space"`
	UseRegex       *bool  `json:"use_regex"`
}

type model struct {
	Type                    string           `json:"type"`
	Dropout                 *float64         `json:"dropout"`
	ContinuingSubwordPrefix string           `json:"continuing_subword_prefix"`
	EndOfWordSuffix         string           `json:"end_of_word_suffix"`
	ByteFallback            bool             `json:"byte_fallback"`
	IgnoreMerges            bool             `json:"ignore_merges"`
	Vocab                   map[string]int64 `json:"vocab"`
	Merges                  mergeList        `json:"merges"`
}

// Parse reads the bytes of a tokenizer.json.
func Parse(data []byte) (*Tokenizer, error) {
	var f file
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	var m model
	if len(f.Model) == 0 {
		return nil, errors.New("tokenizer: no model")
	}
	if err := json.Unmarshal(f.Model, &m); err != nil {
		return nil, fmt.Errorf("tokenizer: model: %w", err)
	}
	nfc, err := f.check()
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	if err := m.check(); err != nil {
		return nil, fmt.Errorf("tokenizer: model: %w", err)
	}
	t := &Tokenizer{nfc: nfc, ignoreMerges: m.IgnoreMerges, sha: digest(data)}
	if err := t.build(&m, f.Added); err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	return t, nil
}

func (t *Tokenizer) build(m *model, added []addedToken) error {
	if err := t.addVocab(m.Vocab, added); err != nil {
		return err
	}
	if err := t.addBytes(); err != nil {
		return err
	}
	if err := t.addMerges(m.Merges); err != nil {
		return err
	}
	return t.addAdded(added)
}

// check refuses every rule that this package doesn't follow to the letter.
func (f *file) check() (nfc bool, err error) {
	if nfc, err = checkNormalizer(f.Normalizer); err != nil {
		return false, err
	}
	if err := checkPreTokenizer(f.PreTokenizer); err != nil {
		return false, err
	}
	if f.PostProcessor != nil && f.PostProcessor.Type != "ByteLevel" {
		return false, fmt.Errorf("post_processor %q: only ByteLevel or none is known", f.PostProcessor.Type)
	}
	if f.Decoder == nil || f.Decoder.Type != "ByteLevel" {
		return false, errors.New("decoder: want ByteLevel")
	}
	return nfc, nil
}

func checkNormalizer(c *component) (nfc bool, err error) {
	switch {
	case c == nil:
		return false, nil
	case c.Type == "NFC":
		return true, nil
	case c.Type == "Sequence" && len(c.Normalizers) == 1:
		return checkNormalizer(&c.Normalizers[0])
	case c.Type == "Sequence" && len(c.Normalizers) == 0:
		return false, nil
	}
	return false, fmt.Errorf("normalizer %q: only NFC or none is known", c.Type)
}

func checkPreTokenizer(c *component) error {
	if c == nil || c.Type != "Sequence" || len(c.PreTokenizers) != 2 {
		return errors.New("pre_tokenizer: want a Sequence of Split and ByteLevel")
	}
	split, level := c.PreTokenizers[0], c.PreTokenizers[1]
	if split.Type != "Split" || level.Type != "ByteLevel" {
		return fmt.Errorf("pre_tokenizer: want Split then ByteLevel, got %q then %q", split.Type, level.Type)
	}
	if split.Pattern.Regex == nil {
		return errors.New("pre_tokenizer: the split has no Regex pattern")
	}
	if *split.Pattern.Regex != splitPattern {
		return fmt.Errorf("pre_tokenizer: unknown split pattern %q: only the one of Qwen2 and Qwen3 is known", *split.Pattern.Regex)
	}
	if split.Behavior != "Isolated" || split.Invert {
		return fmt.Errorf("pre_tokenizer: split behavior %q, invert %t: want Isolated, false", split.Behavior, split.Invert)
	}
	if level.AddPrefixSpace || level.UseRegex == nil || *level.UseRegex {
		return errors.New("pre_tokenizer: ByteLevel must state add_prefix_space false and use_regex false")
	}
	return nil
}

func (m *model) check() error {
	switch {
	case m.Type != "BPE":
		return fmt.Errorf("type %q: only BPE is known", m.Type)
	case m.Dropout != nil && *m.Dropout != 0:
		return errors.New("dropout is set: ids would be random")
	case m.ContinuingSubwordPrefix != "" || m.EndOfWordSuffix != "":
		return errors.New("subword prefix or word suffix is set: not a byte-level model")
	case m.ByteFallback:
		return errors.New("byte_fallback is set: not a byte-level model")
	}
	return nil
}

func (t *Tokenizer) addVocab(vocab map[string]int64, added []addedToken) error {
	top := int64(-1)
	for text, id := range vocab {
		if id < 0 || id > maxID {
			return fmt.Errorf("token %q: id %d is out of range", text, id)
		}
		top = max(top, id)
	}
	for _, a := range added {
		if a.ID < 0 || a.ID > maxID {
			return fmt.Errorf("added token %q: id %d is out of range", a.Content, a.ID)
		}
		top = max(top, a.ID)
	}
	t.tokens = make([][]byte, top+1)
	t.ids = make(map[string]int32, len(vocab))
	isAdded := make(map[string]bool, len(added))
	for _, a := range added {
		isAdded[a.Content] = true
	}
	for text, id := range vocab {
		if isAdded[text] {
			continue // some files list added tokens in the vocabulary as well
		}
		b, err := fromByteLevel(text)
		if err != nil {
			return fmt.Errorf("token %q: %w", text, err)
		}
		if t.tokens[id] != nil || len(b) == 0 {
			return fmt.Errorf("token %q: empty, or its id %d is taken", text, id)
		}
		t.tokens[id] = b
		t.ids[string(b)] = int32(id)
	}
	return nil
}

// addBytes makes sure that every byte has a token, so that encoding cannot fail.
func (t *Tokenizer) addBytes() error {
	for b := range 256 {
		id, ok := t.ids[string([]byte{byte(b)})]
		if !ok {
			return fmt.Errorf("model: no token for byte 0x%02x", b)
		}
		t.byteIDs[b] = id
	}
	return nil
}

func (t *Tokenizer) addAdded(added []addedToken) error {
	t.added = make(map[string]int32, len(added))
	for _, a := range added {
		if a.SingleWord || a.LStrip || a.RStrip {
			return fmt.Errorf("added token %q: single_word, lstrip and rstrip are not known", a.Content)
		}
		if a.Content == "" || !utf8.ValidString(a.Content) {
			return fmt.Errorf("added token %d: empty or not text", a.ID)
		}
		if _, dup := t.added[a.Content]; dup || t.tokens[a.ID] != nil {
			return fmt.Errorf("added token %q: listed twice, or its id %d is taken", a.Content, a.ID)
		}
		t.tokens[a.ID] = []byte(a.Content)
		t.added[a.Content] = int32(a.ID)
		if a.Normalized && t.nfc {
			t.normalized.add(t.normalize(a.Content), int32(a.ID))
		} else {
			t.raw.add(a.Content, int32(a.ID))
		}
	}
	return nil
}
