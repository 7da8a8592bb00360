package rules

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

var (
	equation  = regexp.MustCompile(`([-−]?[\d.,]*\d%?)\s*([-+−–*×/÷])\s*([-−]?[\d.,]*\d%?)\s*(?:=|equals)\s*([-−]?[\d.,]*\d%?)`)
	operator  = regexp.MustCompile(`(?i)\b(?:(difference|differ)|(sum|total|together|combined|add up)|(ratio)|(average|mean) of (?:the two|both)|(product))\b`)
	times     = regexp.MustCompile(`(?i)\b(?:(twice|double)|(half)|(three times|triple)|([\d.]*\d) ?(?:times|x|fold))\b`)
	movement  = regexp.MustCompile(`(?i)\b(?:(increas\w*|rose|rises?|grew|grows?|climb\w*)|(decreas\w*|fell|falls?|drop\w*|declin\w*|shr[aiu]nk\w*))\b.*?\bfrom\b(.*?)\bto\b(.*)$`)
	being     = regexp.MustCompile(`(?i)\b(?:is|are|was|were)\s*(?:exactly )?$`)
	letterR   = regexp.MustCompile(`\br\b`)
	percentOf = regexp.MustCompile(`(?i)^(.*?)\b(?:is|are|makes? up)\b\s*([\d.]*\d)\s*(?:%|percent) of\b(.*)$`)
)

// tolerance of a computed value: tight takes counts as exact, loose allows for rounding of all.
func tolerance(loose bool, ns ...num) float64 {
	t := 1e-9
	for _, n := range ns {
		h := n.half()
		if h == 0 && loose {
			h = 0.5
		}
		t += h
	}
	return t
}

// settle compares a computed value with the stated one: true within the printed precision, false
// only where no rounding explains the gap.
func settle(rule, why string, got float64, stated num, slack, looseSlack float64) result {
	gap := math.Abs(got - stated.value)
	switch {
	case math.IsNaN(gap) || math.IsInf(gap, 0):
		return unsure(rule, "%s can't be computed", why)
	case gap <= slack:
		return decided(rule, true, why)
	case gap > looseSlack:
		return decided(rule, false, why)
	}
	return unsure(rule, "%s: rounding may explain the gap", why)
}

// equations judges "a + b = c" with operands of the premises.
func (k *known) equations(clause string) (result, bool) {
	m := equation.FindStringSubmatch(clause)
	if m == nil {
		return result{}, false
	}
	a, b, c := single(m[1]), single(m[3]), single(m[4])
	why := fmt.Sprintf("%s %s %s = %s", a, m[2], b, c)
	if !k.holds(a, true) || !k.holds(b, true) {
		return unsure("equation", "%s: an operand stands neither in the premises nor in the question", why), true
	}
	var got, slack, loose float64
	slack, loose = tolerance(false, a, b, c), tolerance(false, a, b)+tolerance(true, c)
	switch m[2] {
	case "+":
		got = a.value + b.value
	case "-", "−", "–":
		got = a.value - b.value
	case "*", "×":
		got = a.value * b.value
		scale := math.Abs(a.value) + math.Abs(b.value) + 1
		slack, loose = slack*scale, loose*scale
	default:
		got = a.value / b.value
		slack = c.half() + quotientSlack(a, b) + 1e-9
		loose = tolerance(true, c) + quotientSlack(a, b)
		if c.percent && !a.percent && !b.percent {
			got *= 100
		}
	}
	return settle("equation", why, got, c, slack, loose), true
}

func quotientSlack(a, b num) float64 {
	if b.value == 0 {
		return 0
	}
	return (a.half() + math.Abs(a.value/b.value)*b.half()) / math.Abs(b.value)
}

func single(s string) num {
	if ns := numbers(s); len(ns) > 0 {
		return ns[0]
	}
	return num{value: math.NaN()}
}

