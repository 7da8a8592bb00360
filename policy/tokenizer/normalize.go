package tokenizer

import (
	"sort"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// longRun is the number of combining characters in a row from which x/text may insert a
// joiner (its stream-safe format allows 30 after decomposition), which the tokenizers do not.
const longRun = 8

func (t *Tokenizer) normalize(text string) string {
	if !t.nfc {
		return text
	}
	return normalizeNFC(text)
}

// normalizeNFC is NFC without the stream-safe joiner. Invalid bytes stay as they are. The reference
// implementation has older Unicode tables: where a text holds a mark added after Unicode 10 (U+09FE,
// say) in non-canonical order, the ids may differ, while Decode is still the NFC of the text.
func normalizeNFC(text string) string {
	if norm.NFC.IsNormalString(text) {
		return text
	}
	var b strings.Builder
	from := 0
	for {
		start, end := combiningRun(text, from)
		if start < 0 {
			break
		}
		// The run's base goes with it, back to the last place where nothing can combine.
		base := safeStart(text, from, start)
		b.WriteString(norm.NFC.String(text[from:base]))
		b.WriteString(compose(text[base:end]))
		from = end
	}
	b.WriteString(norm.NFC.String(text[from:]))
	return b.String()
}

// combiningRun finds the next run of at least longRun combining characters; end is a place where
// the following character can't combine with what is before it.
func combiningRun(text string, from int) (start, end int) {
	start, count := -1, 0
	for i := from; i < len(text); {
		if text[i] < utf8.RuneSelf {
			if count >= longRun {
				return start, i
			}
			start, count = -1, 0
			i++
			continue
		}
		p := norm.NFC.PropertiesString(text[i:])
		w := max(p.Size(), 1)
		if p.BoundaryBefore() {
			if count >= longRun {
				return start, i
			}
			start, count = -1, 0
		} else {
			if count == 0 {
				start = i
			}
			count++
		}
		i += w
	}
	if count >= longRun {
		return start, len(text)
	}
	return -1, -1
}

func safeStart(text string, from, i int) int {
	for i > from {
		_, w := utf8.DecodeLastRuneInString(text[from:i])
		i -= w
		if norm.NFC.PropertiesString(text[i:]).BoundaryBefore() {
			break
		}
	}
	return i
}

type mark struct {
	r   rune
	ccc uint8
}

// compose is the canonical composition algorithm of Unicode (chapter 3.11) on one stretch.
func compose(text string) string {
	marks := decompose(text)
	if marks == nil {
		return text // not valid UTF-8: leave it
	}
	reorder(marks)
	out := marks[:0:0]
	starter := -1
	for _, m := range marks {
		if starter >= 0 {
			last := out[len(out)-1]
			blocked := len(out)-1 > starter && last.ccc >= m.ccc
			if !blocked {
				if r, ok := composite(out[starter].r, m.r); ok {
					out[starter].r = r
					continue
				}
			}
		}
		if m.ccc == 0 {
			starter = len(out)
		}
		out = append(out, m)
	}
	var b strings.Builder
	for _, m := range out {
		b.WriteRune(m.r)
	}
	return b.String()
}

func decompose(text string) []mark {
	var out []mark
	for i := 0; i < len(text); {
		r, w := utf8.DecodeRuneInString(text[i:])
		if r == utf8.RuneError && w == 1 {
			return nil
		}
		for _, d := range string(norm.NFD.AppendString(nil, text[i:i+w])) {
			out = append(out, mark{d, norm.NFD.PropertiesString(string(d)).CCC()})
		}
		i += w
	}
	return out
}

// reorder sorts each stretch of combining characters by class, keeping equal ones in order.
func reorder(marks []mark) {
	for i := 0; i < len(marks); {
		if marks[i].ccc == 0 {
			i++
			continue
		}
		j := i
		for j < len(marks) && marks[j].ccc != 0 {
			j++
		}
		run := marks[i:j]
		sort.SliceStable(run, func(a, b int) bool { return run[a].ccc < run[b].ccc })
		i = j
	}
}

// composite gives the primary composite of two characters, if there is one.
func composite(a, b rune) (rune, bool) {
	s := norm.NFC.String(string([]rune{a, b}))
	r, w := utf8.DecodeRuneInString(s)
	return r, w == len(s)
}
