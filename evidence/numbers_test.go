package evidence

import (
	"slices"
	"strings"
	"testing"
)

// numberCase names the rule that decides it: with that rule off the answer must differ.
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
	{"the same decimal", ruleEqual, "The mean is 34.65.", []string{"mean fare 34.65"}, "", nil},
	{"the same integer", ruleEqual, "There are 715 rows.", []string{"715 passengers"}, "", nil},
	{"a number of the question", ruleQuestion, "It is below 0.05.", []string{"p is low"}, "Use alpha 0.05.", nil},
	{"a number from nowhere", ruleNews, "The mean is 34.65.", []string{"mean fare is known"}, "", []string{"34.65"}},
	{"two from nowhere in order", ruleNews, "From 3.25 to 7.75.", []string{"5.5"}, "", []string{"3.25", "7.75"}},
	{"each new number once", ruleNews, "9.5 and 9.5", []string{"8"}, "", []string{"9.5"}},
	{"an answer in brackets", ruleEqual, "@mean_fare[34.65]", []string{"The mean is 34.65."}, "", nil},
	{"an invented answer in brackets", ruleNews, "@mean_fare[99.9]", []string{"The mean is 34.65."}, "", []string{"99.9"}},
	{"trailing zeros", ruleEqual, "34.650", []string{"34.65"}, "", nil},
	{"a leading point", ruleEqual, "r is .25", []string{"r = 0.25"}, "", nil},
	{"a negative number", ruleEqual, "r = -0.868", []string{"r is -0.868"}, "", nil},
	{"a sign that no premise has", ruleNews, "r = -0.868", []string{"r is 0.868"}, "", []string{"-0.868"}},
	{"a lost sign", ruleNews, "The coefficient is 0.868.", []string{"The coefficient is -0.868."}, "", []string{"0.868"}},
	{"parts of a date", ruleEqual, "on 2015-03-07", []string{"day 2015-03-07"}, "", nil},
	{"parts of a dotted date", ruleEqual, "on 07.03.2015", []string{"2015, 3 and 7"}, "", nil},
	{"a time", ruleEqual, "at 12:30:45", []string{"12 30 45"}, "", nil},
	{"digits with a unit", ruleEqual, "5.5km away", []string{"5.5 km"}, "", nil},
	{"a number before a hyphenated word", ruleNews, "a 7-fold split", []string{"5"}, "", []string{"7"}},
	{"a number hidden behind a hyphen", ruleNews, "the fare-34.65 case", []string{"5"}, "", []string{"34.65"}},
	{"digits of another script", ruleEqual, "３４", []string{"the value 34"}, "", nil},

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
	{"a list without blanks", ruleEqual, "[100,200,300]", []string{"100 and 200 and 300"}, "", nil},
	{"a list with one invented item", ruleThousands, "[100,250,300]", []string{"100 and 200 and 300"}, "", []string{"100,250,300"}},
	{"scientific notation", ruleScientific, "1.2e-5", []string{"0.000012"}, "", nil},
	{"scientific notation in the premise", ruleScientific, "0.000012", []string{"1.2E-05"}, "", nil},
	{"a power of ten", ruleScientific, "1.2 × 10^5", []string{"120000"}, "", nil},
	{"a power of ten in superscript", ruleScientific, "1.2×10⁻³", []string{"0.0012"}, "", nil},
	{"million", ruleScale, "1.2 million people", []string{"1234567 people"}, "", nil},
	{"k", ruleScale, "12k rows", []string{"12034 rows"}, "", nil},
	{"a million that no premise has", ruleScale, "3 million people", []string{"3 people"}, "", []string{"3 million"}},
	{"a currency sign", ruleCurrency, "a change of -$5.20", []string{"-5.20"}, "", nil},
	{"a currency sign without a minus", ruleEqual, "$1,200", []string{"1200 USD"}, "", nil},

	// Words.
	{"a number word", ruleWords, "seven outliers", []string{"5 outliers"}, "", []string{"seven"}},
	{"a number word that the premise has in digits", ruleEqual, "seven outliers", []string{"7 outliers"}, "", nil},
	{"digits that the premise has in words", ruleWords, "7 outliers", []string{"seven outliers"}, "", nil},
	{"a compound", ruleWords, "21 rows", []string{"twenty-one rows"}, "", nil},
	{"hundreds", ruleWords, "305 rows", []string{"three hundred and five rows"}, "", nil},
	{"thousands in words", ruleWords, "12000 rows", []string{"twelve thousand rows"}, "", nil},
	{"a dozen", ruleWords, "12 rows", []string{"a dozen rows"}, "", nil},
	{"one as a number", ruleWords, "There is one outlier.", []string{"There are 5 outliers."}, "", []string{"one"}},
	{"one as a pronoun", rulePronouns, "The second one is larger than the first one, no one knows.", []string{"x is larger"}, "", nil},
	{"zero as a number", ruleWords, "There are zero outliers.", []string{"some outliers"}, "", []string{"zero"}},
	{"zero as a mark", rulePronouns, "The slope is different from zero.", []string{"slope 0.81"}, "", nil},
	{"percent in words", ruleWords, "0.5", []string{"fifty percent"}, "", nil},
	{"an ordinal", ruleOrdinals, "France ranks 3rd.", []string{"France ranks third."}, "", nil},
	{"an ordinal from nowhere", ruleOrdinals, "It ranks fifth.", []string{"It ranks well."}, "", []string{"fifth"}},
	{"a fraction in words", ruleFractions, "0.75", []string{"three quarters of the rows"}, "", nil},
	{"half from nowhere", ruleFractions, "half of the rows", []string{"some rows"}, "", []string{"half"}},
	{"half of a premise in percent", rulePercent, "half of the rows", []string{"50% of the rows"}, "", nil},
	{"a third", ruleFractions, "a third of the rows", []string{"33.3% of the rows"}, "", nil},

	// Rounding.
	{"rounded", ruleRounding, "about 34.7", []string{"34.6512"}, "", nil},
	{"half up", ruleRounding, "130.48", []string{"130.475"}, "", nil},
	{"half to even", ruleRounding, "130.47", []string{"130.475"}, "", nil},
	{"rounded to a whole number", ruleRounding, "about 35", []string{"34.65"}, "", nil},
	{"more digits than the premise", ruleNews, "34.6543", []string{"34.65"}, "", []string{"34.6543"}},
	{"off by more than rounding", ruleNews, "34.6", []string{"34.66"}, "", []string{"34.6"}},
	{"a fraction is not rounded to one", ruleNews, "There is 1 case.", []string{"accuracy 0.61"}, "", []string{"1"}},
	{"a tiny p value", ruleRounding, "p = 0.0000", []string{"p = 3.1e-12"}, "", nil},

	// Percent.
	{"percent of a fraction", rulePercent, "36.45% are missing", []string{"the share is 0.3645"}, "", nil},
	{"fraction of a percent", rulePercent, "the share is 0.3645", []string{"36.45% are missing"}, "", nil},
	{"percent rounded", rulePercent, "36% are missing", []string{"the share is 0.3645"}, "", nil},
	{"percent without a sign where the text speaks of it", rulePercent, "@percentage_missing[36.45]", []string{"the share is 0.3645"}, "", nil},
	{"no hundredfold without percent", ruleNews, "the sum is 36.45", []string{"the sum is 0.3645"}, "", []string{"36.45"}},
	{"percent that the premise has without a sign", ruleEqual, "36.45%", []string{"36.45 of 100"}, "", nil},

	// Direction words.
	{"a fall", ruleDirection, "Sales fell by 5.2.", []string{"the change is -5.2"}, "", nil},
	{"a negative change from a fall", ruleDirection, "The change is -5.2.", []string{"sales declined by 5.2"}, "", nil},

	// Counts.
	{"the number of listed items", ruleCount, "The three columns are complete.", []string{"age, sex and fare are complete"}, "", nil},
	{"the length of a list", ruleCount, "4 outliers", []string{"outliers [1.25, 2.25, 7.75, 9.25]"}, "", nil},
	{"an empty list", ruleCount, "0 outliers", []string{"outliers []"}, "", nil},
	{"the number of premises", ruleCount, "Both of the two facts hold.", []string{"fact", "other fact"}, "", nil},
	{"a count that nothing lists", ruleNews, "The six columns are complete.", []string{"age, sex and fare are complete"}, "", []string{"six"}},

	// Years.
	{"a year inside a name", ruleYears, "In 2014 it rose.", []string{"2014_q4.csv shows a rise"}, "", nil},
	{"a short year of a range", ruleYears, "the season ended in 1991", []string{"season 1990-91"}, "", nil},
	{"a decade", ruleYears, "the 1980s", []string{"FY1980 data"}, "", nil},
	{"a year from nowhere", ruleNews, "In 2016 it rose.", []string{"2014_q4.csv shows a rise"}, "", []string{"2016"}},

	// Ratios.
	{"twice", ruleRatio, "B is twice A.", []string{"A = 5", "B = 10"}, "", nil},
	{"doubled that is not so", ruleNews, "It doubled.", []string{"A = 5", "B = 9"}, "", []string{"doubled"}},

	// Rounding, more of it.
	{"a percent rounded to a whole", ruleRounding, "about 85%", []string{"85.4%"}, "", nil},
	{"a negative rounded", ruleRounding, "r = -0.87", []string{"r = -0.8683"}, "", nil},
	{"rounded away from the truth", ruleNews, "about 34.5", []string{"34.6512"}, "", []string{"34.5"}},
	{"rounded to tens is another number", ruleNews, "about 30", []string{"34.65"}, "", []string{"30"}},
	{"truncated instead of rounded", ruleNews, "34.6", []string{"34.69"}, "", []string{"34.6"}},
	{"rounded in the premise already", ruleNews, "34.6512", []string{"34.7"}, "", []string{"34.6512"}},
	{"more trailing zeros than the premise", ruleEqual, "0.500", []string{"0.5"}, "", nil},
	{"a rounded thousand with separators", ruleThousands, "1,235 rows", []string{"1234.6 rows"}, "", nil},

	// Percent and fraction.
	{"a fraction in percent to one decimal", rulePercent, "12.3% of the rows", []string{"a share of 0.1234"}, "", nil},
	{"percent as a word", rulePercent, "36 percent are missing", []string{"the share is 0.36"}, "", nil},
	{"per cent in two words", rulePercent, "36 per cent are missing", []string{"the share is 0.36"}, "", nil},
	{"percentage points", rulePercent, "a gap of 4 percentage points", []string{"a gap of 0.04"}, "", nil},
	{"the whole as a hundred percent", rulePercent, "100% of the rows", []string{"the share is 1.0"}, "", nil},
	{"a negative percent", rulePercent, "a change of -5.5%", []string{"a change of -0.055"}, "", nil},
	{"a percent that is another share", ruleNews, "37% are missing", []string{"the share is 0.3645"}, "", []string{"37%"}},
	{"a share above one from a percent", rulePercent, "a factor of 1.5", []string{"150% of it"}, "", nil},

	// Sign and typographic minus.
	{"an en dash as minus", ruleMinus, "r = –0.868", []string{"r = -0.868"}, "", nil},
	{"a full-width minus", ruleMinus, "r = －0.5", []string{"r = -0.5"}, "", nil},
	{"a minus in brackets", ruleEqual, "(-3.2)", []string{"the slope is -3.2"}, "", nil},
	{"a plus sign", ruleEqual, "+3.2", []string{"the slope is 3.2"}, "", nil},
	{"a typographic minus in the premise", ruleMinus, "r = -0.868", []string{"r = \u2212" + "0.868"}, "", nil},
	{"an absolute value", ruleDirection, "its absolute value is 0.868", []string{"r = -0.868"}, "", nil},
	{"a drop in percent", ruleDirection, "a drop of 12%", []string{"the change is -12%"}, "", nil},
	{"a loss", ruleDirection, "a loss of 300", []string{"the profit is -300"}, "", nil},

	// Thousands separators.
	{"thousands with apostrophes", ruleThousands, "1'234'567", []string{"1234567"}, "", nil},
	{"thousands with no-break blanks", ruleThousands, "1\u00A0234\u00A0567", []string{"1234567"}, "", nil},
	{"thousands with a currency", ruleThousands, "$1,234,567.89", []string{"1234567.89"}, "", nil},
	{"a separator that is none", ruleNews, "1,23", []string{"123"}, "", []string{"1", "23"}},
	{"another number behind the separators", ruleNews, "1,234,568 rows", []string{"1234567 rows"}, "", []string{"1,234,568"}},

	// Scientific notation and scales.
	{"a capital E", ruleScientific, "3.4E+02", []string{"340"}, "", nil},
	{"a power with two stars", ruleScientific, "2 * 10**6", []string{"2000000"}, "", nil},
	{"a power with an x", ruleScientific, "5 x 10^-4", []string{"0.0005"}, "", nil},
	{"an exponent rounded", ruleScientific, "1.2e-05", []string{"0.00001234"}, "", nil},
	{"another exponent", ruleNews, "1.2e-5", []string{"1.2e-4"}, "", []string{"1.2e-5"}},
	{"billion", ruleScale, "3.2 billion", []string{"3200000000"}, "", nil},
	{"bn", ruleScale, "3.2bn", []string{"3200000000"}, "", nil},
	{"M for million", ruleScale, "5M rows", []string{"5000000 rows"}, "", nil},
	{"thousand in the premise", ruleScale, "12000 rows", []string{"12 thousand rows"}, "", nil},

	// Units and currency.
	{"a unit after a blank", ruleEqual, "5.5 km", []string{"5.5km"}, "", nil},
	{"degrees", ruleEqual, "21.5°C", []string{"21.5 degrees"}, "", nil},
	{"a euro sign", ruleEqual, "€34.65", []string{"34.65 EUR"}, "", nil},
	{"a pound sign behind", ruleEqual, "34.65£", []string{"34.65"}, "", nil},
	{"a negative amount", ruleCurrency, "a balance of -€5.20", []string{"-5.20"}, "", nil},
	{"an amount from nowhere", ruleNews, "$99.90", []string{"34.65 USD"}, "", []string{"$99.90"}},

	// Ranges, years and dates.
	{"a range with an en dash", ruleRanges, "ages 5–10", []string{"from 5 to 10"}, "", nil},
	{"a range of decimals", ruleRanges, "0.2-0.4", []string{"0.2 and 0.4"}, "", nil},
	{"a range with one end from nowhere", ruleNews, "ages 5-12", []string{"from 5 to 10"}, "", []string{"12"}},
	{"a year of a file's name", ruleYears, "in 2015", []string{"file_2015_01.csv"}, "", nil},
	{"a year after a slash", ruleYears, "in 1991", []string{"season 1990/91"}, "", nil},
	{"a year of the question", ruleQuestion, "in 2015", []string{"sales rose"}, "How were sales in 2015?", nil},
	{"a day that no premise has", ruleNews, "on 2015-03-08", []string{"on 2015-03-07"}, "", []string{"08"}},
	{"a dotted date of another year", ruleNews, "on 07.03.2016", []string{"on 07.03.2015"}, "", []string{"2016"}},

	// Ordinals and number words.
	{"an ordinal with a suffix", ruleOrdinals, "ranked 2nd", []string{"age, sex and fare are ranked"}, "", nil},
	{"an ordinal among listed items", ruleCount, "the third column", []string{"age, sex and fare"}, "", nil},
	{"an ordinal beyond the list", ruleNews, "the 21st row", []string{"row twenty"}, "", []string{"21st"}},
	{"a compound from nowhere", ruleWords, "ninety-nine rows", []string{"98 rows"}, "", []string{"ninety-nine"}},
	{"a hundred", ruleWords, "100 rows", []string{"one hundred rows"}, "", nil},
	{"two million in words", ruleWords, "2000000 people", []string{"two million people"}, "", nil},
	{"a word that is another number", ruleNews, "eight outliers", []string{"7 outliers"}, "", []string{"eight"}},
	{"one of them", rulePronouns, "one of them is larger", []string{"A is larger than B"}, "", nil},
	{"above zero", rulePronouns, "The slope lies above zero.", []string{"slope 0.81"}, "", nil},

	// Fractions and ratios.
	{"doubled", ruleRatio, "Sales doubled.", []string{"sales of 50", "sales of 100"}, "", nil},
	{"half of another", ruleRatio, "A is half of B.", []string{"A = 5", "B = 10"}, "", nil},
	{"about half", rulePercent, "about half of the rows", []string{"the share is 50%"}, "", nil},
	{"about half that is not", ruleNews, "about half of the rows", []string{"the share is 0.31"}, "", []string{"half"}},
	{"tripled", ruleRatio, "It tripled.", []string{"from 4.1 to 12.3"}, "", nil},
	{"two thirds", ruleFractions, "two thirds of the rows", []string{"66.7% of the rows"}, "", nil},
	{"a vulgar fraction", ruleFractions, "½ of the rows", []string{"some rows"}, "", []string{"½"}},

	// Counts.
	{"a count of an enumeration with or", ruleCount, "two options", []string{"red or blue"}, "", nil},
	{"a count of premises", ruleCount, "all three facts", []string{"a fact", "another", "a last one"}, "", nil},
	{"a count of a bracketed list of words", ruleCount, "3 groups", []string{"groups [a, b, c]"}, "", nil},
	{"a count one off", ruleNews, "5 groups", []string{"groups [a, b, c]"}, "", []string{"5"}},

	// Names.
	{"a quarter's name", ruleNames, "Q3 was good", []string{"the quarter was good"}, "", nil},
	{"a disease", ruleNames, "COVID-19", []string{"the disease"}, "", nil},
	{"a chemical", ruleNames, "CO2 emissions", []string{"emissions"}, "", nil},
	{"a column with a digit", ruleNames, "column col_12", []string{"the column"}, "", nil},
	{"a score's name", ruleNames, "the F1 score", []string{"the score"}, "", nil},
	{"a number after a name", ruleNews, "in group 7", []string{"in a group"}, "", []string{"7"}},

	// Comparisons.
	{"a threshold of the question", ruleQuestion, "p = 0.2 exceeds 0.05", []string{"p = 0.2"}, "Use a level of 0.05.", nil},
	{"a threshold from nowhere", ruleNews, "p = 0.2 exceeds 0.05", []string{"p = 0.2"}, "", []string{"0.05"}},
	{"a threshold in percent", rulePercent, "the level of 5%", []string{"p = 0.2"}, "Use a level of 0.05.", nil},
	{"less than a number from nowhere", ruleNews, "the value is less than 2", []string{"the value is 0.4"}, "", []string{"2"}},
	{"a difference that nobody computed", ruleNews, "A exceeds B by 3", []string{"A = 8", "B = 5"}, "", []string{"3"}},
	{"a sum that nobody computed", ruleNews, "13 in total", []string{"A = 8", "B = 5"}, "", []string{"13"}},
}

func TestTextWithoutNumbersStatesNone(t *testing.T) {
	t.Parallel()
	if got := NewNumbers("The groups differ.", []string{"p = 0.01"}, ""); got != nil {
		t.Errorf("got %q", got)
	}
}

func TestNumberRuleDecidesEveryPairOfTheTable(t *testing.T) {
	t.Parallel()
	if len(numberCases) < 120 {
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