// operation judges a stated difference, sum, ratio, product or mean of two figures.
func (k *known) operation(clause string) (result, bool) {
	m := operator.FindStringSubmatch(clause)
	if m == nil || significant.MatchString(clause) {
		return result{}, false
	}
	const rule = "arithmetic"
	stated, a, b, refutable, why := k.operands(clause)
	if why != "" {
		return unsure(rule, "%s", why), true
	}
	var got float64
	name := strings.ToLower(m[0])
	slack, loose := tolerance(false, a, b, stated), tolerance(false, a, b)+tolerance(true, stated)
	switch {
	case m[1] != "":
		got = a.value - b.value
		if stated.value >= 0 {
			got = math.Abs(got)
		}
	case m[2] != "":
		got = a.value + b.value
	case m[3] != "":
		got = a.value / b.value
		if inverse := b.value / a.value; math.Abs(inverse-stated.value) < math.Abs(got-stated.value) {
			a, b, got = b, a, inverse
		}
		slack, loose = stated.half()+quotientSlack(a, b)+1e-9, tolerance(true, stated)+quotientSlack(a, b)
	case m[4] != "":
		got = (a.value + b.value) / 2
	default:
		got = a.value * b.value
		scale := math.Abs(a.value) + math.Abs(b.value) + 1
		slack, loose = slack*scale, loose*scale
	}
	r := settle(rule, fmt.Sprintf("%s of %s and %s is %s", name, a, b, stated), got, stated, slack, loose)
	if r.kind == fails && (k.says(stated.value) || !refutable) {
		// A premise states the figure itself, or the two operands need not be the ones meant.
		return unsure(rule, "%s: other figures may be meant", r.why), true
	}
	return r, true
}

// operands are the result that a clause states and the two figures it is computed from: printed in
// the clause, or the only two others that the premises hold. They are refutable where no other pair
// can be meant: printed, or two figures of a kind.
func (k *known) operands(clause string) (stated, a, b num, refutable bool, why string) {
	ns := measures(clause)
	switch len(ns) {
	case 1:
		stated = ns[0]
		pair := k.others(stated)
		if len(pair) != 2 {
			return stated, a, b, false, fmt.Sprintf("the premises hold %d figures to compute %s from", len(pair), stated)
		}
		a, b = pair[0].num, pair[1].num
		wa, wb := pair[0].words, pair[1].words
		refutable = wa.common(wb) > 0 && 2*wa.common(wb) >= min(len(wa), len(wb)) || len(wa) <= 1 && len(wb) <= 1
	case 3:
		found, ok := principal(clause)
		if !ok || !verb.MatchString(clause[:found.start]) {
			return stated, a, b, false, "the result can't be told from the operands"
		}
		stated, refutable = found, true
		var rest []num
		for _, n := range ns {
			if n.start != stated.start {
				rest = append(rest, n)
			}
		}
		a, b = rest[0], rest[1]
		if !k.holds(a, true) || !k.holds(b, true) {
			return stated, a, b, false, "an operand stands neither in the premises nor in the question"
		}
	default:
		return stated, a, b, false, fmt.Sprintf("%d figures in %q", len(ns), clause)
	}
	if a.percent != b.percent {
		return stated, a, b, false, "one figure is a percentage, the other is not"
	}
	return stated, a, b, refutable, ""
}

// others are the premises' facts of different values besides one.
func (k *known) others(n num) []fact {
	var out []fact
	for _, f := range k.facts {
		if !f.same(n) && !contains(out, f.num) {
			out = append(out, f)
		}
	}
	return out
}

func contains(facts []fact, n num) bool {
	for _, have := range facts {
		if have.same(n) {
			return true
		}
	}
	return false
}

// margin judges the "by N" of a comparison that holds.
func margin(a, b num, by []string) result {
	stated := single(by[1])
	gap := math.Abs(a.value - b.value)
	why := fmt.Sprintf("%s and %s differ by %s", a, b, stated)
	if by[2] != "" && !a.percent {
		gap = 100 * gap / math.Abs(b.value)
		return settle("margin", why+"%", gap, stated, stated.half()+100*quotientSlack(a, b)+1e-9, 0.5+100*quotientSlack(a, b))
	}
	return settle("margin", why, gap, stated, tolerance(false, a, b, stated), tolerance(false, a, b)+tolerance(true, stated))
}

