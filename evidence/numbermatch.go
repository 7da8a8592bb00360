package evidence

import (
	"math"
	"math/big"
	"slices"
	"strings"
)

// numberPool holds what a text may state.
type numberPool struct {
	rules ruleSet
	// values are sorted by approximate size, so that a match is a search.
	values []poolValue
	counts map[int64]bool
	most   int64 // largest count
	years  map[string]bool
	// percentText: some text speaks of percent; direction: of falling, negative and the like.
	percentText, direction     bool
	claimPercent, claimFalling bool
}

type poolValue struct {
	approx  float64
	value   *big.Rat
	percent bool
}

// ratioLimit bounds the pairs that ruleRatio looks at.
const ratioLimit = 64

// pool collects the numbers of premises and question. text is the text to be checked: the lists in
// it are counted, its words decide about percent and direction, its numbers are not taken.
func (rules ruleSet) pool(premises []string, question, text string) *numberPool {
	p := &numberPool{rules: rules, counts: map[int64]bool{}, years: map[string]bool{}}
	if len(premises) > 1 {
		p.count(int64(len(premises)))
	}
	if rules&ruleQuestion == 0 {
		question = ""
	}
	for _, source := range append(slices.Clone(premises), question) {
		for _, n := range rules.scan(source) {
			p.add(n)
		}
		p.readYears(source)
		p.percentText = p.percentText || speaksPercent(source)
		p.direction = p.direction || speaksDirection(source)
		p.countLists(source)
	}
	p.countLists(text)
	p.claimPercent, p.claimFalling = speaksPercent(text), speaksDirection(text)
	slices.SortFunc(p.values, func(a, b poolValue) int {
		switch {
		case a.approx < b.approx:
			return -1
		case a.approx > b.approx:
			return 1
		}
		return 0
	})
	// A premise may state one number a thousand times; each is looked at once.
	p.values = slices.CompactFunc(p.values, func(a, b poolValue) bool {
		return a.percent == b.percent && a.value.Cmp(b.value) == 0
	})
	return p
}

func (p *numberPool) add(n number) {
	for _, r := range n.readings {
		p.values = append(p.values, poolValue{approximate(r.value), r.value, n.percent})
	}
	for _, part := range n.parts {
		p.add(part)
	}
}

// approximate is finite whatever a text states: differences of infinities would match nothing.
func approximate(v *big.Rat) float64 {
	f, _ := v.Float64()
	return min(max(f, -math.MaxFloat64), math.MaxFloat64)
}

// holds reports whether the pool excuses a number.
func (p *numberPool) holds(n number) bool {
	for _, r := range n.readings {
		if p.rules&ruleEqual != 0 && p.equal(n, r) || p.directed(n, r) || p.percentage(n, r) {
			return true
		}
	}
	return p.counted(n) || p.dated(n) || p.related(n)
}

// equal compares as is.
func (p *numberPool) equal(n number, r reading) bool {
	return p.near(n, r.value, r.unit, func(poolValue) bool { return true })
}

// directed compares the magnitude where words carry the sign.
func (p *numberPool) directed(n number, r reading) bool {
	if p.rules&ruleDirection == 0 || r.value.Sign() == 0 {
		return false
	}
	if r.value.Sign() > 0 && !p.claimFalling || r.value.Sign() < 0 && !p.direction {
		return false
	}
	return p.near(n, new(big.Rat).Neg(r.value), r.unit, func(poolValue) bool { return true })
}

// percentage compares 36.45% with 0.3645. Without a percent sign on either number the texts must
// at least speak of percent.
func (p *numberPool) percentage(n number, r reading) bool {
	if p.rules&rulePercent == 0 || n.ordinal {
		return false
	}
	spoken := p.claimPercent || p.percentText
	hundred := big.NewRat(100, 1)
	smaller := new(big.Rat).Quo(r.value, hundred)
	larger := new(big.Rat).Mul(r.value, hundred)
	asFraction := n.percent || spoken
	return asFraction && p.near(n, smaller, new(big.Rat).Quo(r.unit, hundred), func(v poolValue) bool { return !v.percent }) ||
		!n.percent && p.near(n, larger, new(big.Rat).Mul(r.unit, hundred), func(v poolValue) bool { return v.percent || spoken })
}

// near looks for a value within half a unit of the last digit: both ways to round a half are then
// right. A whole number does not stand for a fraction below one ("1" for 0.61).
func (p *numberPool) near(n number, value, unit *big.Rat, fits func(poolValue) bool) bool {
	half := new(big.Rat)
	if p.rules&ruleRounding != 0 && !n.ordinal {
		half.Quo(unit, big.NewRat(2, 1))
	}
	low, high := approximate(new(big.Rat).Sub(value, half)), approximate(new(big.Rat).Add(value, half))
	slack := 1e-12 * max(1, max(-low, high))
	at, _ := slices.BinarySearchFunc(p.values, low-slack, func(v poolValue, target float64) int {
		if v.approx < target {
			return -1
		}
		return 1
	})
	one := big.NewRat(1, 1)
	for ; at < len(p.values) && p.values[at].approx <= high+slack; at++ {
		v := p.values[at]
		distance := new(big.Rat).Sub(v.value, value)
		exact := distance.Sign() == 0
		if !fits(v) || distance.Abs(distance).Cmp(half) > 0 {
			continue
		}
		if exact || !n.integer || n.percent || unit.Cmp(one) != 0 || new(big.Rat).Abs(v.value).Cmp(one) >= 0 {
			return true
		}
	}
	return false
}

