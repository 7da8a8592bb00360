package outcome

import (
	"fmt"
	"math/big"
	"regexp"
	"strings"
)

// TableBench returns the rule of one question type. FactChecking and NumericalReasoning go by exact
// match (EM); of DataAnalysis, ImpactAnalysis goes by EM, CorrelationAnalysis, TrendForecasting and
// StatisticalAnalysis by EM with 10 % error, the rest by ROUGE-L; Visualization by the drawn values.
//
// Official first deletes all punctuation of both sides, so that "10.6" equals "106" and "-0.61"
// equals "0.61"; Fixed keeps it and compares numbers as numbers.
func TableBench(qtype, subtype, chart string) (Rule, error) {
	metric, err := TableBenchMetric(qtype, subtype)
	if err != nil {
		return Rule{}, err
	}
	r := Rule{Name: SourceTableBench + "/" + metric}
	switch metric {
	case "EM":
		r.Official, r.Fixed = OfficialEM(0), FixedEM(0)
	case "EM_with_error_10":
		r.Official, r.Fixed = OfficialEM(10), FixedEM(10)
	case "ROUGE-L":
		r.Official = func(got, want string) float64 { return RougeL(normalize(got), normalize(want)) }
		r.Fixed, r.Graded = RougeL, true
	case "Pass@1":
		same := func(got, want string) float64 { return truth(sameChart(got, want, chart)) }
		r.Official, r.Fixed = same, same
	}
	return r, nil
}

// TableBenchMetric names the metric of a question type.
func TableBenchMetric(qtype, subtype string) (string, error) {
	switch qtype {
	case "FactChecking", "NumericalReasoning":
		return "EM", nil
	case "Visualization":
		return "Pass@1", nil
	case "DataAnalysis":
		switch subtype {
		case "ImpactAnalysis":
			return "EM", nil
		case "CorrelationAnalysis", "TrendForecasting", "StatisticalAnalysis":
			return "EM_with_error_10", nil
		case "AnomalyDetection", "CausalAnalysis", "DescriptiveAnalysis":
			return "ROUGE-L", nil
		}
	}
	return "", fmt.Errorf("tablebench: meta.qtype %q with meta.qsubtype %q is no question type", qtype, subtype)
}

const pythonPunctuation = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"

var articles = regexp.MustCompile(`\b(a|an|the)\b`)

// normalize is step 2 of the official script, applied to both sides.
func normalize(s string) string {
	s = strings.Map(func(r rune) rune {
		if strings.ContainsRune(pythonPunctuation, r) {
			return -1
		}
		return r
	}, strings.ToLower(s))
	return strings.Join(strings.Fields(articles.ReplaceAllString(s, " ")), " ")
}

// OfficialEM is the script's comparison; percent > 0 is EM_with_error_<percent>.
func OfficialEM(percent int64) Compare {
	return func(got, want string) float64 {
		return byParts(strings.Split(normalize(got), ","), strings.Split(normalize(want), ","), percent, readPlain, strings.TrimSpace)
	}
}

// FixedEM compares part by part with punctuation kept. Missing and surplus parts count as wrong.
func FixedEM(percent int64) Compare {
	return func(got, want string) float64 {
		if _, ok := readQuantity(want); ok { // "1,510" is one number
			return byParts([]string{got}, []string{want}, percent, readQuantity, foldTable)
		}
		a, b := strings.Split(got, ","), strings.Split(want, ",")
		if len(a) > maxItems {
			return 0
		}
		share := byParts(a, b, percent, readQuantity, foldTable)
		return share * float64(len(b)) / float64(max(len(a), len(b)))
	}
}

// foldTable is fold without articles, as both modes of the benchmark compare text.
func foldTable(s string) string {
	return strings.Join(strings.Fields(articles.ReplaceAllString(fold(s), " ")), " ")
}

func byParts(got, want []string, percent int64, read func(string) (quantity, bool), text func(string) string) float64 {
	decimals := -1
	for _, w := range want {
		if q, ok := read(strings.TrimSpace(w)); ok && !q.percent && (decimals < 0 || q.decimals < decimals) {
			decimals = q.decimals
		}
	}
	right := 0
	for i, w := range want {
		if i < len(got) && samePart(strings.TrimSpace(got[i]), strings.TrimSpace(w), max(decimals, 0), percent, read, text) {
			right++
		}
	}
	return float64(right) / float64(len(want))
}

func samePart(got, want string, decimals int, percent int64, read func(string) (quantity, bool), text func(string) string) bool {
	w, number := read(want)
	if !number {
		return text(got) == text(want)
	}
	g, ok := read(got)
	if !ok {
		return false
	}
	for _, wv := range w.readings(g) {
		for _, gv := range g.readings(w) {
			if sameNumber(gv, wv, w.percent && g.percent, decimals, percent) {
				return true
			}
		}
	}
	return false
}

func sameNumber(got, want *big.Rat, bothPercent bool, decimals int, percent int64) bool {
	if percent > 0 {
		if want.Sign() == 0 {
			return got.Sign() == 0
		}
		limit := new(big.Rat).Mul(new(big.Rat).Abs(want), big.NewRat(percent, 100))
		return within(got, want, limit)
	}
	if bothPercent { // as shares with 4 places, which are percents with 2
		decimals = 2
	}
	return halfUp(got, decimals).Cmp(halfUp(want, decimals)) == 0
}
