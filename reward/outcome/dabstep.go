package outcome

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

var (
	dabstepDecimal = regexp.MustCompile(`^\$?(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+[.,]\d+)$`)
	dabstepNumber  = regexp.MustCompile(`(\d*\.\d+|\d+\.?\d*)%?`)
	dabstepWord    = regexp.MustCompile(`[\p{L}\p{N}_]+`)
)

// DABStepOfficial is adyen's question_scorer: numbers lose their sign, "5 or 6" is 5, a list is
// compared in text order, and a single word is right inside any text that holds it.
func DABStepOfficial(got, want string) float64 {
	return truth(dabstepEqual(got, want, 0))
}

// maxListDepth: the official function calls itself on list items, which hold no separators.
const maxListDepth = 2

func dabstepEqual(a, b string, depth int) bool {
	a, b = strings.ToLower(strings.TrimSpace(a)), strings.ToLower(strings.TrimSpace(b))
	x, okX := dabstepFloat(a)
	y, okY := dabstepFloat(b)
	if dabstepDecimal.MatchString(a) || dabstepDecimal.MatchString(b) {
		return okX && okY && dabstepClose(x, y)
	}
	if strings.ContainsAny(a, ";,") || strings.ContainsAny(b, ";,") {
		return depth < maxListDepth && dabstepLists(a, b, depth)
	}
	if okX && okY {
		return dabstepClose(x, y)
	}
	return dabstepText(a, b)
}

// dabstepFloat is the first number of a text without sign, percent sign or thousands separators.
func dabstepFloat(s string) (float64, bool) {
	at := dabstepNumber.FindStringSubmatch(strings.NewReplacer(",", "", "$", "").Replace(s))
	if at == nil {
		return 0, false
	}
	return pythonFloat(at[1])
}

func dabstepClose(a, b float64) bool {
	if a == b {
		return true
	}
	if math.IsInf(a, 0) || math.IsInf(b, 0) { // as in math.isclose; inf is within 1e-4 of anything else
		return false
	}
	if !(a < 1 && b < 1) {
		places := min(printedDecimals(a), printedDecimals(b))
		if round(a, places) == round(b, places) {
			return true
		}
	}
	return math.Abs(a-b) <= max(1e-4*max(math.Abs(a), math.Abs(b)), 1e-4)
}

// printedDecimals counts the characters after the point of Python's repr, "1e+16" included.
func printedDecimals(v float64) int {
	s := strconv.FormatFloat(v, 'f', -1, 64)
	if abs := math.Abs(v); abs != 0 && (abs < 1e-4 || abs >= 1e16) {
		s = strconv.FormatFloat(v, 'e', -1, 64)
		if !strings.Contains(s, ".") {
			return 0
		}
	}
	dot := strings.IndexByte(s, '.')
	if dot < 0 {
		return 1 // Python prints 5.0
	}
	return len(s) - dot - 1
}

func dabstepLists(a, b string, depth int) bool {
	x, y := dabstepItems(a), dabstepItems(b)
	if slices.Equal(x, y) {
		return true
	}
	if len(x) != len(y) {
		return false
	}
	for i := range x {
		if !dabstepEqual(x[i], y[i], depth+1) {
			return false
		}
	}
	return true
}

func dabstepItems(s string) []string {
	s = strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(s), "["), "]")
	var out []string
	for _, item := range strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ';' }) {
		if item = strings.TrimSpace(item); item != "" {
			out = append(out, item)
		}
	}
	slices.Sort(out)
	return out
}

// maxWords bounds the word sets; a longer text is no single-word answer's superset worth finding.
const maxWords = 20_000

func dabstepText(a, b string) bool {
	if onlyWords(a) == onlyWords(b) {
		return true
	}
	x, y := dabstepWord.FindAllString(a, maxWords), dabstepWord.FindAllString(b, maxWords)
	if len(x) > 0 && len(y) > 0 && (len(x) == 1 || len(y) == 1) {
		return subset(x, y) || subset(y, x)
	}
	return similarity(a, b) > 0.95
}

func onlyWords(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r) {
			return r
		}
		return -1
	}, s)
}

func subset(a, b []string) bool {
	have := map[string]bool{}
	for _, w := range b {
		have[w] = true
	}
	for _, w := range a {
		if !have[w] {
			return false
		}
	}
	return true
}

// DABStepFixed keeps signs and percent signs, wants one number where the reference is one, and
// compares words as wholes. Tolerances are the official ones.
func DABStepFixed(got, want string) float64 {
	got, want = strings.TrimSpace(unwrap(got)), strings.TrimSpace(unwrap(want))
	return truth(dabstepFixed(got, want))
}

func dabstepFixed(got, want string) bool {
	w, number := readQuantity(want)
	g, ok := readQuantity(got)
	if number || ok {
		if !number || !ok {
			return false
		}
		for _, wv := range w.readings(g) {
			for _, gv := range g.readings(w) {
				x, _ := gv.Float64()
				y, _ := wv.Float64()
				if math.Signbit(x) == math.Signbit(y) && dabstepFixedClose(x, y, min(g.decimals, w.decimals)) {
					return true
				}
			}
		}
		return false
	}
	if strings.ContainsAny(want, ";,") {
		return pair(items(got), items(want), dabstepFixed)
	}
	if key, value, ok := strings.Cut(want, ":"); ok { // "E:13.57"
		k, v, ok := strings.Cut(got, ":")
		return ok && fold(k) == fold(key) && dabstepFixed(strings.TrimSpace(v), strings.TrimSpace(value))
	}
	return fold(got) == fold(want)
}

// dabstepFixedClose rounds to the coarser of the two written forms, except below 1, where a coarse
// answer would round to anything.
func dabstepFixedClose(a, b float64, places int) bool {
	if math.IsInf(a, 0) || math.IsInf(b, 0) {
		return false
	}
	if math.Abs(a) >= 1 && math.Abs(b) >= 1 && places > 0 && round(a, places) == round(b, places) {
		return true
	}
	return a == b || math.Abs(a-b) <= max(1e-4*max(math.Abs(a), math.Abs(b)), 1e-4)
}
