package evidence

import (
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// scanner walks a text once and collects its numbers.
type scanner struct {
	rules   ruleSet
	text    string
	runes   []rune // digits of other scripts replaced by ASCII ones
	offsets []int  // byte offset of each rune, and of the end
	out     []number
}

// scan finds the numbers of a text, in order.
func (rules ruleSet) scan(text string) []number {
	s := &scanner{rules: rules, text: text}
	for offset, r := range text {
		s.runes = append(s.runes, asciiDigit(r))
		s.offsets = append(s.offsets, offset)
	}
	s.offsets = append(s.offsets, len(text))
	for i := 0; i < len(s.runes); {
		switch r := s.runes[i]; {
		case nameRune(r) && !digit(r):
			i = s.word(i)
		case digit(r) || r == '.' && s.digitAt(i+1) && !s.digitAt(i-1):
			i = s.numeric(i)
		default:
			if f, ok := vulgarFractions[r]; ok && s.on(ruleFractions) {
				s.emit(i, i+1, number{readings: []reading{exactly(big.NewRat(f[0], f[1]))}})
			}
			i++
		}
	}
	return s.out
}

func (s *scanner) on(rule ruleSet) bool { return s.rules&rule != 0 }

// at is the rune at i, 0 outside the text.
func (s *scanner) at(i int) rune {
	if i < 0 || i >= len(s.runes) {
		return 0
	}
	return s.runes[i]
}

func (s *scanner) digitAt(i int) bool { return digit(s.at(i)) }

func (s *scanner) digitsEnd(i int) int {
	for s.digitAt(i) {
		i++
	}
	return i
}

func (s *scanner) emit(start, end int, n number) {
	n.start, n.end = s.offsets[start], s.offsets[end]
	n.text = s.text[n.start:n.end]
	s.out = append(s.out, n)
}

// numeric reads the number that begins at i with a digit, or a point and a digit.
func (s *scanner) numeric(i int) int {
	if end, ok := s.chain(i); ok {
		return end
	}
	literal, end, parts := s.mantissa(i)
	if s.on(ruleNames) {
		if nameEnd, ok := s.digitName(i, end); ok {
			return nameEnd
		}
	}
	n := number{parts: parts, integer: !strings.Contains(literal, ".")}
	value, unit := decimal(literal)
	if exponent, after, ok := s.exponent(end); ok {
		scaleBy(value, exponent)
		scaleBy(unit, exponent)
		n.integer, end = false, after
	}
	negative, start := s.sign(i)
	if negative {
		value.Neg(value)
	}
	n.readings = []reading{{value, unit}}
	end = s.suffix(&n, end)
	s.emit(start, end, n)
	return end
}

// mantissa reads digits with separators and decimals. parts are set when the commas may just as
// well separate a list.
func (s *scanner) mantissa(i int) (literal string, end int, parts []number) {
	end = s.digitsEnd(i)
	if s.on(ruleThousands) && end > i {
		if grouped := s.groups(i, end); grouped > end {
			if s.at(end) == ',' {
				parts = s.items(i, grouped)
			}
			end = grouped
		}
	}
	if s.at(end) == '.' && s.digitAt(end+1) {
		end = s.digitsEnd(end + 1)
		parts = nil
	}
	digits := slices.DeleteFunc(slices.Clone(s.runes[i:end]), func(r rune) bool { return !digit(r) && r != '.' })
	return string(digits), end, parts
}

// groups returns the end of digit groups that begin with the digits from i to end: one separator
// throughout, groups of three (or of two before a last three, as in 12,34,567).
func (s *scanner) groups(i, end int) int {
	separator := s.at(end)
	if end-i > 3 || !strings.ContainsRune(",'’_\u00A0\u2009\u202F", separator) || separator == 0 {
		return end
	}
	last, size := end, 0
	for s.at(last) == separator {
		next := s.digitsEnd(last + 1)
		size = next - last - 1
		if size != 3 && !(size == 2 && separator == ',') {
			return end
		}
		last = next
	}
	if size != 3 || nameRune(s.at(last)) && separator == '_' {
		return end
	}
	return last
}

// items reads the digits between commas as numbers of their own.
func (s *scanner) items(i, end int) []number {
	var out []number
	for i < end {
		next := s.digitsEnd(i)
		value, unit := decimal(string(s.runes[i:next]))
		out = append(out, number{readings: []reading{{value, unit}}, integer: true})
		i = next + 1
	}
	return out
}

// chain reads digits with two points or more (a date, a version): each part is a number.
func (s *scanner) chain(i int) (int, bool) {
	var ends []int
	for end := s.digitsEnd(i); end > i; end = s.digitsEnd(end + 1) {
		ends = append(ends, end)
		if s.at(end) != '.' || !s.digitAt(end+1) {
			break
		}
	}
	if len(ends) < 3 {
		return i, false
	}
	for _, end := range ends {
		value, unit := decimal(string(s.runes[i:end]))
		s.emit(i, end, number{readings: []reading{{value, unit}}, integer: true})
		i = end + 1
	}
	return ends[len(ends)-1], true
}

// digitName recognises names that begin with digits: 2014_q4.csv, 3901.csv, 0x1F, 3D, 4e2f9a.
func (s *scanner) digitName(i, end int) (int, bool) {
	next := s.at(end)
	if next == '.' && unicode.IsLower(s.at(end+1)) && s.digitsEnd(i) == end {
		stop := end + 1
		for nameRune(s.at(stop)) {
			stop++
		}
		return stop, stop-end <= 6
	}
	if !nameRune(next) {
		return 0, false
	}
	stop := end
	for nameRune(s.at(stop)) {
		stop++
	}
	tail := string(s.runes[end:stop])
	switch {
	case tail == "D", tail == "G", next == '_':
	case strings.ContainsFunc(tail, digit):
		if (next == 'e' || next == 'E') && s.digitsEnd(end+1) == stop {
			return 0, false // 1e5
		}
	default:
		return 0, false
	}
	if s.at(stop) == '.' && unicode.IsLower(s.at(stop+1)) {
		for stop++; nameRune(s.at(stop)); {
			stop++
		}
	}
	return stop, true
}

// exponent reads e5, E-3, x 10^5 or ×10⁻³.
func (s *scanner) exponent(i int) (int, int, bool) {
	if !s.on(ruleScientific) {
		return 0, 0, false
	}
	j := i
	if r := s.at(i); r == 'e' || r == 'E' {
		j = i + 1
	} else {
		for s.at(j) == ' ' {
			j++
		}
		if !strings.ContainsRune("×x*·", s.at(j)) || s.at(j) == 0 {
			return 0, 0, false
		}
		for j++; s.at(j) == ' '; {
			j++
		}
		if s.at(j) != '1' || s.at(j+1) != '0' {
			return 0, 0, false
		}
		j += 2
		switch {
		case s.at(j) == '^':
			j++
		case s.at(j) == '*' && s.at(j+1) == '*':
			j += 2
		case superscript(s.at(j)) == 0:
			return 0, 0, false
		}
	}
	var digits strings.Builder
	for ; len(digits.String()) < 5; j++ {
		r := s.at(j)
		if t := superscript(r); t != 0 {
			r = t
		}
		switch {
		case digits.Len() == 0 && (r == '+' || minus(r)):
			digits.WriteRune(map[bool]rune{true: '+', false: '-'}[r == '+'])
			continue
		case digit(r):
			digits.WriteRune(r)
			continue
		}
		break
	}
	exponent, err := strconv.Atoi(digits.String())
	if err != nil || nameRune(s.at(j)) || exponent > 400 || exponent < -400 {
		return 0, 0, false
	}
	return exponent, j, true
}

// sign looks back from a number's first digit for a sign and a currency symbol.
func (s *scanner) sign(i int) (negative bool, start int) {
	start = i
	j := i - 1
	if unicode.Is(unicode.Sc, s.at(j)) && s.on(ruleCurrency) {
		start = j
		j--
	}
	r := s.at(j)
	if minus(r) && (r == '-' || s.on(ruleMinus)) {
		before := s.at(j - 1)
		joined := nameRune(before) || strings.ContainsRune(")]}%", before) || unicode.Is(unicode.Sc, before)
		if before == 0 || !joined || !s.on(ruleRanges) {
			return true, j
		}
	}
	if s.on(ruleMinus) && s.after(start, "minus") {
		return true, start
	}
	return false, start
}

// suffix reads what belongs to a number after its digits and returns where it ends.
func (s *scanner) suffix(n *number, end int) int {
	word, after := s.wordAt(end)
	switch word {
	case "st", "nd", "rd", "th":
		if s.on(ruleOrdinals) && after == end+2 {
			n.ordinal = true
			return after
		}
	case "s":
		return after // 1980s
	}
	if scale, ok := scales[word]; ok && s.on(ruleScale) && (after == end+len(word) || len(word) > 2) {
		r := n.readings[0]
		scaled := reading{new(big.Rat).Mul(r.value, scale), new(big.Rat).Mul(r.unit, scale)}
		if len(word) > 2 {
			n.readings[0] = scaled
		} else {
			n.readings = append(n.readings, scaled)
		}
		n.integer, end = false, after
	}
	return s.percentSign(n, end)
}

func (s *scanner) percentSign(n *number, end int) int {
	j := end
	for s.at(j) == ' ' || s.at(j) == '\u00A0' {
		j++
	}
	if s.at(j) == '%' || s.at(j) == '％' {
		n.percent = true
		return j + 1
	}
	word, after := s.wordAt(end)
	switch word {
	case "percent", "pct", "pp", "percentage":
		n.percent = true
		return after
	case "per":
		if next, stop := s.wordAt(after); next == "cent" {
			n.percent = true
			return stop
		}
	}
	return end
}

// wordAt is the lower-case word that begins at i, after at most one blank or hyphen.
func (s *scanner) wordAt(i int) (string, int) {
	if r := s.at(i); r == ' ' || r == '-' || r == '\u00A0' {
		i++
	}
	j := i
	for unicode.IsLetter(s.at(j)) {
		j++
	}
	if nameRune(s.at(j)) {
		return "", j
	}
	word := string(s.runes[i:j])
	if len(word) <= 2 {
		return word, j // k and M, m and B differ
	}
	return strings.ToLower(word), j
}

// decimal reads digits with at most one point.
func decimal(literal string) (value, unit *big.Rat) {
	value, unit = new(big.Rat), big.NewRat(1, 1)
	whole, fraction, _ := strings.Cut(literal, ".")
	if n, ok := new(big.Int).SetString("0"+whole+fraction, 10); ok {
		value.SetInt(n)
	}
	scaleBy(value, -len(fraction))
	scaleBy(unit, -len(fraction))
	return value, unit
}

func scaleBy(r *big.Rat, exponent int) {
	power := new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(abs(exponent))), nil))
	if exponent < 0 {
		power.Inv(power)
	}
	r.Mul(r, power)
}

