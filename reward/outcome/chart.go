package outcome

import (
	"slices"
	"strconv"
	"strings"
)

const (
	maxChartValues = 10_000
	maxChartDepth  = 4
)

// sameChart compares the drawn values with the reference's "y_references = [[...]]": all series in
// one list, sorted, rounded to two places; shares of the whole for a pie.
func sameChart(got, want, chart string) bool {
	a, okA := chartValues(got)
	b, okB := chartValues(want)
	if !okA || !okB || len(a) != len(b) {
		return false
	}
	if chart == "pie" {
		a, b = shares(a), shares(b)
	}
	slices.Sort(a)
	slices.Sort(b)
	for i := range a {
		if round(a[i], 2) != round(b[i], 2) {
			return false
		}
	}
	return true
}

func shares(v []float64) []float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	if sum == 0 {
		return v
	}
	out := make([]float64, len(v))
	for i, x := range v {
		out[i] = x / sum
	}
	return out
}

func round(v float64, places int) float64 {
	r, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'f', places, 64), 64)
	return r
}

// chartValues reads a nested list of numbers, flattened. It is a reader of literals: a name, a call
// or an operator makes it no list.
func chartValues(s string) ([]float64, bool) {
	if at := strings.IndexByte(s, '='); at >= 0 && strings.TrimSpace(s[:at]) == "y_references" {
		s = s[at+1:]
	}
	s = strings.TrimSpace(s)
	if !strings.HasPrefix(s, "[") {
		return nil, false
	}
	var out []float64
	depth := 0
	for i := 0; i < len(s); {
		switch c := s[i]; {
		case c == '[':
			if depth++; depth > maxChartDepth {
				return nil, false
			}
			i++
		case c == ']':
			if depth--; depth < 0 || depth == 0 && strings.TrimSpace(s[i+1:]) != "" {
				return nil, false
			}
			i++
		case c == ',' || c == ' ' || c == '\n' || c == '\t':
			i++
		default:
			end := i
			for end < len(s) && !strings.ContainsRune(",] \n\t[", rune(s[end])) {
				end++
			}
			v, ok := pythonFloat(unwrap(s[i:end]))
			if !ok || depth == 0 || len(out) >= maxChartValues {
				return nil, false
			}
			out = append(out, v)
			i = end
		}
	}
	return out, depth == 0 && len(out) > 0
}
