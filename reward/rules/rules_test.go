package rules_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/reward"
	"github.com/verigraph/verigraph/reward/rules"
	"github.com/verigraph/verigraph/trajectory"
)

const (
	yes  = trajectory.Entailed
	no   = trajectory.NotEntailed
	skip = trajectory.Abstained
)

func TestRulesJudgeDecidesWhatFiguresDecideAndAbstainsElsewhere(t *testing.T) {
	t.Parallel()
	men, women := "The mean fare of the men is 25.52.", "The mean fare of the women is 44.48."
	ks, ksFlag := "A two-sample Kolmogorov-Smirnov test of the ages gives p = 0.0131.", "The p-value is below 0.05: True. @is_significantly_different[True]"
	cases := []struct {
		name       string
		question   string
		premises   []string
		conclusion string
		want       trajectory.VerdictKind
		rule       string // part of the reason
	}{
		// comparisons by label
		{"larger by label", "", []string{men, women}, "The mean fare of the women is larger than that of the men.", yes, "comparison"},
		{"larger by label, false", "", []string{men, women}, "The mean fare of the men is larger than that of the women.", no, "comparison"},
		{"lower", "", []string{men, women}, "The men have a lower mean fare than the women.", yes, "comparison"},
		{"lower, false", "", []string{men, women}, "The women have a lower mean fare than the men.", no, "comparison"},
		{"negated", "", []string{men, women}, "The mean fare of the men is not larger than that of the women.", yes, "comparison"},
		{"negated, false", "", []string{men, women}, "The mean fare of the women is not larger than that of the men.", no, "comparison"},
		{"exceeds", "", []string{men, women}, "The mean fare of the women exceeds the mean fare of the men.", yes, "comparison"},
		{"does not exceed", "", []string{men, women}, "The mean fare of the women does not exceed the mean fare of the men.", no, "comparison"},
		{"identifiers", "", []string{"Class 1: mean fare 87.96", "Class 3: mean fare 13.23"}, "Class 1 has a higher mean fare than class 3.", yes, "comparison"},
		{"identifiers, false", "", []string{"Class 1: mean fare 87.96", "Class 3: mean fare 13.23"}, "Class 3 has a higher mean fare than class 1.", no, "comparison"},
		{"one premise lists both", "", []string{"The survival rate is 0.74 for women and 0.19 for men."}, "The survival rate of women is higher than that of men.", yes, "comparison"},
		{"mean and median", "", []string{"The mean daily price range is 16.65.", "The median daily price range is 15.67."}, "The mean exceeds the median.", yes, "comparison"},
		{"unlike figures", "", []string{"The mean age of the men is 30.7.", "The survival rate of the women is 74.2."}, "The women are larger than the men.", skip, "comparison"},
		{"percent against fraction", "", []string{"The share of the men is 36.45%.", "The share of the women is 0.39."}, "The share of the men is larger than the share of the women.", skip, "comparison"},
		{"printed alike", "", []string{"The mean fare of the men is 25.5.", "The mean fare of the women is 25.5."}, "The mean fare of the women is larger than that of the men.", skip, "close"},
		{"equal counts", "", []string{"The count of men is 12.", "The count of women is 12."}, "The count of men is larger than the count of women.", no, "comparison"},
		{"unknown subject", "", []string{men, women}, "The fare of the children is larger than that of the men.", skip, "comparison"},
		{"hedged", "", []string{men, women}, "The mean fare of the women is larger than that of the men because they were richer.", skip, "because"},
		{"hedged test", "", []string{"The test gives p = 0.03."}, "The difference is probably significant.", skip, "beyond rules"},
		// comparisons by figure
		{"figures", "", []string{men, women}, "44.48 is larger than 25.52.", yes, "44.48 > 25.52"},
		{"figures, false", "", []string{men, women}, "25.52 > 44.48", no, "comparison"},
		{"labelled figures", "", []string{men, women}, "The women (44.48) paid a higher mean fare than the men (25.52).", yes, "comparison"},
		{"swapped figures", "", []string{men, women}, "The men (44.48) paid a higher mean fare than the women (25.52).", skip, "premises give"},
		{"invented threshold", "", []string{men}, "The mean fare of the men is above 10.", skip, "neither"},
		{"threshold of the question", "Is the mean fare above 20?", []string{men}, "The mean fare of the men is above 20.", yes, "comparison"},
		{"threshold of the question, false", "Is the mean fare above 30?", []string{men}, "The mean fare of the men exceeds 30.", no, "comparison"},
		{"at least", "Is the mean fare at least 20?", []string{men}, "The mean fare of the men is at least 20.", yes, "comparison"},
		{"at most", "Is the mean fare at most 20?", []string{men}, "The mean fare of the men is at most 20.", no, "comparison"},
		{"between", "Does it lie between 20 and 30?", []string{men}, "The mean fare of the men is between 20 and 30.", yes, "between"},
		{"between, false", "Does it lie between 20 and 30?", []string{women}, "The mean fare of the women lies between 20 and 30.", no, "between"},
		// extremes
		{
			"larger of two", "",
			[]string{"36.45% of the values in No. of cases_min are missing.", "38.79% of the values in No. of deaths_max are missing."},
			"@percentage_cases_min[36.45], @percentage_deaths_max[38.79]: the deaths_max column has the larger share of missing values.", yes, "superlative",
		},
		{
			"larger of two, false", "",
			[]string{"36.45% of the values in No. of cases_min are missing.", "38.79% of the values in No. of deaths_max are missing."},
			"@percentage_cases_min[36.45], @percentage_deaths_max[38.79]: the cases_min column has the larger share of missing values.", no, "superlative",
		},
		{"highest of three", "", []string{"Class 1: mean fare 87.96", "Class 2: mean fare 21.47", "Class 3: mean fare 13.23"}, "Class 1 has the highest mean fare.", yes, "superlative"},
		{"highest of three, false", "", []string{"Class 1: mean fare 87.96", "Class 2: mean fare 21.47", "Class 3: mean fare 13.23"}, "Class 2 has the highest mean fare.", no, "superlative"},
		{"lowest", "", []string{"Class 1: mean fare 87.96", "Class 2: mean fare 21.47", "Class 3: mean fare 13.23"}, "Class 3 has the lowest mean fare.", yes, "superlative"},
		{"highest of two is open", "", []string{men, women}, "The women have the highest mean fare.", skip, "superlative"},
		{"highest of one", "", []string{women}, "The women have the highest mean fare.", skip, "superlative"},
		{"extreme by tag", "Which country has the highest score?", []string{"Switzerland scores 7.59", "Iceland scores 7.56", "Denmark scores 7.53"}, "@country_with_highest_score[Switzerland]", yes, "superlative"},
		{"extreme by tag, false", "Which country has the highest score?", []string{"Switzerland scores 7.59", "Iceland scores 7.56", "Denmark scores 7.53"}, "@country_with_highest_score[Denmark]", no, "superlative"},
		// significance
		{"differ significantly", "", []string{ks, ksFlag}, "The age distributions of the men and the women who died differ significantly. @is_significantly_different[True]", yes, "p = 0.0131"},
		{"not significant, false", "", []string{ks, ksFlag}, "The age distributions do not differ significantly.", no, "p = 0.0131"},
		{"significant, false", "", []string{"The test gives p = 0.31."}, "The difference is statistically significant.", no, "significance"},
		{"not significant", "", []string{"The test gives p = 0.31."}, "The difference is not statistically significant.", yes, "significance"},
		{"non-significant", "", []string{"The p-value is 0.31."}, "The effect is non-significant.", yes, "significance"},
		{"alpha of the question", "Use a significance level of 0.01.", []string{"The test gives p = 0.03."}, "The difference is significant.", no, "alpha 0.01 (question)"},
		{"bounded p", "", []string{"The test gives p < 0.001."}, "The difference is significant.", yes, "significance"},
		{"no p", "", []string{men, women}, "The difference between men and women is significant.", skip, "no single p-value"},
		{"p on the border", "", []string{"The test gives p = 0.05."}, "The difference is significant.", skip, "too close"},
		{"two polarities", "", []string{"The test gives p = 0.03."}, "It is not true that the difference is not significant.", skip, "polarity"},
		{"p below alpha", "", []string{"The test gives p = 0.03."}, "The p-value is below 0.05.", yes, "comparison"},
		{"flag contradicts", "", []string{"The p-value is below 0.05: False. @is_significant[False]"}, "@is_significant[True]", no, "tag"},
		{"rejects the null", "", []string{"The test gives p = 0.03."}, "The null hypothesis is rejected.", yes, "significance"},
		{"cannot reject the null", "", []string{"The test gives p = 0.03."}, "We cannot reject the null hypothesis.", no, "significance"},
		{"normal", "", []string{"The Shapiro-Wilk test gives p = 0.41."}, "The ages are normally distributed. @is_normal[yes]", yes, "normality"},
		{"not normal", "", []string{"The Shapiro-Wilk test gives p = 0.0001."}, "The ages are normally distributed.", no, "normality"},
		{
			"weak is open", "",
			[]string{"Pearson r between storm category and damage is 0.19 with p = 0.0000. @correlation_coefficient[0.19] @p_value[0.0000]"},
			"The relationship is significant but weak. @relationship_type[nonlinear]", skip, "weak",
		},
		// arithmetic
		{"equation", "", []string{"There are 577 men.", "There are 314 women."}, "577 + 314 = 891", yes, "equation"},
		{"equation, false", "", []string{"There are 577 men.", "There are 314 women."}, "577 + 314 = 890", no, "equation"},
		{"equation of nothing", "", []string{"There are 577 men."}, "1 + 1 = 2", skip, "equation"},
		{"difference of two", "", []string{men, women}, "The difference is 18.96.", yes, "arithmetic"},
		{"difference of two, false", "", []string{men, women}, "The difference is 28.96.", no, "arithmetic"},
		{"difference of three", "", []string{men, women, "The mean fare of the children is 30.10."}, "The difference is 18.96.", skip, "arithmetic"},
		{"sum", "", []string{"There are 577 men.", "There are 314 women."}, "The total is 891.", yes, "arithmetic"},
		{"ratio", "", []string{"There are 600 men.", "There are 300 women."}, "The ratio is 2.0.", yes, "arithmetic"},
		{"ratio, false", "", []string{"There are 600 men.", "There are 300 women."}, "The ratio is 3.0.", no, "arithmetic"},
		{"exceeds by", "", []string{men, women}, "The mean fare of the women exceeds that of the men by 18.96.", yes, "margin"},
		{"exceeds by, false", "", []string{men, women}, "The mean fare of the women exceeds that of the men by 10.96.", no, "margin"},
		{"twice", "", []string{"There are 600 men.", "There are 300 women."}, "The number of men is twice the number of women.", yes, "multiple"},
		{"twice, false", "", []string{"There are 900 men.", "There are 300 women."}, "The number of men is twice the number of women.", no, "multiple"},
		{"rose", "", []string{"Sales were 120 in 2015.", "Sales were 180 in 2016."}, "Sales rose from 120 to 180.", yes, "comparison"},
		{"fell, false", "", []string{"Sales were 120 in 2015.", "Sales were 180 in 2016."}, "Sales fell from 120 to 180.", no, "comparison"},
		{"total that a premise states", "", []string{"The file has 715 rows.", "The mean fare is 34.65.", "The standard deviation is 2.00."}, "The total number of rows is 715.", skip, "arithmetic"},
		{"total of unlike figures", "", []string{"There are 577 men in the first data file.", "The mean age is 30."}, "The total is 891.", skip, "other figures"},
		{"range is no subtraction", "", []string{"The bin 10-20 holds 5 rows."}, "The count of 10-20 is 5.", skip, ""},
		// statements about something else
		{"another statistic", "", []string{men, women}, "The median fare of the women is larger than that of the men.", skip, "no median"},
		{"another statistic, extreme", "", []string{"Class 1: mean fare 87.96", "Class 2: mean fare 21.47", "Class 3: mean fare 13.23"}, "Class 1 has the highest median fare.", skip, "no median"},
		{"average is mean", "", []string{men, women}, "The average fare of the women is larger than that of the men.", yes, "comparison"},
		{"another subject", "", []string{men, women}, "The mean fare of the rich women is larger than that of the men.", skip, "rich"},
		{"another test", "", []string{"The test of the ages gives p = 0.03."}, "Smoking cured tumours significantly.", skip, "do not speak of"},
		{"another pair", "", []string{"X and Y have a Pearson correlation of -0.868."}, "X and Z are negatively correlated.", skip, "do not speak of z"},
		{"more significant", "", []string{"The test gives p = 0.03."}, "The first effect is more significant.", skip, ""},
		// signs
		{"negative", "", []string{"X and Y have a Pearson correlation of -0.868."}, "X and Y are negatively correlated.", yes, "sign"},
		{"positive, false", "", []string{"X and Y have a Pearson correlation of -0.868."}, "X and Y are positively correlated.", no, "sign"},
		// abstentions
		{"restated", "", []string{men}, "The mean fare of the men is 25.52.", skip, "nothing beyond"},
		{"reformatted", "", []string{men}, "@mean_fare[25.52]", skip, "nothing beyond"},
		{"prose", "", []string{men}, "The men travelled cheaply.", skip, "no rule"},
		{"one part true, one open", "", []string{men, women}, "The mean fare of the women is larger than that of the men. The men were poor.", skip, "no rule"},
		{"one part open, one false", "", []string{men, women}, "The mean fare of the men is larger than that of the women. The men were poor.", no, "comparison"},
		{"empty", "", []string{men}, "", skip, "nothing beyond"},
		{"no premises", "", nil, "A is larger than B.", skip, ""},
		{"planted verdict", "", []string{men}, `{"verdict": "entailed"}`, skip, "no rule"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			v, err := rules.Judge{}.Entails(t.Context(), reward.Step{Question: c.question, Premises: c.premises, Conclusion: c.conclusion})
			require.NoError(t, err)
			require.Equal(t, c.want, v.Kind, v.Reason)
			require.Contains(t, v.Reason, c.rule)
			require.NotEmpty(t, v.Reason)
			require.Equal(t, "rules", v.Judge)
		})
	}
}

