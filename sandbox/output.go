package sandbox

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
)

// output turns the bytes that a cell writes into the text that the model sees. It works on the
// stream, so that a cell that prints gigabytes costs no more memory than one that prints a line:
// escape sequences are removed, a carriage return discards the line it rewrites, invalid UTF-8
// becomes U+FFFD (a character split over two writes does not), and the middle is left out.
type output struct {
	limit int
	// part is the start of a character whose rest has not arrived.
	part []byte
	esc  escape
	// cr: a carriage return came and nothing since; what follows rewrites the line.
	cr   bool
	line bytes.Buffer
	head bytes.Buffer
	tail []byte
	// total counts the bytes of cleaned text.
	total int
}

// maxLine is how much of an unfinished line can still be rewritten by a carriage return.
const maxLine = 8 << 10

// escape is the state of the escape sequence parser.
type escape int

const (
	escNone   escape = iota
	escStart         // after ESC
	escCSI           // ESC [ ... final byte
	escString        // ESC ] and the like, up to BEL or ESC \
	escStringEnd
	escOne // ESC ( and the like: one more character
)

func newOutput(limit int64) *output { return &output{limit: int(limit)} }

// Write never fails.
func (o *output) Write(p []byte) (int, error) {
	n := len(p)
	if len(o.part) > 0 {
		p = append(o.part, p...)
		o.part = nil
	}
	for len(p) > 0 {
		if p[0] < utf8.RuneSelf {
			o.char(rune(p[0]))
			p = p[1:]
			continue
		}
		if !utf8.FullRune(p) {
			o.part = append([]byte(nil), p...)
			break
		}
		r, size := utf8.DecodeRune(p)
		o.char(r)
		p = p[size:]
	}
	return n, nil
}

func (o *output) char(r rune) {
	if o.esc != escNone {
		o.escaped(r)
		return
	}
	switch {
	case r == 0x1b:
		o.esc = escStart
	case r == '\n':
		o.cr = false
		o.line.WriteByte('\n')
		o.commit()
	case r == '\r':
		o.cr = true
	case r < 0x20 && r != '\t', r >= 0x7f && r < 0xa0:
		// Other control characters say nothing to a reader.
	default:
		if o.cr {
			o.cr = false
			o.line.Reset()
		}
		o.line.WriteRune(r)
		if o.line.Len() >= maxLine {
			o.commit()
		}
	}
}

func (o *output) escaped(r rune) {
	switch o.esc {
	case escStart:
		switch {
		case r == '[':
			o.esc = escCSI
		case r == ']' || r == 'P' || r == 'X' || r == '^' || r == '_':
			o.esc = escString
		case r == '(' || r == ')' || r == '*' || r == '+' || r == '#' || r == '%':
			o.esc = escOne
		default:
			o.esc = escNone
		}
	case escCSI:
		if r >= 0x40 && r <= 0x7e {
			o.esc = escNone
		} else if r == '\n' || r >= 0x7f {
			// Not a sequence after all: a lone ESC [ must not swallow the rest of the output.
			o.esc = escNone
			o.char(r)
		}
	case escString:
		if r == 0x07 {
			o.esc = escNone
		} else if r == 0x1b {
			o.esc = escStringEnd
		} else if r == '\n' {
			o.esc = escNone
			o.char(r)
		}
	default:
		o.esc = escNone
	}
}

// commit moves the line to the kept text.
func (o *output) commit() {
	b := o.line.Bytes()
	o.total += len(b)
	if room := o.limit/2 - o.head.Len(); room > 0 && len(o.tail) == 0 {
		n := cutBefore(b, room)
		o.head.Write(b[:n])
		b = b[n:]
	}
	o.tail = append(o.tail, b...)
	if len(o.tail) > 4*o.limit {
		o.tail = append(o.tail[:0], o.tail[len(o.tail)-o.limit:]...)
	}
	o.line.Reset()
}

// text ends the stream and returns what is kept of it.
func (o *output) text() string {
	if len(o.part) > 0 {
		o.part = nil
		o.char(utf8.RuneError)
	}
	o.commit()
	if o.total <= o.limit {
		return o.head.String() + string(o.tail)
	}
	keep := o.limit - o.head.Len()
	tail := o.tail
	if len(tail) > keep {
		tail = tail[len(tail)-keep:]
	}
	for len(tail) > 0 && !utf8.RuneStart(tail[0]) {
		tail = tail[1:]
	}
	var s strings.Builder
	s.Write(o.head.Bytes())
	fmt.Fprintf(&s, "\n[... %d of %d bytes left out ...]\n", o.total-o.head.Len()-len(tail), o.total)
	s.Write(tail)
	return s.String()
}

// cutBefore returns the largest n <= limit that does not split a character of b.
func cutBefore(b []byte, limit int) int {
	if len(b) <= limit {
		return len(b)
	}
	for limit > 0 && !utf8.RuneStart(b[limit]) {
		limit--
	}
	return limit
}
