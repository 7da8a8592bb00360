package rules

import (
	"fmt"
	"math"
	"regexp"
	"strings"
)

// relation is what a comparing phrase claims of left and right.
type relation struct {
	sign  int // +1: left above right, -1: below, 0: equal
	equal bool
}

func (r relation) negated() relation {
	if r.sign == 0 {
		return relation{sign: 2} // unequal
	}
	return relation{sign: -r.sign, equal: !r.equal}
}

func (r relation) String() string {
	return map[relation]string{
		{sign: 1}: ">", {sign: -1}: "<", {sign: 1, equal: true}: ">=", {sign: -1, equal: true}: "<=", {}: "=", {sign: 2}: "!=",
	}[r]
}

var (
	upWords   = `larger|greater|higher|more|bigger|longer|older|taller|better|stronger|heavier|faster`
	downWords = `smaller|less|lower|fewer|shorter|younger|worse|weaker|lighter|slower`
	than      = regexp.MustCompile(`(?i)^(.*?)\b(no |not |n't )?(?:(` + upWords + `)|(` + downWords + `))\b(.*?)\bthan\b(?: that of| those of)?(.*)$`)
	exceeds   = regexp.MustCompile(`(?i)^(.*?)\b(?:(do not|does not|did not|doesn't|don't|didn't) )?(?:exceed(?:s|ed|ing)?|surpass(?:es|ed)?|outnumber(?:s|ed)?|(?:lies |is |are |was |were )(not )?(above)|(?:lies |is |are |was |were |falls )(not )?(below|under))\b(.*)$`)
	bound     = regexp.MustCompile(`(?i)^(.*?)\b(?:is|are|was|were) (at least|at most|no less than|no more than|not less than|not more than)\b(.*)$`)
	equals    = regexp.MustCompile(`(?i)^(.*?)\b(?:(?:is|are) (not )?(?:equal to|the same as|identical to)|equals)\b(.*)$`)
	symbol    = regexp.MustCompile(`^(.*?)\s*(<=|>=|≤|≥|<|>|!=|≠)\s*(.*)$`)
	between   = regexp.MustCompile(`(?i)^(.*?)\b(?:is|are|was|were|lies|falls) (not )?between\b(.*?)\band\b(.*)$`)
	amount    = regexp.MustCompile(`(?i)\bby (?:about |around |roughly |some )?\$?([-+]?[\d.,]*\d)(\s*%| percent)?`)
)

// comparison judges "S is larger than O", "S exceeds O", "S < O" and their negations.
func (k *known) comparison(clause string) (result, bool) {
	if m := between.FindStringSubmatch(clause); m != nil {
		return k.inside(m[1], m[3], m[4], m[2] != ""), true
	}
	left, middle, right, rel, ok := splitComparison(clause)
	if !ok {
		return result{}, false
	}
	by := amount.FindStringSubmatch(right)
	if by == nil {
		by = amount.FindStringSubmatch(middle)
	}
	right = amount.ReplaceAllString(right, "")
	middle = amount.ReplaceAllString(middle, "")
	a, b, why := k.sides(left, middle, right)
	if why != "" {
		return unsure("comparison", "%s", why), true
	}
	res := compare(a.num, b.num, rel)
	if by != nil && res.kind == holds {
		return margin(a.num, b.num, by), true
	}
	return res, true
}

func splitComparison(c string) (left, middle, right string, rel relation, ok bool) {
	if m := bound.FindStringSubmatch(c); m != nil {
		rel = relation{sign: -1, equal: true}
		if phrase := strings.ToLower(m[2]); phrase == "at least" || strings.HasSuffix(phrase, "less than") {
			rel.sign = 1
		}
		return m[1], "", m[3], rel, true
	}
	if m := than.FindStringSubmatch(c); m != nil {
		rel = relation{sign: 1}
		if m[4] != "" {
			rel.sign = -1
		}
		if m[2] != "" || strings.HasSuffix(strings.TrimSpace(m[1]), " not") {
			rel = rel.negated()
		}
		return m[1], m[5], m[6], rel, true
	}
	if m := exceeds.FindStringSubmatch(c); m != nil {
		rel = relation{sign: 1}
		if m[6] != "" {
			rel.sign = -1
		}
		if m[2]+m[3]+m[5] != "" {
			rel = rel.negated()
		}
		return m[1], "", m[7], rel, true
	}
	if m := equals.FindStringSubmatch(c); m != nil {
		if m[2] != "" {
			rel = rel.negated()
		}
		return m[1], "", m[3], rel, true
	}
	if m := symbol.FindStringSubmatch(c); m != nil {
		rel = map[string]relation{
			"<": {sign: -1}, ">": {sign: 1}, "<=": {sign: -1, equal: true}, ">=": {sign: 1, equal: true},
			"≤": {sign: -1, equal: true}, "≥": {sign: 1, equal: true}, "!=": {sign: 2}, "≠": {sign: 2},
		}[m[2]]
		return m[1], "", m[3], rel, true
	}
	return "", "", "", relation{}, false
}

