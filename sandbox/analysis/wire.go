package analysis

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// wire reads an answer, which is Python's marshal format of version 2: to write and to read it takes a third of what
// JSON takes. It reads only the types that an analysis consists of. After the first fault it reads nothing more.
type wire struct {
	rest []byte
	err  error
}

// maxNesting bounds the nesting of a definition; the pass nests them at most 14 deep.
const maxNesting = 100

// raw is a value as JSON, as which the state goes back to the pass.
func (w *wire) raw() json.RawMessage { return w.appendJSON(nil, 0) }

func (w *wire) appendJSON(to []byte, depth int) []byte {
	if depth > maxNesting {
		w.fail("nested more than %d deep", maxNesting)
	}
	switch kind := w.kind(); kind {
	case 'N':
		return append(to, "null"...)
	case 'T', 'F':
		return strconv.AppendBool(to, kind == 'T')
	case 'i':
		return strconv.AppendInt(to, int64(w.int32()), 10)
	case 'u', 't':
		return appendQuoted(to, w.bytes())
	case '[', '(':
		to = append(to, '[')
		for i := range w.size() {
			if i > 0 {
				to = append(to, ',')
			}
			if to = w.appendJSON(to, depth+1); w.err != nil {
				break
			}
		}
		return append(to, ']')
	case '{':
		to = append(to, '{')
		first := true
		w.pairs(func(key []byte) {
			if !first {
				to = append(to, ',')
			}
			first = false
			to = w.appendJSON(append(appendQuoted(to, key), ':'), depth+1)
		})
		return append(to, '}')
	default:
		w.fail("type %q in a definition", kind)
		return to
	}
}

// appendQuoted writes a text as JSON. Python's texts may hold halves of surrogate pairs.
func appendQuoted(to, text []byte) []byte {
	to = append(to, '"')
	for len(text) > 0 {
		c := text[0]
		n := 1
		if c >= utf8.RuneSelf {
			var r rune
			if r, n = utf8.DecodeRune(text); r == utf8.RuneError && n == 1 {
				if len(text) >= 3 && c == 0xed {
					r, n = 0xd000|rune(text[1]&0x3f)<<6|rune(text[2]&0x3f), 3
				}
				to = append(to, `\u`...)
				to = append(to, fmt.Sprintf("%04x", r)...)
				text = text[n:]
				continue
			}
		}
		switch {
		case c == '"' || c == '\\':
			to = append(to, '\\', c)
		case c < ' ':
			to = append(to, fmt.Sprintf(`\u%04x`, c)...)
		default:
			to = append(to, text[:n]...)
		}
		text = text[n:]
	}
	return append(to, '"')
}

// list reads a list, or None, whose elements read reads.
func list[T any](w *wire, read func() T) []T {
	switch kind := w.kind(); kind {
	case 'N':
		return nil
	case '[':
	default:
		w.fail("type %q instead of a list", kind)
		return nil
	}
	n := w.size()
	out := make([]T, 0, min(n, 1000)) // what is said to follow need not
	for range n {
		if w.err != nil {
			return nil
		}
		out = append(out, read())
	}
	return out
}

func mapping[T any](w *wire, read func() T) map[string]T {
	out := map[string]T{}
	w.dict(func(key []byte) { out[w.string(key)] = read() })
	return out
}

func (w *wire) dict(entry func(key []byte)) {
	if kind := w.kind(); kind != '{' {
		w.fail("type %q instead of a dict", kind)
		return
	}
	w.pairs(entry)
}

func (w *wire) pairs(entry func(key []byte)) {
	for w.err == nil {
		switch kind := w.kind(); kind {
		case '0':
			return
		case 'u', 't':
			entry(w.bytes())
		default:
			w.fail("type %q as a key", kind)
		}
	}
}

// text reads a text, or None as an empty one: the pass names what has no name so.
func (w *wire) text() string {
	switch kind := w.kind(); kind {
	case 'u', 't':
		return w.string(w.bytes())
	case 'N':
	default:
		w.fail("type %q instead of a text", kind)
	}
	return ""
}

// string is what JSON's reader makes of the text.
func (w *wire) string(text []byte) (out string) {
	if utf8.Valid(text) {
		return string(text)
	}
	if err := json.Unmarshal(appendQuoted(nil, text), &out); err != nil {
		w.fail("%w", err)
	}
	return out
}

func (w *wire) integer() int {
	if kind := w.kind(); kind != 'i' {
		w.fail("type %q instead of a number", kind)
		return 0
	}
	return int(w.int32())
}

func (w *wire) boolean() bool {
	kind := w.kind()
	if kind != 'T' && kind != 'F' {
		w.fail("type %q instead of a truth value", kind)
	}
	return kind == 'T'
}

func (w *wire) kind() byte {
	if b := w.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (w *wire) int32() int32 {
	if b := w.take(4); b != nil {
		return int32(binary.LittleEndian.Uint32(b))
	}
	return 0
}

// size is the number of bytes or elements that follow, each of which takes a byte at least.
func (w *wire) size() int {
	n := int(w.int32())
	if n < 0 || n > len(w.rest) {
		w.fail("%d elements in %d bytes", n, len(w.rest))
		return 0
	}
	return n
}

func (w *wire) bytes() []byte { return w.take(w.size()) }

func (w *wire) take(n int) []byte {
	if w.err != nil {
		return nil
	}
	if n > len(w.rest) {
		w.fail("%d bytes are missing", n-len(w.rest))
		return nil
	}
	out := w.rest[:n]
	w.rest = w.rest[n:]
	return out
}

func (w *wire) unknown(of string, key []byte) { w.fail("unknown field %q of an %s", key, of) }

func (w *wire) fail(format string, values ...any) {
	if w.err == nil {
		w.err, w.rest = fmt.Errorf(format, values...), nil
	}
}
