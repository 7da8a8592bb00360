package evidence

import (
	"math/big"
	"strings"
	"unicode"
)

var units = wordValues("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen", 0, 1)

var tens = wordValues("twenty thirty forty fifty sixty seventy eighty ninety", 20, 10)

var ordinals = wordValues("third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth twentieth", 3, 1)

// fractionWords are denominators, read as such after a number or before "of".
var fractionWords = map[string]int64{
	"half": 2, "halves": 2, "third": 3, "thirds": 3, "quarter": 4, "quarters": 4, "fourth": 4,
	"fourths": 4, "fifth": 5, "fifths": 5, "sixth": 6, "sixths": 6, "eighth": 8, "eighths": 8,
	"tenth": 10, "tenths": 10,
}

// relations say how one number relates to another.
var relations = map[string]*big.Rat{
	"twice": big.NewRat(2, 1), "double": big.NewRat(2, 1), "doubled": big.NewRat(2, 1),
	"doubles": big.NewRat(2, 1), "doubling": big.NewRat(2, 1), "twofold": big.NewRat(2, 1),
	"thrice": big.NewRat(3, 1), "triple": big.NewRat(3, 1), "tripled": big.NewRat(3, 1),
	"triples": big.NewRat(3, 1), "threefold": big.NewRat(3, 1), "quadruple": big.NewRat(4, 1),
	"quadrupled": big.NewRat(4, 1), "fourfold": big.NewRat(4, 1), "tenfold": big.NewRat(10, 1),
	"half": big.NewRat(1, 2), "halved": big.NewRat(1, 2), "halves": big.NewRat(1, 2),
}

// scales multiply the number before them. Two letters and fewer are also units (5 m, 5 B).
var scales = map[string]*big.Rat{
	"hundred": big.NewRat(100, 1), "thousand": big.NewRat(1000, 1), "million": big.NewRat(1_000_000, 1),
	"billion": big.NewRat(1_000_000_000, 1), "trillion": big.NewRat(1_000_000_000_000, 1),
	"k": big.NewRat(1000, 1), "K": big.NewRat(1000, 1), "M": big.NewRat(1_000_000, 1),
	"mn": big.NewRat(1_000_000, 1), "B": big.NewRat(1_000_000_000, 1), "bn": big.NewRat(1_000_000_000, 1),
}

var vulgarFractions = map[rune][2]int64{'½': {1, 2}, '¼': {1, 4}, '¾': {3, 4}, '⅓': {1, 3}, '⅔': {2, 3}}

// "one" is a pronoun after the first set and before the second.
var (
	oneAfter  = wordSet("no any every each this that the which another other first second last wrong right larger smaller")
	oneBefore = wordSet("of another can could should would will may might must has had is was who that with in to on at for and or the a")
)

// zeroAfter precede the zero that a value is compared with: "close to zero" says what a sign says.
var zeroAfter = wordSet("to from than above below near around exceeds")

func wordValues(list string, first, step int64) map[string]int64 {
	out := map[string]int64{}
	for i, w := range strings.Fields(list) {
		out[w] = first + int64(i)*step
	}
	return out
}

// word reads a name, a hyphenated name or a number word that begins at i, and returns its end.
func (s *scanner) word(i int) int {
	if end := s.numberWords(i); end > i {
		return end
	}
	end, digits := i, false
	for nameRune(s.at(end)) {
		digits = digits || s.digitAt(end)
		if s.digitAt(end) && !s.on(ruleNames) {
			return end
		}
		end++
	}
	if !s.on(ruleNames) {
		return end
	}
	for digits && s.at(end) == '.' && s.digitAt(end+1) {
		end = s.digitsEnd(end + 1) // v1.2
	}
	for hyphen(s.at(end)) && nameRune(s.at(end+1)) {
		stop := end + 1
		for nameRune(s.at(stop)) {
			stop++
		}
		if s.digitAt(end+1) && !s.shortDigits(end+1, stop) {
			break // fare-34.65 hides a number, COVID-19 does not
		}
		end = stop
	}
	return end
}

// shortDigits reports whether runes i to stop can be the number of a name: at most four digits, and
// no decimals or percent sign after them.
func (s *scanner) shortDigits(i, stop int) bool {
	return s.digitsEnd(i)-i <= 4 && !(s.at(stop) == '.' && s.digitAt(stop+1)) &&
		!(s.at(stop) == ',' && s.digitAt(stop+1)) && s.at(stop) != '%'
}

