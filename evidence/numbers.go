package evidence

import (
	"math/big"
	"slices"
)

// The number rule: a text may state only numbers that what it rests on holds. Extraction
// (numberscan.go, numberwords.go) finds the numbers of a text, matching (numbermatch.go) compares
// them. Every rule is a bit, so that a test can switch it off and see what it is there for.
type ruleSet uint32

// Rules of extraction.
const (
	// ruleNames: digits inside identifiers and hyphenated names (Q3, x1, COVID-19, two-sample,
	// 2014_q4.csv) are names.
	ruleNames ruleSet = 1 << iota
	// ruleMinus: a typographic minus (U+2212 and its kin) and the word minus are signs.
	ruleMinus
	// ruleRanges: the dash in 5-10 is no sign.
	ruleRanges
	// ruleThousands: 1,234,567 and its kin are one number.
	ruleThousands
	// ruleScientific: 1e5 and 1.2 x 10^5.
	ruleScientific
	// ruleScale: 1.2 million, 5k.
	ruleScale
	// ruleCurrency: a sign stands before or after the currency symbol (-$5).
	ruleCurrency
	// ruleWords: zero to ninety-nine, hundred, thousand, million, dozen.
	ruleWords
	// ruleOrdinals: 3rd, third.
	ruleOrdinals
	// ruleFractions: half, a third of, three quarters, twice, doubled.
	ruleFractions
	// rulePronouns: "one" may be a pronoun, and "zero" the mark that a value is compared with.
	rulePronouns

	// Rules of matching.

	// ruleEqual: a premise that holds the same number holds it.
	ruleEqual
	// ruleQuestion: numbers of the question are given.
	ruleQuestion
	// ruleNews: a number that nothing holds is new.
	ruleNews
	// ruleRounding: equal after rounding to the digits that the text shows; half up and half to
	// even are both right.
	ruleRounding
	// rulePercent: 36.45% is 0.3645.
	rulePercent
	// ruleDirection: "fell by 5.2" states -5.2, and the other way round.
	ruleDirection
	// ruleCount: the number of listed items or of premises.
	ruleCount
	// ruleYears: a year stands inside a date, a range or a name (2014_q4.csv, 1990-91).
	ruleYears
	// ruleRatio: twice, half and the like may state how two numbers relate.
	ruleRatio

	allRules = ruleRatio<<1 - 1
)

// givenRules decide whether a bound value stands in the question: the same number, not one that
// the question merely could be read to imply.
const givenRules = allRules &^ (ruleRounding | ruleDirection | ruleCount | ruleYears | ruleRatio | ruleFractions | ruleOrdinals)

// reading is one way to read a number: its value, and the worth of one unit of its last digit.
type reading struct {
	value, unit *big.Rat
}

// number is a number in a text, at bytes start to end.
type number struct {
	text       string
	start, end int
	readings   []reading
	// parts are the items when commas may separate a list instead of thousands.
	parts   []number
	percent bool
	ordinal bool
	// relation: a word such as twice, that may relate two numbers.
	relation bool
	// integer: written without decimals, exponent or scale.
	integer bool
}

// NewNumbers returns the numbers of text, as written and each once, that neither the premises nor
// the question hold: up to rounding to the text's own digits, percent and fraction, thousands
// separators, number words, counts of listed items, and years. Digits inside names are no numbers.
func NewNumbers(text string, premises []string, question string) []string {
	return allRules.newNumbers(text, nil, allRules.pool(premises, question, text))
}

// newNumbers checks the numbers of text that own selects (nil: all) against the pools.
func (rules ruleSet) newNumbers(text string, own func(number) bool, pools ...*numberPool) []string {
	var out []string
	for _, n := range rules.scan(text) {
		if own != nil && !own(n) || slices.Contains(out, n.text) {
			continue
		}
		held := slices.ContainsFunc(pools, func(p *numberPool) bool { return p.holds(n) })
		if !held && len(n.parts) > 0 {
			held = !slices.ContainsFunc(n.parts, func(part number) bool {
				return !slices.ContainsFunc(pools, func(p *numberPool) bool { return p.holds(part) })
			})
		}
		if !held && rules&ruleNews != 0 {
			out = append(out, n.text)
		}
	}
	return out
}

func (rules ruleSet) hasNumber(text string) bool { return len(rules.scan(text)) > 0 }
