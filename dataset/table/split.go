package table

import "strings"

// record is one line of a table: its fields and the physical line on which it starts, from 1.
type record struct {
	line   int
	fields []string
}

// split cuts text into records. Lines end with LF, CRLF or CR alone; a field that starts with a double
// quote runs to the closing one, line breaks included. Blank lines are left out, as pandas does.
// unclosed is the line of a quote that never closes, or 0.
func split(text string, delimiter rune) (records []record, unclosed int) {
	s := splitter{text: text, delimiter: delimiter, line: 1}
	for s.at < len(s.text) {
		r := record{line: s.line}
		for {
			field, more := s.field()
			r.fields = append(r.fields, field)
			if !more {
				break
			}
		}
		if len(r.fields) > 1 || r.fields[0] != "" {
			records = append(records, r)
		}
	}
	return records, s.unclosed
}

type splitter struct {
	text      string
	delimiter rune
	at        int
	line      int
	unclosed  int
}

// field reads one field and reports whether another follows on the same record.
func (s *splitter) field() (string, bool) {
	if s.at < len(s.text) && s.text[s.at] == '"' {
		return s.quoted()
	}
	return s.plain("")
}

// plain reads up to the next delimiter or line end; head was read already.
func (s *splitter) plain(head string) (string, bool) {
	start := s.at
	for i, c := range s.text[start:] {
		switch c {
		case s.delimiter:
			s.at = start + i + len(string(c))
			return head + s.text[start:start+i], true
		case '\n', '\r':
			field := head + s.text[start:start+i]
			s.at = start + i
			s.newline()
			return field, false
		}
	}
	s.at = len(s.text)
	return head + s.text[start:], false
}

func (s *splitter) quoted() (string, bool) {
	opened := s.line
	var b strings.Builder
	s.at++
	for s.at < len(s.text) {
		c := s.text[s.at]
		switch {
		case c == '"' && strings.HasPrefix(s.text[s.at+1:], `"`):
			b.WriteByte('"')
			s.at += 2
		case c == '"':
			s.at++
			return s.plain(b.String())
		case c == '\n' || c == '\r':
			start := s.at
			s.newline()
			b.WriteString(s.text[start:s.at])
		default:
			b.WriteByte(c)
			s.at++
		}
	}
	if s.unclosed == 0 {
		s.unclosed = opened
	}
	return b.String(), false
}

// newline steps over one line end.
func (s *splitter) newline() {
	if strings.HasPrefix(s.text[s.at:], "\r\n") {
		s.at++
	}
	s.at++
	s.line++
}

// lineEnd names the line ends of a text.
func lineEnd(text string) string {
	crlf := strings.Count(text, "\r\n")
	lf := strings.Count(text, "\n") - crlf
	cr := strings.Count(text, "\r") - crlf
	switch {
	case crlf == 0 && cr == 0:
		return "lf"
	case lf == 0 && cr == 0:
		return "crlf"
	case lf == 0 && crlf == 0:
		return "cr"
	}
	return "mixed"
}
