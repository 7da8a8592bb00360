package outcome

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/verigraph/verigraph/task"
)

// named finds DABench's @name[value] as the official script's @(\w+)\[(.*?)\] does: nested brackets
// are cut at the first closing one, and a value does not cross a line break. By hand, since the
// regular expression takes seconds on the 200 kB that a policy may print.
func named(s string) []task.NamedAnswer {
	var out []task.NamedAnswer
	stop := -1 // the first ']' or line break at or after the last place looked from
	for i := 0; i < len(s); {
		at := strings.IndexByte(s[i:], '@')
		if at < 0 {
			break
		}
		i += at + 1
		end := i + wordLength(s[i:])
		if end == i || end >= len(s) || s[end] != '[' {
			continue
		}
		from := end + 1
		if stop < from {
			next := strings.IndexAny(s[from:], "]\n")
			if next < 0 {
				break // nor does any later value end
			}
			stop = from + next
		}
		if s[stop] == '\n' {
			continue
		}
		out = append(out, task.NamedAnswer{Name: s[i:end], Value: s[from:stop]})
		i = stop + 1
	}
	return out
}

// wordLength is the length in bytes of the leading word characters, Unicode ones as in Python.
func wordLength(s string) int {
	n := 0
	for n < len(s) {
		r, size := utf8.DecodeRuneInString(s[n:])
		if r != '_' && !unicode.IsLetter(r) && !unicode.IsNumber(r) {
			break
		}
		n += size
	}
	return n
}

// ValuesOf are the values that a text gives to a name.
func ValuesOf(text, name string) []string {
	var out []string
	for _, n := range named(text) {
		if n.Name == name {
			out = append(out, n.Value)
		}
	}
	return out
}
