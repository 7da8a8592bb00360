package outcome

import (
	"math/big"
	"regexp"
	"strings"
)

// quantity is a number as an answer states it, exact.
type quantity struct {
	value    *big.Rat
	decimals int
	percent  bool
}

// maxNumeral bounds the numerals that are taken for numbers: no answer of a benchmark is near it,
// and exact arithmetic over 200 kB of digits would be the policy's to spend.
const maxNumeral = 400

var (
	plainNumeral = regexp.MustCompile(`^-?\d+(\.\d+)?%?$`)
	anyNumeral   = regexp.MustCompile(`^[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d*)?(?:[eE][-+]?\d{1,3})?$`)
	hasFigure    = regexp.MustCompile(`\d`)
)

// readPlain reads what the official TableBench script takes for a number.
func readPlain(s string) (quantity, bool) {
	if len(s) > maxNumeral || !plainNumeral.MatchString(s) {
		return quantity{}, false
	}
	return exact(s)
}

// readQuantity reads a number in the forms that people and pandas write: signs (also the typographic
// minus and the accountant's parentheses), thousands separators, a currency sign, a percent sign,
// exponents, numpy scalars. Nothing is evaluated.
func readQuantity(s string) (quantity, bool) {
	if len(s) > maxNumeral {
		return quantity{}, false
	}
	s = strings.TrimSuffix(strings.TrimSpace(unwrap(s)), ".") // the end of a sentence
	negative := false
	if n := len(s); n > 2 && s[0] == '(' && s[n-1] == ')' && hasFigure.MatchString(s) {
		s, negative = s[1:n-1], true
	}
	for _, sign := range []string{"-", "+", ""} { // "-$5" and "$-5"
		if rest, ok := strings.CutPrefix(s, sign); ok {
			s = sign + strings.TrimLeft(rest, "$€£ ")
			break
		}
	}
	core := strings.TrimRight(strings.TrimSuffix(s, "%"), " ")
	if !hasFigure.MatchString(core) || !anyNumeral.MatchString(core) || negative && strings.ContainsAny(core, "+-") {
		return quantity{}, false
	}
	text := strings.ReplaceAll(core, ",", "")
	if strings.HasSuffix(s, "%") {
		text += "%"
	}
	q, ok := exact(text)
	if ok && negative {
		q.value.Neg(q.value)
	}
	return q, ok
}

func exact(s string) (quantity, bool) {
	q := quantity{}
	s, q.percent = strings.CutSuffix(s, "%")
	if dot := strings.IndexByte(s, '.'); dot >= 0 && !strings.ContainsAny(s, "eE") {
		q.decimals = len(s) - dot - 1
	}
	var ok bool
	q.value, ok = new(big.Rat).SetString(s)
	return q, ok
}

var hundred = big.NewRat(100, 1)

// fraction is the value with a percent sign resolved: 1% is 0.01.
func (q quantity) fraction() *big.Rat {
	if q.percent {
		return new(big.Rat).Quo(q.value, hundred)
	}
	return q.value
}

// readings are the values that q may mean beside other. A percent sign on one side only leaves open
// whether the other side is a fraction or a figure in percent, so both count; with the sign on both
// sides or on neither there is one reading.
func (q quantity) readings(other quantity) []*big.Rat {
	if q.percent && !other.percent {
		return []*big.Rat{q.value, q.fraction()}
	}
	return []*big.Rat{q.value}
}

// halfUp rounds to a number of decimals, halves away from zero.
func halfUp(v *big.Rat, decimals int) *big.Rat {
	scale := new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(decimals)), nil))
	scaled := new(big.Rat).Mul(v, scale)
	half := big.NewRat(1, 2)
	if scaled.Sign() < 0 {
		half.Neg(half)
	}
	scaled.Add(scaled, half)
	whole := new(big.Int).Quo(scaled.Num(), scaled.Denom()) // truncates towards zero
	return new(big.Rat).Quo(new(big.Rat).SetInt(whole), scale)
}

// within reports |a - b| <= limit.
func within(a, b, limit *big.Rat) bool {
	d := new(big.Rat).Sub(a, b)
	return d.Abs(d).Cmp(limit) <= 0
}
