package evidence

import (
	"slices"
	"strings"
	"testing"
)

// numberCase names the rule that decides it: with that rule off the answer must differ, unless the
// rule is 0 (plain comparison).
type numberCase struct {
	name     string
	rule     ruleSet
	text     string
	premises []string
	question string
	want     []string
}

var numberCases = []numberCase{
	// Plain comparison.
	{"the same decimal", 0, "The mean is 34.65.", []string{"mean fare 34.65"}, "", nil},
	{"the same integer", 0, "There are 715 rows.", []string{"715 passengers"}, "", nil},
	{"a number of the question", 0, "It is below 0.05.", []string{"p is low"}, "Use alpha 0.05.", nil},
	{"a number from nowhere", 0, "The mean is 34.65.", []string{"mean fare is known"}, "", []string{"34.65"}},
	{"two from nowhere in order", 0, "From 3.25 to 7.75.", []string{"5.5"}, "", []string{"3.25", "7.75"}},
	{"each new number once", 0, "9.5 and 9.5", []string{"8"}, "", []string{"9.5"}},
	{"an answer in brackets", 0, "@mean_fare[34.65]", []string{"The mean is 34.65."}, "", nil},
	{"an invented answer in brackets", 0, "@mean_fare[99.9]", []string{"The mean is 34.65."}, "", []string{"99.9"}},
	{"no number at all", 0, "The groups differ.", []string{"p = 0.01"}, "", nil},
	{"trailing zeros", 0, "34.650", []string{"34.65"}, "", nil},
	{"a leading point", 0, "r is .25", []string{"r = 0.25"}, "", nil},
	{"a negative number", 0, "r = -0.868", []string{"r is -0.868"}, "", nil},
	{"a sign that no premise has", 0, "r = -0.868", []string{"r is 0.868"}, "", []string{"-0.868"}},
	{"a lost sign", 0, "The coefficient is 0.868.", []string{"The coefficient is -0.868."}, "", []string{"0.868"}},
	{"parts of a date", 0, "on 2015-03-07", []string{"day 2015-03-07"}, "", nil},
	{"parts of a dotted date", 0, "on 07.03.2015", []string{"2015, 3 and 7"}, "", nil},
	{"a time", 0, "at 12:30:45", []string{"12 30 45"}, "", nil},
	{"digits with a unit", 0, "5.5km away", []string{"5.5 km"}, "", nil},
	{"a number before a hyphenated word", 0, "a 7-fold split", []string{"5"}, "", []string{"7"}},
	{"a number hidden behind a hyphen", 0, "the fare-34.65 case", []string{"5"}, "", []string{"34.65"}},
	{"digits of another script", 0, "３４", []string{"the value 34"}, "", nil},

	// Names.
	{"a quarter name", ruleNames, "Sales rose in Q3.", []string{"Sales rose."}, "", nil},
	{"a variable name", ruleNames, "x1 matters most.", []string{"it matters"}, "", nil},
	{"a hyphenated name", ruleNames, "COVID-19 cases rose.", []string{"cases rose"}, "", nil},
	{"a metric name", ruleNames, "@r2_score[0.91]", []string{"score 0.91"}, "", nil},
	{"a file name that begins with digits", ruleNames, "from 3901.csv", []string{"the file"}, "", nil},
	{"a table name that begins with digits", ruleNames, "from 2014_q4.csv", []string{"the file"}, "", nil},
	{"a two-sample test", ruleNames, "A two-sample test rejects equality.", []string{"the test rejects equality"}, "", nil},
	{"a version", ruleNames, "with v1.2 of it", []string{"with it"}, "", nil},
	{"3D", ruleNames, "a 3D plot", []string{"a plot"}, "", nil},
	{"a hash", ruleNames, "commit 4f2a9c", []string{"the commit"}, "", nil},

	// Signs and ranges.
	{"a typographic minus", ruleMinus, "r = \u22120.868", []string{"r = -0.868"}, "", nil},
	{"minus as a word", ruleMinus, "minus 5", []string{"5 units"}, "", []string{"5"}},
	{"a typographic minus that no premise has", ruleMinus, "r = \u22120.868", []string{"r = 0.868"}, "", []string{"\u22120.868"}},
	{"a range", ruleRanges, "ages 5-10", []string{"from 5 to 10"}, "", nil},
	{"a range of years", ruleRanges, "1990-1995", []string{"1990 1995"}, "", nil},

	// Separators, powers and scales.
	{"thousands with commas", ruleThousands, "1,234,567 rows", []string{"1234567 rows"}, "", nil},
	{"thousands in the premise", ruleThousands, "1234567 rows", []string{"1,234,567 rows"}, "", nil},
	{"thousands with decimals", ruleThousands, "1,234.50", []string{"1234.5"}, "", nil},
	{"thousands with thin blanks", ruleThousands, "1\u202F234\u202F567", []string{"1234567"}, "", nil},
	{"Indian grouping", ruleThousands, "12,34,567", []string{"1234567"}, "", nil},
	{"a list without blanks", 0, "[100,200,300]", []string{"100 and 200 and 300"}, "", nil},
	{"a list with one invented item", ruleThousands, "[100,250,300]", []string{"100 and 200 and 300"}, "", []string{"100,250,300"}},
	{"scientific notation", ruleScientific, "1.2e-5", []string{"0.000012"}, "", nil},
	{"scientific notation in the premise", ruleScientific, "0.000012", []string{"1.2E-05"}, "", nil},
	{"a power of ten", ruleScientific, "1.2 × 10^5", []string{"120000"}, "", nil},
	{"a power of ten in superscript", ruleScientific, "1.2×10⁻³", []string{"0.0012"}, "", nil},
	{"million", ruleScale, "1.2 million people", []string{"1234567 people"}, "", nil},
	{"k", ruleScale, "12k rows", []string{"12034 rows"}, "", nil},
	{"a million that no premise has", ruleScale, "3 million people", []string{"3 people"}, "", []string{"3 million"}},
	{"a currency sign", ruleCurrency, "a change of -$5.20", []string{"-5.20"}, "", nil},
	{"a currency sign without a minus", 0, "$1,200", []string{"1200 USD"}, "", nil},

	// Words.
	{"a number word", ruleWords, "seven outliers", []string{"5 outliers"}, "", []string{"seven"}},
	{"a number word that the premise has in digits", 0, "seven outliers", []string{"7 outliers"}, "", nil},
	{"digits that the premise has in words", ruleWords, "7 outliers", []string{"seven outliers"}, "", nil},
	{"a compound", ruleWords, "21 rows", []string{"twenty-one rows"}, "", nil},
	{"hundreds", ruleWords, "305 rows", []string{"three hundred and five rows"}, "", nil},
	{"thousands in words", ruleWords, "12000 rows", []string{"twelve thousand rows"}, "", nil},
	{"a dozen", ruleWords, "12 rows", []string{"a dozen rows"}, "", nil},
	{"one as a number", ruleWords, "There is one outlier.", []string{"There are 5 outliers."}, "", []string{"one"}},
	{"one as a pronoun", 0, "The second one is larger than the first one, no one knows.", []string{"x is larger"}, "", nil},
	{"zero as a number", ruleWords, "There are zero outliers.", []string{"some outliers"}, "", []string{"zero"}},
	{"zero as a mark", 0, "The slope is different from zero.", []string{"slope 0.81"}, "", nil},
	{"percent in words", ruleWords, "0.5", []string{"fifty percent"}, "", nil},
	{"an ordinal", ruleOrdinals, "France ranks 3rd.", []string{"France ranks third."}, "", nil},
	{"an ordinal from nowhere", ruleOrdinals, "It ranks fifth.", []string{"It ranks well."}, "", []string{"fifth"}},
	{"a fraction in words", ruleFractions, "0.75", []string{"three quarters of the rows"}, "", nil},
	{"half from nowhere", ruleFractions, "half of the rows", []string{"some rows"}, "", []string{"half"}},
	{"half of a premise in percent", 0, "half of the rows", []string{"50% of the rows"}, "", nil},
	{"a third", ruleFractions, "a third of the rows", []string{"33.3% of the rows"}, "", nil},

	// Rounding.
	{"rounded", ruleRounding, "about 34.7", []string{"34.6512"}, "", nil},
	{"half up", ruleRounding, "130.48", []string{"130.475"}, "", nil},
	{"half to even", ruleRounding, "130.47", []string{"130.475"}, "", nil},
	{"rounded to a whole number", ruleRounding, "about 35", []string{"34.65"}, "", nil},
	{"more digits than the premise", 0, "34.6543", []string{"34.65"}, "", []string{"34.6543"}},
	{"off by more than rounding", 0, "34.6", []string{"34.66"}, "", []string{"34.6"}},
	{"a fraction is not rounded to one", 0, "There is 1 case.", []string{"accuracy 0.61"}, "", []string{"1"}},
	{"a tiny p value", ruleRounding, "p = 0.0000", []string{"p = 3.1e-12"}, "", nil},

	// Percent.
	{"percent of a fraction", rulePercent, "36.45% are missing", []string{"the share is 0.3645"}, "", nil},
	{"fraction of a percent", rulePercent, "the share is 0.3645", []string{"36.45% are missing"}, "", nil},
	{"percent rounded", rulePercent, "36% are missing", []string{"the share is 0.3645"}, "", nil},
	{"percent without a sign where the text speaks of it", rulePercent, "@percentage_missing[36.45]", []string{"the share is 0.3645"}, "", nil},
	{"no hundredfold without percent", 0, "the sum is 36.45", []string{"the sum is 0.3645"}, "", []string{"36.45"}},
	{"percent that the premise has without a sign", 0, "36.45%", []string{"36.45 of 100"}, "", nil},

	// Direction words.
	{"a fall", ruleDirection, "Sales fell by 5.2.", []string{"the change is -5.2"}, "", nil},
	{"a negative change from a fall", ruleDirection, "The change is -5.2.", []string{"sales declined by 5.2"}, "", nil},

	// Counts.
	{"the number of listed items", ruleCount, "The three columns are complete.", []string{"age, sex and fare are complete"}, "", nil},
	{"the length of a list", ruleCount, "4 outliers", []string{"outliers [1.25, 2.25, 7.75, 9.25]"}, "", nil},
	{"an empty list", ruleCount, "0 outliers", []string{"outliers []"}, "", nil},
	{"the number of premises", ruleCount, "Both of the two facts hold.", []string{"fact", "other fact"}, "", nil},
	{"a count that nothing lists", 0, "The six columns are complete.", []string{"age, sex and fare are complete"}, "", []string{"six"}},

	// Years.
	{"a year inside a name", ruleYears, "In 2014 it rose.", []string{"2014_q4.csv shows a rise"}, "", nil},
	{"a short year of a range", ruleYears, "the season ended in 1991", []string{"season 1990-91"}, "", nil},
	{"a decade", ruleYears, "the 1980s", []string{"FY1980 data"}, "", nil},
	{"a year from nowhere", 0, "In 2016 it rose.", []string{"2014_q4.csv shows a rise"}, "", []string{"2016"}},

	// Ratios.
	{"twice", ruleRatio, "B is twice A.", []string{"A = 5", "B = 10"}, "", nil},
	{"doubled that is not so", 0, "It doubled.", []string{"A = 5", "B = 9"}, "", []string{"doubled"}},
}