func abs(n int) int { return max(n, -n) }

// exactly is a number in words: no digits, so nothing to round unless it is no whole number (a
// third of 33.3%). The copy keeps tables from changing.
func exactly(value *big.Rat) reading {
	unit := new(big.Rat)
	if !value.IsInt() {
		unit.SetFrac64(1, 100)
	}
	return reading{new(big.Rat).Set(value), unit}
}

func digit(r rune) bool { return r >= '0' && r <= '9' }

func nameRune(r rune) bool {
	return r == '_' || unicode.IsLetter(r) && !unblanked(r) || unicode.IsDigit(r) || unicode.IsMark(r)
}

func minus(r rune) bool { return r != 0 && strings.ContainsRune("-−–‒﹣－", r) }

func hyphen(r rune) bool { return r == '-' || r == '‐' || r == '‑' }

// asciiDigit maps a decimal digit of any script to ASCII.
func asciiDigit(r rune) rune {
	if r <= unicode.MaxASCII || !unicode.Is(unicode.Nd, r) {
		return r
	}
	for _, t := range unicode.Nd.R16 {
		if r >= rune(t.Lo) && r <= rune(t.Hi) {
			return '0' + (r-rune(t.Lo))%10
		}
	}
	for _, t := range unicode.Nd.R32 {
		if r >= rune(t.Lo) && r <= rune(t.Hi) {
			return '0' + (r-rune(t.Lo))%10
		}
	}
	return r
}

// superscript maps ⁰ to ⁹, ⁺ and ⁻ to ASCII, anything else to 0.
func superscript(r rune) rune {
	if i := slices.Index([]rune("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻"), r); i >= 0 {
		return rune("0123456789+-"[i])
	}
	return 0
}
