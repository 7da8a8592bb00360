package table

import (
	"fmt"
	"strings"
)

// delimiters in the order in which they are preferred when none is declared.
var delimiters = []rune{',', ';', '\t', '|'}

// fit says how well a delimiter suits a whole file.
type fit struct {
	delimiter rune
	records   []record
	unclosed  int
	// width is the number of fields that most records have.
	width int
	// tier 0: every record has width > 1 fields. 1: all records below the header have, the header has not.
	// 2: most records have width > 1. 3: one field nearly everywhere.
	tier int
}

func fitting(text string, delimiter rune) fit {
	f := fit{delimiter: delimiter}
	f.records, f.unclosed = split(text, delimiter)
	counts := map[int]int{}
	for _, r := range f.records {
		counts[len(r.fields)]++
	}
	for width, n := range counts {
		if n > counts[f.width] || n == counts[f.width] && width > f.width {
			f.width = width
		}
	}
	odd := len(f.records) - counts[f.width]
	switch {
	case f.width <= 1 || len(f.records) == 0:
		f.tier = 3
	case odd == 0 && f.unclosed == 0:
		f.tier = 0
	case odd == 1 && len(f.records) > 2 && len(f.records[0].fields) != f.width && f.unclosed == 0:
		f.tier = 1
	default:
		f.tier = 2
	}
	return f
}

// choose finds the delimiter. Without a declaration a comma is taken when it suits the file as well as
// any other; another one only when it alone suits best, and never without a finding.
func choose(text string, declared rune, p *Profile) (fit, bool) {
	if declared != 0 {
		return fitting(text, declared), true
	}
	best := []fit{}
	for _, d := range delimiters {
		f := fitting(text, d)
		switch {
		case len(best) == 0 || f.tier < best[0].tier:
			best = []fit{f}
		case f.tier == best[0].tier:
			best = append(best, f)
		}
	}
	switch {
	case best[0].tier == 3: // one column, whatever the delimiter
		mentionOneColumn(best[0], p)
		return best[0], true
	case len(best) == 1:
		if d := best[0].delimiter; d != ',' {
			p.note("delimiter", 0, "the delimiter is %s, not a comma: a reader with default settings sees other columns", show(d))
		}
		return best[0], true
	case best[0].delimiter == ',' && best[0].tier > 0:
		return best[0], true // ragged either way; the findings about its width follow
	}
	names := make([]string, len(best))
	for i, f := range best {
		names[i] = fmt.Sprintf("%s gives %d columns", show(f.delimiter), f.width)
	}
	p.refuse("delimiter", 0, "several delimiters suit every line (%s): declare the right one", strings.Join(names, ", "))
	return fit{}, false
}

func mentionOneColumn(f fit, p *Profile) {
	if len(f.records) == 0 {
		return
	}
	for _, d := range delimiters {
		if strings.ContainsRune(f.records[0].fields[0], d) {
			p.note("delimiter", f.records[0].line, "one column only, though the header holds %s", show(d))
		}
	}
}

func show(d rune) string {
	switch d {
	case ',':
		return "a comma"
	case ';':
		return "a semicolon"
	case '\t':
		return "a tab"
	case '|':
		return "a pipe"
	}
	return fmt.Sprintf("%q", d)
}