func TestNumberRuleDecidesEveryPairOfTheTable(t *testing.T) {
	t.Parallel()
	if len(numberCases) < 70 {
		t.Fatalf("the table has %d pairs", len(numberCases))
	}
	for _, c := range numberCases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := NewNumbers(c.text, c.premises, c.question); !slices.Equal(got, c.want) {
				t.Errorf("NewNumbers(%q, %q, %q) = %q, want %q", c.text, c.premises, c.question, got, c.want)
			}
		})
	}
}

func TestEachNumberRuleDecidesItsNamedCases(t *testing.T) {
	t.Parallel()
	tested := ruleSet(0)
	for _, c := range numberCases {
		if c.rule == 0 {
			continue
		}
		tested |= c.rule
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			off := allRules &^ c.rule
			got := off.newNumbers(c.text, nil, off.pool(c.premises, c.question, c.text))
			if slices.Equal(got, c.want) {
				t.Errorf("without its rule the answer is still %q", got)
			}
		})
	}
	if tested != allRules {
		t.Errorf("rules without a case: %b", allRules&^tested)
	}
}

func TestNumberRuleBoundsTheCostOfLongTexts(t *testing.T) {
	t.Parallel()
	digits := strings.Repeat("9", 2000)
	if got := NewNumbers(digits, []string{strings.Repeat("8", 2000), "1e400 1e-400"}, ""); len(got) != 1 {
		t.Errorf("a long number is not one new number: %d", len(got))
	}
	if got := NewNumbers("1e999999999", []string{"5"}, ""); len(got) == 0 {
		t.Error("a huge exponent is excused")
	}
	list := strings.Repeat("1 2 3 4 5 ", 200)
	if got := NewNumbers(list, []string{list}, list); got != nil {
		t.Errorf("equal texts differ: %q", got)
	}
}