// sides turns both phrases into numbers, by the figure they hold or by their words.
func (k *known) sides(left, middle, right string) (a, b fact, why string) {
	if negation.MatchString(right) || relationWord.MatchString(right) {
		return a, b, fmt.Sprintf("%q holds a second statement", strings.TrimSpace(right))
	}
	ws, wo, wm := tokens(left), tokens(right), tokens(middle)
	a, okA, whyA := k.figure(left, ws, wo)
	b, okB, whyB := k.figure(right, wo, ws)
	if whyA+whyB != "" {
		return a, b, whyA + whyB
	}
	switch {
	case okA && okB:
	case okB: // a bare threshold, or a figure set against a phrase
		f, ok := k.subject(ws.with(wm), wo, b.num)
		if !ok {
			return a, b, fmt.Sprintf("what %q measures can't be told from the premises", strings.TrimSpace(left))
		}
		a = f
	case okA:
		f, ok := k.elliptic(wo.with(wm), ws)
		if !ok {
			return a, b, fmt.Sprintf("what %q measures can't be told from the premises", strings.TrimSpace(right))
		}
		b = f
	default:
		fa, ok1 := k.resolve(ws.with(wm), wo.with(wm))
		fb, ok2 := k.elliptic(wo.with(wm), ws.with(wm))
		if !ok1 || !ok2 {
			return a, b, "the premises do not say which figures are meant"
		}
		if !alike(fa, fb, ws.minus(fb.words), wo.minus(fa.words)) {
			return a, b, "the two figures do not measure the same thing"
		}
		a, b = fa, fb
	}
	if a.percent != b.percent {
		return a, b, "one figure is a percentage, the other is not"
	}
	return a, b, k.strange(ws.with(wo).with(wm), a, b)
}

var relationWord = regexp.MustCompile(`(?i)\b(?:than|exceeds?|above|below|equals?)\b|[<>=≤≥]`)

// figure is the single measure printed in a phrase; it must stand in the premises or the question.
// A figure that the premises give to something else is an objection.
func (k *known) figure(phrase string, mine, other words) (fact, bool, string) {
	ns := measures(phrase)
	if len(ns) == 0 {
		return fact{}, false, ""
	}
	if len(ns) > 1 {
		return fact{}, false, fmt.Sprintf("%q holds several figures", strings.TrimSpace(phrase))
	}
	n := fact{num: ns[0], words: words{}, premise: -1}
	for _, f := range k.facts {
		if f.same(n.num) {
			n.words = n.words.with(f.words)
		}
	}
	conventional := (n.value == 0.05 || n.value == 0.01) && len(k.ps) > 0
	if !k.holds(n.num, true) && !conventional {
		return n, false, fmt.Sprintf("%s stands neither in the premises nor in the question", n.num)
	}
	if f, ok := k.resolve(mine, other); ok && !f.same(n.num) && k.holds(n.num, false) && f.words.common(mine) >= 1 && len(mine.minus(other)) > 0 {
		if math.Abs(f.value-n.value) > f.half()+n.half() {
			return n, false, fmt.Sprintf("the premises give %s for %q", f.num, strings.TrimSpace(phrase))
		}
	}
	return n, true, ""
}

// subject resolves a phrase that is set against a bare figure. With one fact besides the figure, a
// pronoun or a shared word is enough.
func (k *known) subject(mine, other words, against num) (fact, bool) {
	if f, ok := k.resolve(mine, other); ok && !f.same(against) {
		return f, true
	}
	if mine["p"] && len(k.ps) == 1 && k.ps[0].bound == '=' {
		return fact{num: k.ps[0].num, words: k.ps[0].words}, true
	}
	var only *fact
	for i, f := range k.facts {
		if f.same(against) {
			continue
		}
		if only != nil && !only.same(f.num) {
			return fact{}, false
		}
		only = &k.facts[i]
	}
	if only == nil || len(mine) > 0 && only.words.common(mine) == 0 {
		return fact{}, false
	}
	return *only, true
}

func compare(a, b num, rel relation) result {
	why := fmt.Sprintf("%s %s %s", a, rel, b)
	diff := a.value - b.value
	blur := max(a.half(), b.half())
	exact := a.half() == 0 && b.half() == 0
	if !exact && (diff == 0 && !(rel.sign == 0) || diff != 0 && math.Abs(diff) < a.half()+b.half()-1e-12 && math.Abs(diff) < blur) {
		return unsure("comparison", "%s: the printed figures are too close to tell", why)
	}
	var truth bool
	switch rel.sign {
	case 0:
		truth = diff == 0
	case 2:
		truth = diff != 0
	default:
		truth = diff*float64(rel.sign) > 0 || rel.equal && diff == 0
	}
	return decided("comparison", truth, why)
}

func (k *known) inside(subject, low, high string, negated bool) result {
	lo, hi := measures(low), measures(high)
	if len(lo) != 1 || len(hi) != 1 || !k.holds(lo[0], true) || !k.holds(hi[0], true) {
		return unsure("between", "the limits can't be told")
	}
	n, ok, why := k.figure(subject, tokens(subject), words{})
	if why == "" && !ok {
		n, ok = k.resolve(tokens(subject), words{})
	}
	if why == "" {
		why = k.strange(tokens(subject), n)
	}
	if why != "" {
		return unsure("between", "%s", why)
	}
	if !ok {
		return unsure("between", "the figure can't be told")
	}
	truth := n.value >= lo[0].value && n.value <= hi[0].value
	return decided("between", truth != negated, fmt.Sprintf("%s in [%s, %s]", n.num, lo[0], hi[0]))
}
