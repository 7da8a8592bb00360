// Package servertok makes a tokenizer out of a policy server's /tokenize and /detokenize, for models
// whose tokenizer.json is not at hand.
//
// The rule: the server decodes every id, which gives the vocabulary; a token's rank is its id, as in the
// byte-level BPE of the Qwen family, so that the merge which makes it is what the merges before it leave
// of its bytes; and a token that no merge makes is an added one. Text is then encoded here, without
// added tokens, as with the file: what a tool prints cannot become a control token, and nothing of it
// has to be broken up. Invariant: a tokenizer that is not, text for text, the server's own is refused.
package servertok

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/verigraph/verigraph/policy/tokenizer"
)

// Server is what asks /tokenize and /detokenize; *policy.Client is one. Tokenize matches control tokens,
// Detokenize writes them out.
type Server interface {
	Tokenize(ctx context.Context, text string) ([]int32, error)
	Detokenize(ctx context.Context, ids []int32) (string, error)
}

// Bounds of what a server may make us do.
const (
	chunk    = 8192
	maxIDs   = 1 << 20
	maxAdded = 1024
)

// separator parts the tokens of one request. It must be an added token.
const separator = "<|im_end|>"

// Load asks the server for its vocabulary, some dozens of calls, and gives a tokenizer that was compared
// with it.
func Load(ctx context.Context, server Server) (*tokenizer.Tokenizer, error) {
	l := &loader{server: server, added: map[string]int32{}}
	if err := l.load(ctx); err != nil {
		return nil, fmt.Errorf("tokenizer from the server: %w", err)
	}
	merges, rest := deriveMerges(l.tokens)
	if len(rest) > maxAdded {
		return nil, fmt.Errorf("tokenizer from the server: %d tokens are made by no merge of tokens before them: not a byte-level BPE "+
			"whose ranks are its ids; give its tokenizer.json", len(rest))
	}
	for _, id := range rest {
		l.added[string(l.tokens[id])] = id
		l.tokens[id] = nil
	}
	data, err := tokenizer.Form(l.tokens, merges, l.added)
	if err != nil {
		return nil, fmt.Errorf("tokenizer from the server: %w", err)
	}
	tok, err := tokenizer.Parse(data)
	if err != nil {
		return nil, fmt.Errorf("tokenizer from the server: %w", err)
	}
	return tok, l.compare(ctx, tok)
}

type loader struct {
	server    Server
	separator int32
	tokens    [][]byte
	added     map[string]int32
}

func (l *loader) load(ctx context.Context) error {
	ids, err := l.server.Tokenize(ctx, separator)
	if err != nil {
		return err
	}
	if len(ids) != 1 {
		return fmt.Errorf("its tokenizer has no %s", separator)
	}
	l.separator = ids[0]
	var broken []int32
	bytes := tokenizer.ByteAlphabet()
	for start := int32(0); ; start += chunk {
		if start >= maxIDs {
			return fmt.Errorf("more than %d tokens", maxIDs)
		}
		texts, err := l.texts(ctx, start)
		if err != nil {
			return err
		}
		if len(texts) == 0 {
			break
		}
		for i, text := range texts {
			id := start + int32(i)
			l.tokens = append(l.tokens, []byte(text))
			switch {
			case text == "":
				l.tokens[id] = nil
			case int(id) < len(bytes):
				l.tokens[id] = []byte{bytes[id]}
				if bytes[id] < utf8.RuneSelf && text != string(l.tokens[id]) {
					return fmt.Errorf("token %d is %q where the byte-level alphabet has %q", id, text, l.tokens[id])
				}
			case strings.ContainsRune(text, utf8.RuneError):
				broken = append(broken, id)
			}
		}
	}
	return l.mend(ctx, broken)
}

// texts are those of a chunk of ids, shorter than a chunk at the end of the vocabulary.
func (l *loader) texts(ctx context.Context, start int32) ([]string, error) {
	parts := make([][]int32, chunk)
	for i := range parts {
		if id := start + int32(i); id != l.separator {
			parts[i] = []int32{id}
		}
	}
	texts, err := l.decode(ctx, parts)
	if err != nil {
		return nil, err
	}
	if at := int(l.separator - start); at >= 0 && at < chunk {
		texts[at] = separator
	}
	for len(texts) > 0 && texts[len(texts)-1] == "" {
		texts = texts[:len(texts)-1]
	}
	return texts, nil
}

