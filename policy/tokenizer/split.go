package tokenizer

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// nextPiece gives the end of the piece of s that begins at i, as splitPattern cuts it. RE2 has no
// look-ahead, and a backtracking engine is slow on hostile text; this scanner is linear.
func nextPiece(s string, i int) int {
	r, w := utf8.DecodeRuneInString(s[i:])
	if r == '\'' {
		if n := contraction(s[i+1:]); n > 0 {
			return i + 1 + n
		}
	}
	if isLetter(r) {
		return letters(s, i+w)
	}
	if isNumber(r) {
		return i + w
	}
	if next, nw := utf8.DecodeRuneInString(s[i+w:]); nw > 0 && r != '\r' && r != '\n' && isLetter(next) {
		return letters(s, i+w+nw)
	}
	if end := symbols(s, i, r); end > i {
		return end
	}
	return blanks(s, i)
}

// contraction gives the length of what follows the apostrophe in (?i:'s|'t|'re|'ve|'m|'ll|'d).
func contraction(s string) int {
	if strings.HasPrefix(s, "\u017f") { // the long s folds to s
		return len("\u017f")
	}
	if s == "" {
		return 0
	}
	switch s[0] | 0x20 {
	case 's', 't', 'm', 'd':
		return 1
	}
	if len(s) < 2 {
		return 0
	}
	switch string([]byte{s[0] | 0x20, s[1] | 0x20}) {
	case "re", "ve", "ll":
		return 2
	}
	return 0
}

func letters(s string, i int) int {
	for i < len(s) {
		r, w := utf8.DecodeRuneInString(s[i:])
		if !isLetter(r) {
			break
		}
		i += w
	}
	return i
}

// symbols follows ` ?[^\s\p{L}\p{N}]+[\r\n]*`; i itself means no match.
func symbols(s string, i int, r rune) int {
	start := i
	if r == ' ' {
		i++
	}
	first := i
	for i < len(s) {
		r, w := utf8.DecodeRuneInString(s[i:])
		if unicode.IsSpace(r) || isLetter(r) || isNumber(r) {
			break
		}
		i += w
	}
	if i == first {
		return start
	}
	for i < len(s) && (s[i] == '\r' || s[i] == '\n') {
		i++
	}
	return i
}

// blanks follows `\s*[\r\n]+|\s+(?!\S)|\s+`: up to the last line break of the run; else all but the
// last blank when text follows; else the run.
func blanks(s string, i int) int {
	end, last, lineEnd := i, i, 0
	for end < len(s) {
		r, w := utf8.DecodeRuneInString(s[end:])
		if !unicode.IsSpace(r) {
			break
		}
		last = end
		end += w
		if r == '\r' || r == '\n' {
			lineEnd = end
		}
	}
	switch {
	case lineEnd > 0:
		return lineEnd
	case end < len(s) && last > i:
		return last
	}
	return end
}

func isLetter(r rune) bool {
	if r < utf8.RuneSelf {
		return r|0x20 >= 'a' && r|0x20 <= 'z'
	}
	return unicode.IsLetter(r)
}

func isNumber(r rune) bool {
	if r < utf8.RuneSelf {
		return r >= '0' && r <= '9'
	}
	return unicode.IsNumber(r)
}
