package outcome

import (
	"math"
	"regexp"
	"strconv"
	"strings"
)

// tolerance is eval_closed_form.py's: two numbers are equal when they are closer than this.
const tolerance = 1e-6

// Equal is the official comparison of two values: equal strings, or both Python floats closer than 1e-6.
func Equal(got, want string) bool {
	if got == want {
		return true
	}
	a, okA := pythonFloat(got)
	b, okB := pythonFloat(want)
	return okA && okB && math.Abs(a-b) < tolerance
}

// lenientEqual is the training comparison: the official one over unwrapped values.
func lenientEqual(got, want string) bool {
	return Equal(got, want) || Equal(unwrap(got), unwrap(want))
}

var special = regexp.MustCompile(`(?i)^[+-]?(inf(inity)?|nan)$`)

// pythonFloat accepts what Python's float(str) accepts, non-ASCII digits aside: outer blanks,
// underscores between digits, inf and nan; and not Go's hexadecimal floats.
func pythonFloat(s string) (float64, bool) {
	s = strings.TrimSpace(s)
	if len(s) <= len("+infinity") && special.MatchString(s) {
		v, err := strconv.ParseFloat(s, 64)
		return v, err == nil
	}
	if !isDecimal(s) {
		return 0, false
	}
	// Out of range is no error in Python: the value is then infinite or zero, as Go returns it.
	v, _ := strconv.ParseFloat(strings.ReplaceAll(s, "_", ""), 64)
	return v, true
}

// isDecimal checks Python's grammar of decimal floats in one pass; a regular expression is 20
// times slower on the 200 kB of digits that a policy may print.
func isDecimal(s string) bool {
	s = strings.TrimLeft(s[:min(1, len(s))], "+-") + s[min(1, len(s)):]
	s, whole := digits(s)
	fraction := false
	if rest, ok := strings.CutPrefix(s, "."); ok {
		s, fraction = digits(rest)
	}
	if !whole && !fraction {
		return false
	}
	if s != "" && (s[0] == 'e' || s[0] == 'E') {
		s = s[1:]
		if s != "" && (s[0] == '+' || s[0] == '-') {
			s = s[1:]
		}
		var exponent bool
		if s, exponent = digits(s); !exponent {
			return false
		}
	}
	return s == ""
}

// digits cuts digits, single underscores between them, off the front.
func digits(s string) (rest string, found bool) {
	i := 0
	for i < len(s) {
		switch {
		case s[i] >= '0' && s[i] <= '9':
			i++
		case s[i] == '_' && i > 0 && s[i-1] != '_' && i+1 < len(s) && s[i+1] >= '0' && s[i+1] <= '9':
			i++
		default:
			return s[i:], i > 0
		}
	}
	return "", i > 0
}

var (
	scalarCall = regexp.MustCompile(`\b(?:np|numpy)\.(?:float|int|uint|longdouble|double|bool_?|str_)\d*\(([^()]*)\)|\bDecimal\('([^'()]*)'\)`)
	scalarBool = regexp.MustCompile(`\b(?:np|numpy)\.(True|False)_`)
)

// minus replaces the typographic minus and the dash that stands for it, and the no-break space.
var minus = strings.NewReplacer("−", "-", "–", "-", "\u00a0", " ")

// unwrap turns the repr of numpy and decimal scalars into the plain value, typographic minus signs
// into ASCII ones and drops outer blanks. It is textual: nothing is evaluated.
func unwrap(s string) string {
	s = strings.TrimSpace(minus.Replace(s))
	if !strings.Contains(s, "np.") && !strings.Contains(s, "numpy.") && !strings.Contains(s, "Decimal(") {
		return s
	}
	s = scalarBool.ReplaceAllString(s, "$1")
	whole := scalarCall.FindString(s) == s
	s = scalarCall.ReplaceAllString(s, "$1$2")
	if n := len(s); whole && n >= 2 && (s[0] == '\'' || s[0] == '"') && s[n-1] == s[0] {
		s = s[1 : n-1] // np.str_('x')
	}
	return s
}