// counted: the number counts listed items, or is a rank among them.
func (p *numberPool) counted(n number) bool {
	if p.rules&ruleCount == 0 || !n.integer || n.percent || !n.readings[0].value.IsInt() || !n.readings[0].value.Num().IsInt64() {
		return false
	}
	k := n.readings[0].value.Num().Int64()
	return p.counts[k] || n.ordinal && k >= 1 && (k <= p.most || k == 1)
}

func (p *numberPool) count(n int64) {
	p.counts[n] = true
	p.most = max(p.most, n)
}

// countLists counts the items of bracketed lists and of enumerations within a clause.
func (p *numberPool) countLists(text string) {
	for _, clause := range clauses(text) {
		items := 1
		for _, separator := range []string{", and ", ", or ", ", ", " and ", " or ", " & ", " und "} {
			items += strings.Count(clause, separator)
			clause = strings.ReplaceAll(clause, separator, "\x00")
		}
		if items > 1 {
			p.count(int64(items))
		}
	}
	for i := 0; i < len(text); i++ {
		if text[i] != '[' {
			continue
		}
		end := strings.IndexAny(text[i+1:], "[]")
		if end < 0 {
			return
		}
		if text[i+1+end] == ']' {
			p.countItems(text[i+1 : i+1+end])
		}
		i += end
	}
}

func (p *numberPool) countItems(list string) {
	if strings.TrimSpace(list) == "" {
		p.count(0)
		return
	}
	if n := strings.Count(list, ","); n > 0 {
		p.count(int64(n) + 1)
	}
}

// clauses splits at punctuation that ends an enumeration; a point inside a number does not.
func clauses(text string) []string {
	var out []string
	start := 0
	for i := 0; i < len(text); i++ {
		ends := strings.IndexByte(";:!?()[]{}\n", text[i]) >= 0 ||
			text[i] == '.' && (i+1 == len(text) || text[i+1] == ' ' || text[i+1] == '\n')
		if ends {
			out = append(out, text[start:i])
			start = i + 1
		}
	}
	return append(out, text[start:])
}

// readYears collects the four-digit runs of a text, those inside names too, and the second year of
// 1990-91.
func (p *numberPool) readYears(text string) {
	for i := 0; i < len(text); {
		j := i
		for j < len(text) && text[j] >= '0' && text[j] <= '9' {
			j++
		}
		if j-i == 4 {
			year := text[i:j]
			p.years[year] = true
			tail := strings.TrimLeft(text[j:], " ")
			for _, dash := range []string{"-", "–", "/", "- "} {
				if rest, ok := strings.CutPrefix(tail, dash); ok && len(rest) >= 2 && plainDigits(rest[:2]) && (len(rest) == 2 || !plainDigits(rest[2:3])) {
					p.years[year[:2]+rest[:2]] = true
				}
			}
		}
		i = max(j, i+1)
	}
}

func plainDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// dated: a year that stands inside a date, a range or a name.
func (p *numberPool) dated(n number) bool {
	if p.rules&ruleYears == 0 || !n.integer || n.percent || len(n.text) < 4 {
		return false
	}
	year := strings.TrimSuffix(n.text, "s")
	return len(year) == 4 && plainDigits(year) && (year[0] == '1' || year[0] == '2') && p.years[year]
}

// related: twice, half and the like state how two of the numbers relate, within 2.5 %.
func (p *numberPool) related(n number) bool {
	if p.rules&ruleRatio == 0 || !n.relation {
		return false
	}
	want, _ := n.readings[0].value.Float64()
	values := p.values[:min(len(p.values), ratioLimit)]
	for i, a := range values {
		for j, b := range values {
			if i == j || a.approx == 0 {
				continue
			}
			ratio := b.approx / a.approx
			if ratio > want*0.975 && ratio < want*1.025 || 1/ratio > want*0.975 && 1/ratio < want*1.025 {
				return true
			}
		}
	}
	return false
}

func speaksPercent(s string) bool {
	s = strings.ToLower(s)
	return strings.Contains(s, "%") || strings.Contains(s, "percent") || strings.Contains(s, "per cent") || strings.Contains(s, "pct")
}

var directionWords = wordSet(`negative negatively inverse inversely decrease decreases decreased
decreasing decline declines declined declining drop drops dropped fell fall falls fallen falling
lower less below down loss losses lost reduce reduces reduced reduction shrink shrank shrinks minus
absolute magnitude`)

func speaksDirection(s string) bool {
	return slices.ContainsFunc(words(s), func(w string) bool { return directionWords[w] })
}
