package table

import (
	"slices"
	"strconv"
	"strings"
)

// header takes the names from the records and reports what is odd about them; it returns the rows.
func header(f fit, declared int, p *Profile) ([]string, []record) {
	at := 0
	if declared > 0 {
		at = slices.IndexFunc(f.records, func(r record) bool { return r.line == declared })
		if at < 0 {
			p.refuse("header", declared, "declared as the header, but no record starts there")
			return nil, nil
		}
	}
	names, line := f.records[at].fields, f.records[at].line
	rows := f.records[at+1:]
	widths(names, line, rows, p)
	titleLine(f.records, at, p)
	duplicates(names, line, p)
	var blank, padded, broken []string
	for i, n := range names {
		switch {
		case strings.TrimSpace(n) == "":
			blank = append(blank, strconv.Itoa(i+1))
		case n != strings.TrimSpace(n):
			padded = append(padded, strconv.Quote(n))
		}
		if strings.ContainsAny(n, "\r\n") {
			broken = append(broken, strconv.Quote(n))
		}
	}
	for _, odd := range []struct {
		what  string
		names []string
	}{{"columns without a name", blank}, {"blanks around names", padded}, {"line breaks in names", broken}} {
		if len(odd.names) > 0 {
			p.note("header", line, "%s: %s", odd.what, strings.Join(odd.names, ", "))
		}
	}
	if allNumbers(names) {
		p.note("header", line, "every name is a number: the file may have no header")
	}
	return names, rows
}

// widths compares the header with the rows. Readers disagree about what to do with the difference:
// pandas silently turns the first column of longer rows into an index, so that every value shifts.
func widths(names []string, line int, rows []record, p *Profile) {
	short, long, first := 0, 0, 0
	for _, r := range rows {
		switch {
		case len(r.fields) < len(names):
			short++
		case len(r.fields) > len(names):
			long++
		default:
			continue
		}
		if first == 0 {
			first = r.line
		}
	}
	switch {
	case long == len(rows) && long > 0:
		p.note("ragged", line, "the header has %d names, every row more (line %d has %d fields): readers shift the columns", len(names), first, fieldsAt(rows, first))
	case short == len(rows) && short > 0:
		p.note("ragged", line, "the header has %d names, every row fewer (line %d has %d fields)", len(names), first, fieldsAt(rows, first))
	case short+long > 0:
		p.note("ragged", first, "%d of %d rows do not have the header's %d fields; this one has %d", short+long, len(rows), len(names), fieldsAt(rows, first))
	}
}

func fieldsAt(rows []record, line int) int {
	for _, r := range rows {
		if r.line == line {
			return len(r.fields)
		}
	}
	return 0
}

// titleLine reports a first line that looks like a title: fewer filled cells than the line below, which
// holds no number.
func titleLine(records []record, at int, p *Profile) {
	if at+1 >= len(records) {
		return
	}
	top, next := filled(records[at].fields), filled(records[at+1].fields)
	if top < next && top*2 <= len(records[at].fields) && !slices.ContainsFunc(records[at+1].fields, isNumber) {
		p.note("header", records[at].line, "may be a title: line %d fills %d cells, this one %d; declare the header's line if so", records[at+1].line, next, top)
	}
}

func filled(fields []string) int {
	n := 0
	for _, f := range fields {
		if strings.TrimSpace(f) != "" {
			n++
		}
	}
	return n
}

func duplicates(names []string, line int, p *Profile) {
	first := map[string]int{}
	for i, n := range names {
		key := strings.TrimSpace(n)
		if key == "" {
			continue
		}
		if j, ok := first[key]; ok {
			p.note("duplicate", line, "columns %d and %d are both called %q: readers rename or drop one", j+1, i+1, key)
			continue
		}
		first[key] = i
	}
}

func allNumbers(names []string) bool {
	if len(names) == 0 {
		return false
	}
	for _, n := range names {
		if !isNumber(n) {
			return false
		}
	}
	return true
}

func isNumber(s string) bool {
	_, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	return err == nil
}