// numberWords reads a number in words; it returns i if there is none.
func (s *scanner) numberWords(i int) int {
	tokens := s.wordTokens(i)
	if len(tokens) == 0 {
		return i
	}
	first := tokens[0].text
	value, used := int64(0), 0
	if s.on(ruleWords) {
		value, used = wordNumber(tokens)
	}
	if used > 0 && s.on(ruleFractions) && used < len(tokens) {
		if den, ok := fractionWords[tokens[used].text]; ok && value > 0 && value < 20 {
			return s.emitWords(i, tokens, used+1, number{readings: []reading{exactly(big.NewRat(value, den))}, relation: den == 2})
		}
	}
	if used == 1 && s.on(rulePronouns) && (first == "one" && !s.countsOne(i, tokens) || first == "zero" && zeroAfter[s.wordBefore(i)]) {
		return i
	}
	if used > 0 {
		n := number{readings: []reading{exactly(big.NewRat(value, 1))}, integer: true}
		return s.emitWords(i, tokens, used, n)
	}
	if ratio, ok := relations[first]; ok && s.on(ruleFractions) && !s.after(i, "first", "second", "latter", "other", "lower", "upper") {
		return s.emitWords(i, tokens, 1, number{readings: []reading{exactly(ratio)}, relation: true})
	}
	if den, ok := fractionWords[first]; ok && s.on(ruleFractions) && len(tokens) > 1 && tokens[1].text == "of" && (s.after(i, "a", "one") || first == "third") {
		return s.emitWords(i, tokens, 1, number{readings: []reading{exactly(big.NewRat(1, den))}})
	}
	if n, ok := ordinals[first]; ok && s.on(ruleOrdinals) {
		return s.emitWords(i, tokens, 1, number{readings: []reading{exactly(big.NewRat(n, 1))}, ordinal: true, integer: true})
	}
	return i
}

type wordToken struct {
	text       string
	start, end int
	// hyphened: a hyphen joins it to the next letter or digit.
	hyphened bool
}

// wordTokens are the next few words, as far as single blanks and hyphens join them.
func (s *scanner) wordTokens(i int) []wordToken {
	var out []wordToken
	if hyphen(s.at(i-1)) && nameRune(s.at(i-2)) {
		return nil // the tail of a hyphenated name
	}
	for len(out) < 12 && unicode.IsLetter(s.at(i)) {
		j := i
		for unicode.IsLetter(s.at(j)) {
			j++
		}
		if nameRune(s.at(j)) {
			break
		}
		joined := hyphen(s.at(j)) && nameRune(s.at(j+1))
		out = append(out, wordToken{strings.ToLower(string(s.runes[i:j])), i, j, joined})
		if s.at(j) != ' ' && !joined {
			break
		}
		i = j + 1
	}
	return out
}

// emitWords adds the number that the first used tokens state, unless a hyphen makes them part of a
// name (two-sample). The scale or percent sign after them belongs to them.
func (s *scanner) emitWords(i int, tokens []wordToken, used int, n number) int {
	last := tokens[used-1]
	if last.hyphened && s.on(ruleNames) {
		if next, _ := s.wordAt(last.end); next != "percent" {
			return i
		}
	}
	start := i
	if s.on(ruleMinus) && s.after(i, "minus") {
		for _, r := range n.readings {
			r.value.Neg(r.value)
		}
	}
	end := s.percentSign(&n, last.end)
	s.emit(start, end, n)
	return end
}

// after reports whether one of the words stands right before rune i.
func (s *scanner) after(i int, list ...string) bool {
	before := s.wordBefore(i)
	for _, w := range list {
		if w == before {
			return true
		}
	}
	return false
}

func (s *scanner) wordBefore(i int) string {
	j := i - 1
	if s.at(j) != ' ' {
		return ""
	}
	k := j
	for unicode.IsLetter(s.at(k - 1)) {
		k--
	}
	return strings.ToLower(string(s.runes[k:j]))
}

// countsOne tells "one outlier" from "one of them" and "the larger one".
func (s *scanner) countsOne(i int, tokens []wordToken) bool {
	if oneAfter[s.wordBefore(i)] || len(tokens) < 2 && s.at(tokens[0].end) != ']' {
		return false
	}
	return len(tokens) < 2 || !oneBefore[tokens[1].text]
}

// wordNumber reads the longest number in words and how many tokens it takes.
func wordNumber(tokens []wordToken) (value int64, used int) {
	var total, current int64
	last := "" // kind of the word before: unit, ten, hundred, scale
	for k := 0; k < len(tokens); k++ {
		w := tokens[k].text
		unit, isUnit := units[w]
		ten, isTen := tens[w]
		scale, isScale := scales[w]
		open := last == "" || last == "hundred" || last == "scale"
		switch {
		case isUnit && (open || last == "ten" && unit > 0 && unit < 10):
			current, last = current+unit, "unit"
		case isTen && open:
			current, last = current+ten, "ten"
		case w == "hundred" && last == "unit" && current%100 < 20:
			current, last = current*100, "hundred"
		case isScale && w != "hundred" && len(w) > 2 && current > 0:
			total, current, last = total+current*scale.Num().Int64(), 0, "scale"
		case w == "dozen" && last == "unit":
			current, last = current*12, "dozen"
		case (w == "a" || w == "an") && k == 0 && len(tokens) > 1 && (scales[tokens[1].text] != nil || tokens[1].text == "dozen"):
			current, last = 1, "unit"
			continue // "a" alone is no number
		case w == "and" && (last == "hundred" || last == "scale") && k+1 < len(tokens) && (units[tokens[k+1].text] > 0 || tens[tokens[k+1].text] > 0):
			continue
		default:
			return total + current, used
		}
		used = k + 1
		if unit == 0 && isUnit {
			break // zero takes nothing after it
		}
	}
	return total + current, used
}