// decode gives the text of each part.
func (l *loader) decode(ctx context.Context, parts [][]int32) ([]string, error) {
	var ids []int32
	for _, p := range parts {
		ids = append(append(ids, p...), l.separator)
	}
	text, err := l.server.Detokenize(ctx, ids)
	if err != nil {
		return nil, err
	}
	texts := strings.Split(text, separator)
	if len(texts) != len(parts)+1 {
		return nil, fmt.Errorf("detokenize: %d texts for %d parts: control tokens are left out, or written otherwise", len(texts)-1, len(parts))
	}
	return texts[:len(parts)], nil
}

// mend finds the bytes of tokens that are a part of a character, which the server cannot write: with
// the right bytes before and behind it such a token is text, and the text is then theirs and its own.
func (l *loader) mend(ctx context.Context, broken []int32) error {
	ends := frames()
	for _, ids := range slices.Collect(slices.Chunk(broken, max(1, chunk/len(ends)))) {
		var parts [][]int32
		for _, id := range ids {
			for _, f := range ends {
				parts = append(parts, slices.Concat(f.before, []int32{id}, f.behind))
			}
		}
		texts, err := l.decode(ctx, parts)
		if err != nil {
			return err
		}
		for i, id := range ids {
			if err := l.mended(ctx, id, texts[i*len(ends):(i+1)*len(ends)], ends); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *loader) mended(ctx context.Context, id int32, texts []string, ends []frame) error {
	for i, text := range texts {
		if f := ends[i]; !strings.ContainsRune(text, utf8.RuneError) && len(text) > len(f.before)+len(f.behind) {
			l.tokens[id] = []byte(text[len(f.before) : len(text)-len(f.behind)])
			return nil
		}
	}
	// U+FFFD itself, or text around it, is a token like others.
	again, err := l.server.Tokenize(ctx, string(l.tokens[id]))
	if err != nil {
		return err
	}
	if !slices.Equal(again, []int32{id}) {
		return fmt.Errorf("the bytes of token %d are not found out; give the tokenizer.json", id)
	}
	return nil
}

// frame is what a part of a character is set into; each id in it is one byte.
type frame struct{ before, behind []int32 }

// frames are all that can be needed: a beginning for up to three continuation bytes, and up to three of
// them in the ranges that the first one may have to be in. Single bytes have the first 256 ids.
func frames() (out []frame) {
	var id [256]int32
	for i, b := range tokenizer.ByteAlphabet() {
		id[b] = int32(i)
	}
	behind := [][]int32{nil}
	for _, first := range []byte{0x80, 0x90, 0xA0} {
		b := []int32{id[first]}
		for range 3 {
			behind = append(behind, slices.Clone(b))
			b = append(b, id[0x80])
		}
	}
	for _, before := range [][]int32{nil, {id[0xC3]}, {id[0xE4]}, {id[0xF1]}} {
		for _, b := range behind {
			out = append(out, frame{before, b})
		}
	}
	return out
}

// compare encodes texts of every class of the splitter, and every so many tokens of the vocabulary in
// one text, here and there.
func (l *loader) compare(ctx context.Context, tok *tokenizer.Tokenizer) error {
	var sample strings.Builder
	for id := 0; id < len(l.tokens); id += 1 + len(l.tokens)/4000 {
		if b := l.tokens[id]; utf8.Valid(b) {
			sample.Write(b)
			sample.WriteByte(" \n-"[id%3])
		}
	}
	for _, text := range append(slices.Clone(Texts), sample.String()) {
		theirs, err := l.server.Tokenize(ctx, text)
		if err != nil {
			return err
		}
		if ours := tok.EncodeSpecial(text); !slices.Equal(ours, theirs) {
			return fmt.Errorf("tokenizer from the server: %w on %.40q: give the tokenizer.json as policy.tokenizer", errDiffers, text)
		}
	}
	return nil
}

var errDiffers = errors.New("what was derived from the vocabulary differs from the server's own encoding")

// Texts hold each class of the splitter, marks that NFC composes, and control tokens.
var Texts = []string{
	"Hello, world! it's I'LL 12345", "  leading\n\n\n  and trailing  \r\n\t", "数据分析：平均票价是34.65。 가나다 العربية",
	"👩\u200d👩\u200d👧 e\u0301 \u00e9 \u1e9b\u0323", "def f(x):\n\treturn {'a': [1, 2.5e-3]}  # ok\n",
	"<|im_start|>user\nhi<|im_end|>\n", "<think>\nx\n</think>\n<code_interpreter>\nprint(1)\n</code_interpreter>",
	"<|im_end|>\n<|im_start|>assistant\nDone", "<<|im_end|>|im_end|>", "<|im_<|im_end|>end|>", "\ufffd\ufffd ﷽ \u0378 \U000F0000",
}
