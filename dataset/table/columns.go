package table

import (
	"fmt"
	"hash/maphash"
	"regexp"
	"strings"
)

var (
	decimalForm   = regexp.MustCompile(`^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$`)
	decimalComma  = regexp.MustCompile(`^[+-]?\d+,\d+$`)
	thousandsForm = regexp.MustCompile(`^[+-]?\$?\d{1,3}(,\d{3})+(\.\d+)?$`)
	percentForm   = regexp.MustCompile(`^[+-]?\d+([.,]\d+)?\s*%$`)
)

// placeholders are texts that files use for a missing value.
var placeholders = map[string]bool{
	"-": true, "--": true, "?": true, ".": true, "na": true, "n/a": true, "nan": true, "null": true, "none": true,
	"not available": true, "#n/a": true,
}

// maxCell is the length from which a cell is worth a note: spreadsheets cut it there.
const maxCell = 32767

// counts is what a column's cells are, over all rows.
type counts struct {
	cells, missing, integers, decimals, booleans                          int
	zeros, long, comma, thousands, percent, padded, placeholder, longCell int
	longest                                                               int
	distinct                                                              map[uint64]struct{}
}

// columns judges every column over all rows: a type that were settled by a first chunk would make the
// same column hold both "1" and 1.
func columns(names []string, rows []record) []Column {
	all := make([]counts, len(names))
	for i := range all {
		all[i].distinct = map[uint64]struct{}{}
	}
	seed := maphash.MakeSeed()
	for _, r := range rows {
		for i := range names {
			cell := ""
			if i < len(r.fields) {
				cell = r.fields[i]
			}
			all[i].add(cell, seed)
		}
	}
	out := make([]Column, len(names))
	for i, name := range names {
		out[i] = Column{
			Name: strings.TrimSpace(name), Kind: all[i].kind(), Missing: all[i].missing, Distinct: len(all[i].distinct),
			Notes: all[i].notes(),
		}
	}
	return out
}

func (c *counts) add(cell string, seed maphash.Seed) {
	value := strings.TrimSpace(cell)
	if value == "" {
		c.missing++
		return
	}
	c.cells++
	c.distinct[maphash.String(seed, value)] = struct{}{}
	if value != cell {
		c.padded++
	}
	if n := len([]rune(value)); n > maxCell {
		c.longCell++
		c.longest = max(c.longest, n)
	}
	digits := strings.TrimLeft(value, "+-")
	if digits == "" || !strings.ContainsRune("0123456789.$", rune(digits[0])) {
		c.addWord(value)
		return
	}
	switch {
	case onlyDigits(value) && digits[0] == '0' && len(digits) > 1:
		c.zeros++
	case onlyDigits(value) && len(digits) > 15:
		c.long++
	case onlyDigits(value):
		c.integers++
	case decimalForm.MatchString(value):
		c.decimals++
	case thousandsForm.MatchString(value):
		c.thousands++
	case decimalComma.MatchString(value):
		c.comma++
	case percentForm.MatchString(value):
		c.percent++
	default:
		c.addWord(value)
	}
}

// onlyDigits is true for an integer with at most one sign.
func onlyDigits(s string) bool {
	if strings.HasPrefix(s, "+") || strings.HasPrefix(s, "-") {
		s = s[1:]
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// addWord counts a cell that is no number.
func (c *counts) addWord(value string) {
	switch {
	case placeholders[strings.ToLower(value)]:
		c.placeholder++
	case strings.EqualFold(value, "true") || strings.EqualFold(value, "false"):
		c.booleans++
	}
}

func (c *counts) kind() string {
	numbers := c.integers + c.decimals
	switch {
	case c.cells == 0:
		return "empty"
	case c.integers == c.cells:
		return "integer"
	case numbers == c.cells:
		return "decimal"
	case c.booleans == c.cells:
		return "boolean"
	}
	return "text"
}

func (c *counts) notes() []string {
	var notes []string
	say := func(n int, what string) {
		if n > 0 {
			notes = append(notes, fmt.Sprintf("%d of %d cells %s", n, c.cells, what))
		}
	}
	say(c.zeros, "have leading zeros: kept as text")
	say(c.long, "have more than 15 digits: kept as text")
	say(c.thousands, "have thousands separators")
	say(c.comma, "have a decimal comma")
	say(c.percent, "end with %")
	say(c.placeholder, "stand for a missing value")
	say(c.padded, "have blanks around the value")
	if c.longCell > 0 {
		notes = append(notes, fmt.Sprintf("%d cells are longer than %d characters (longest %d)", c.longCell, maxCell, c.longest))
	}
	if numbers := c.integers + c.decimals; numbers > 0 && numbers < c.cells {
		odd := c.cells - numbers - c.zeros - c.long - c.thousands - c.comma - c.percent - c.placeholder
		say(max(odd, 0), "are text among numbers")
	}
	return notes
}