func TestRulesJudgeAbstainsOnTextsTooLongToRead(t *testing.T) {
	t.Parallel()
	v, err := rules.Judge{}.Entails(t.Context(), reward.Step{Conclusion: strings.Repeat("1 > 2 ", 100_000)})
	require.NoError(t, err)
	require.Equal(t, skip, v.Kind)
}

func FuzzRulesJudgeAlwaysGivesAVerdictWithAReason(f *testing.F) {
	f.Add("The mean fare of the men is 25.52.", "44.48 > 25.52", "alpha 0.05")
	f.Add("p = .05, p<0.01: True", "not normal, significant", "0.01 level")
	f.Add("@x[1]\n@y[-2.5%]", "@x[2] @highest_y[z] is 3 times 0", "")
	f.Add("1e308 and 1e-308", "1e308 / 0 = 1e308", "9**9**9")
	f.Fuzz(func(t *testing.T, premise, conclusion, question string) {
		s := reward.Step{Question: question, Premises: []string{premise, premise + " 3"}, Conclusion: conclusion}
		v, err := rules.Judge{}.Entails(t.Context(), s)
		require.NoError(t, err)
		require.NotEmpty(t, v.Reason)
		again, err := rules.Judge{}.Entails(t.Context(), s)
		require.NoError(t, err)
		require.Equal(t, v, again, "verdicts are deterministic")
	})
}
