package policy

import (
	"bytes"
	"strings"
)

// Vocabulary is what trimming needs of a tokenizer; *tokenizer.Tokenizer is one.
type Vocabulary interface {
	TokenBytes(id int32) []byte
	Special(text string) (int32, bool)
}

const (
	thinkOpen  = "<think>"
	thinkClose = "</think>"
)

// Scan is what one turn's sampled ids hold so far.
type Scan struct {
	// N is the number of ids to keep: up to the one that completes the tag if Found, all otherwise.
	N     int
	Found bool
	// ThinkOpen says that the ids end inside an unclosed <think>: generation goes on from there.
	ThinkOpen bool
	// Code holds the byte range of the block's content in the decoding of the kept ids if Found
	// and its opening tag is there; HasCode tells an empty block from a stray closing tag.
	HasCode            bool
	CodeStart, CodeEnd int
}

// Trim gives the length of the shortest prefix of ids whose decoding contains tag outside an open
// <think>, and whether there is one; without one n is len(ids). The same n cuts logprobs, which
// must be of equal length (nothing is found otherwise). A prefix of a sample is still exactly
// on-policy, whatever the engine's overrun.
func Trim(tok Vocabulary, ids []int32, logprobs []float32, tag string) (n int, found bool) {
	if len(ids) != len(logprobs) {
		return min(len(ids), len(logprobs)), false
	}
	s := ScanTurn(tok, ids, tag)
	return s.N, s.Found
}

// ScanTurn reads the ids of a turn from its start. tag is a closing tag such as
// </code_interpreter>. Inside <think> only its end counts; inside the block only tag does, so a
// <think> that the code prints opens nothing. A <think> that was opened by an added token is
// closed only by one: a quoted </think> in ordinary characters doesn't end the reasoning.
func ScanTurn(tok Vocabulary, ids []int32, tag string) Scan {
	w := newScanner(tok, tag)
	for i, id := range ids {
		if w.token(id) {
			w.scan.N, w.scan.Found = i+1, true
			return w.scan
		}
	}
	w.scan.N = len(ids)
	w.scan.ThinkOpen = w.state != inText && w.state != inCode
	return w.scan
}

type scanState int

const (
	inText scanState = iota
	inCode
	inThink      // opened by characters
	inThinkToken // opened by the added token
)

// scanner walks the decoding byte by byte; buf holds all of it and from is where the next tag may begin.
type scanner struct {
	tok             Vocabulary
	tag, open       string
	last            byte // of tag
	openID, closeID int32
	state           scanState
	buf             []byte
	from            int
	scan            Scan
}

func newScanner(tok Vocabulary, tag string) *scanner {
	w := &scanner{tok: tok, tag: tag, last: '>', openID: -1, closeID: -1}
	if tag != "" {
		w.last = tag[len(tag)-1]
	}
	if name, ok := strings.CutPrefix(tag, "</"); ok {
		w.open = "<" + name
	}
	if id, ok := tok.Special(thinkOpen); ok {
		w.openID = id
	}
	if id, ok := tok.Special(thinkClose); ok {
		w.closeID = id
	}
	return w
}

// token takes one id and reports whether it completes the tag.
func (w *scanner) token(id int32) bool {
	if id == w.openID && w.state == inText || id == w.closeID && w.state != inCode {
		w.buf = append(w.buf, w.tok.TokenBytes(id)...)
		w.from = len(w.buf)
		w.state = inThinkToken
		if id == w.closeID {
			w.state = inText
		}
		return false
	}
	for _, b := range w.tok.TokenBytes(id) {
		w.buf = append(w.buf, b)
		if (b == '>' || b == w.last) && w.tagEnds() {
			return true
		}
	}
	return false
}

// tagEnds looks at a tag that ends with the last byte and reports whether it is the wanted one.
func (w *scanner) tagEnds() bool {
	switch w.state {
	case inThink:
		if w.ends(thinkClose) {
			w.state = inText
		}
	case inText:
		switch {
		case w.ends(w.tag):
			return true
		case w.ends(thinkOpen):
			w.state = inThink
		case w.open != "" && w.ends(w.open):
			w.state = inCode
			w.scan.CodeStart = len(w.buf)
		}
	case inCode:
		if w.ends(w.tag) {
			w.scan.HasCode = true
			w.scan.CodeEnd = len(w.buf) - len(w.tag)
			return true
		}
	}
	return false
}

// ends reports whether the decoding ends with tag, all of it after the tag before; it moves on if so.
func (w *scanner) ends(tag string) bool {
	if tag == "" || len(w.buf)-len(tag) < w.from || !bytes.HasSuffix(w.buf, []byte(tag)) {
		return false
	}
	w.from = len(w.buf)
	return true
}
