package rules

import (
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// num is a number as printed: what it says and how exactly.
type num struct {
	value    float64
	decimals int
	percent  bool
	start    int
	end      int
	// label marks a number that names something ("class 1", a year) instead of measuring it.
	label bool
}

// half is the rounding that the printed form hides; counts are taken as exact.
func (n num) half() float64 {
	if n.decimals == 0 {
		return 0
	}
	return 0.5 * math.Pow(10, -float64(n.decimals))
}

func (n num) String() string {
	s := strconv.FormatFloat(n.value, 'f', n.decimals, 64)
	if n.percent {
		s += "%"
	}
	return s
}

func (n num) same(m num) bool { return n.value == m.value && n.percent == m.percent }

var (
	numeral = regexp.MustCompile(`[-+−]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][-+]?\d+)?|[-+−]?\.\d+`)
	naming  = regexp.MustCompile(`(?i)\b(class|group|month|day|year|level|type|category|quarter|week|hour|cluster|team|id|no\.|top|store|region|model|version|zone|grade|rank|sample|decile|quartile|row|column|page|step|stage|phase|code|district|series|season)\s*$`)
	yearly  = regexp.MustCompile(`(?i)\b(in|since|during|until|for|from|to|of|by|and|between)\s*$`)
)

// numbers finds the numbers of a text, skipping those inside identifiers, dates and times.
func numbers(s string) []num {
	var out []num
	for _, at := range numeral.FindAllStringIndex(s, -1) {
		start, end := at[0], at[1]
		if r := s[start]; (r == '-' || r == '+') && start > 0 && joins(s[start-1]) {
			start++ // "10-20": a range or a date, no sign
		}
		if start > 0 && joins(s[start-1]) || start > 1 && s[start-1] == '-' && isDigit(s[start-2]) || start > 0 && s[start-1] == ':' && start > 1 && isDigit(s[start-2]) {
			continue
		}
		if end < len(s) && (joins(s[end]) || (s[end] == '-' || s[end] == ':' || s[end] == '/') && end+1 < len(s) && isDigit(s[end+1])) {
			continue
		}
		text := strings.NewReplacer(",", "", "−", "-").Replace(s[start:end])
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			continue
		}
		n := num{value: v, start: start, end: end}
		if dot := strings.IndexByte(text, '.'); dot >= 0 && !strings.ContainsAny(text, "eE") {
			n.decimals = len(text) - dot - 1
		}
		if rest := strings.TrimLeft(s[end:], " "); strings.HasPrefix(rest, "%") || strings.HasPrefix(rest, "percent") {
			n.percent = true
		}
		whole := n.decimals == 0 && !n.percent
		n.label = whole && (naming.MatchString(s[:start]) || v >= 1900 && v <= 2100 && yearly.MatchString(s[:start]))
		out = append(out, n)
	}
	return out
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func joins(c byte) bool {
	return c == '_' || isDigit(c) || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

// measures are the numbers that measure something.
func measures(s string) []num {
	var out []num
	for _, n := range numbers(s) {
		if !n.label {
			out = append(out, n)
		}
	}
	return out
}

type words map[string]bool

var word = regexp.MustCompile(`[\p{L}_][\p{L}\p{N}_]*|\d+`)

var stop = func() words {
	w := words{}
	for _, s := range strings.Fields(`the an of is are was were be has have had in for to with by on at that which who whose
		than its their it they this these those and or as from do does did value values equal given there between among both
		one each all more most less least fewer larger largest greater greatest higher highest bigger biggest smaller smallest
		lower lowest longer longest shorter shortest above below over under exceed much far slightly clearly only also thus so hence
		therefore not no column columns observed respective respectively`) {
		w[s] = true
	}
	return w
}()

// tokens are the content words of a phrase: lower case, plural s dropped, compound identifiers
// kept whole and split, numbers only where they are labels.
func tokens(s string) words {
	labels := map[int]bool{}
	for _, n := range numbers(s) {
		if n.label {
			labels[n.start] = true
		}
	}
	out := words{}
	add := func(t string) {
		t = strings.ToLower(t)
		if len(t) > 3 && strings.HasSuffix(t, "s") && !strings.HasSuffix(t, "ss") {
			t = t[:len(t)-1]
		}
		if t != "" && !stop[t] {
			out[t] = true
		}
	}
	for _, at := range word.FindAllStringIndex(s, -1) {
		t := s[at[0]:at[1]]
		switch {
		case isDigit(t[0]):
			if labels[at[0]] {
				out[t] = true
			}
		case t == "a" || t == "A" && at[0] == 0 && !strings.HasPrefix(s, "A is ") && !strings.HasPrefix(s, "A has "):
		case strings.Contains(t, "_"):
			add(t)
			for _, part := range strings.Split(t, "_") {
				add(part)
			}
		default:
			add(t)
		}
	}
	return out
}

func (w words) minus(o words) words {
	out := words{}
	for t := range w {
		if !o[t] {
			out[t] = true
		}
	}
	return out
}

func (w words) sorted() []string { return slices.Sorted(maps.Keys(w)) }

func (w words) common(o words) int {
	n := 0
	for t := range w {
		if o[t] {
			n++
		}
	}
	return n
}

func (w words) with(o words) words {
	out := words{}
	for t := range w {
		out[t] = true
	}
	for t := range o {
		out[t] = true
	}
	return out
}

var sentenceEnd = regexp.MustCompile(`[.!?]\s+|[;\n]+|[.!?]$`)

var abbreviation = regexp.MustCompile(`(?i)\b(no|vs|approx|e\.g|i\.e|st|mr|mrs|dr|avg|std|max|min|num)$`)

// sentences splits a text at line breaks, semicolons and sentence ends.
func sentences(s string) []string {
	var out []string
	from := 0
	for _, at := range sentenceEnd.FindAllStringIndex(s, -1) {
		if s[at[0]] == '.' && abbreviation.MatchString(s[from:at[0]]) {
			continue
		}
		out = append(out, s[from:at[0]])
		from = at[1]
	}
	out = append(out, s[from:])
	kept := out[:0]
	for _, c := range out {
		if c = strings.Trim(c, " \t,:;.!?"); word.MatchString(c) {
			kept = append(kept, c)
		}
	}
	return kept
}