// multiple judges "S is twice O" and "S is 2.5 times O".
func (k *known) multiple(clause string) (result, bool) {
	at := times.FindStringSubmatchIndex(clause)
	if at == nil || negation.MatchString(clause) {
		return result{}, false
	}
	m := times.FindStringSubmatch(clause)
	factor := num{decimals: 0}
	switch {
	case m[1] != "":
		factor.value = 2
	case m[2] != "":
		factor.value = 0.5
	case m[3] != "":
		factor.value = 3
	default:
		factor = single(m[4])
	}
	left, right := clause[:at[0]], clause[at[1]:]
	if !being.MatchString(left) {
		return unsure("multiple", "%q is not a plain multiple", clause), true
	}
	a, b, why := k.sides(left, "", right)
	if why != "" {
		return unsure("multiple", "%s", why), true
	}
	slack := quotientSlack(a.num, b.num) + factor.half() + 1e-9
	return settle("multiple", fmt.Sprintf("%s is %s times %s", a.num, strconv.FormatFloat(factor.value, 'g', -1, 64), b.num), a.value/b.value, factor, slack, slack+0.25), true
}

// moved judges "rose from a to b".
func (k *known) moved(clause string) (result, bool) {
	m := movement.FindStringSubmatch(clause)
	if m == nil {
		return result{}, false
	}
	from, to := measures(m[3]), measures(m[4])
	if len(from) == 0 || len(to) == 0 || negation.MatchString(clause) || !k.holds(from[0], false) || !k.holds(to[0], false) {
		return unsure("movement", "the two figures can't be told"), true
	}
	rel := relation{sign: 1}
	if m[2] != "" {
		rel.sign = -1
	}
	return compare(to[0], from[0], rel), true
}

// portion judges "A is P% of B".
func (k *known) portion(clause string) (result, bool) {
	m := percentOf.FindStringSubmatch(clause)
	if m == nil || len(measures(m[1])) == 0 || len(measures(m[3])) == 0 {
		return result{}, false
	}
	a, b, why := k.sides(m[1], "", m[3])
	if why != "" {
		return unsure("portion", "%s", why), true
	}
	stated := single(m[2])
	slack := stated.half() + 100*quotientSlack(a.num, b.num) + 1e-9
	return settle("portion", fmt.Sprintf("%s is %s%% of %s", a.num, stated, b.num), 100*a.value/b.value, stated, slack, 0.5+slack), true
}

var (
	signWord = regexp.MustCompile(`(?i)\b(?:(positive(?:ly)?|right[- ]skewed|skewed (?:to the )?right)|(negative(?:ly)?|left[- ]skewed|skewed (?:to the )?left))\b`)
	signed   = regexp.MustCompile(`(?i)\bcorrelat|skew|slope|coefficient\b`)
)

var signWords = list(`positive positively negative negatively correlated correlation correlate relationship linear linearly distribution
	right left skewed skewness skew association associated`)

// sign judges "positively correlated", "skewed to the left": the sign of the one coefficient.
func (k *known) sign(clause string) (result, bool) {
	m := signWord.FindStringSubmatch(clause)
	if m == nil || !signed.MatchString(clause) {
		return result{}, false
	}
	const rule = "sign"
	if negation.MatchString(clause) || len(signWord.FindAllString(clause, -1)) > 1 {
		return unsure(rule, "the polarity of %q can't be told", clause), true
	}
	var found *num
	for i, f := range k.facts {
		text := k.premises[f.premise]
		if !signed.MatchString(text) && !letterR.MatchString(text) || f.words["p"] && !f.words["r"] {
			continue
		}
		if found != nil && !found.same(f.num) {
			return unsure(rule, "the premises hold several coefficients"), true
		}
		found = &k.facts[i].num
	}
	if found == nil {
		return unsure(rule, "the premises hold no coefficient"), true
	}
	about := tokens(clause).minus(signWords)
	if unknown := about.minus(k.vocabulary).sorted(); len(unknown) > 0 {
		return unsure(rule, "the premises do not speak of %s", unknown[0]), true
	}
	if math.Abs(found.value) <= found.half() {
		return unsure(rule, "%s is too close to 0", found), true
	}
	return decided(rule, (found.value > 0) == (m[1] != ""), fmt.Sprintf("the coefficient is %s", found)), true
}
