package rules

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// pvalue is a p-value as a premise states it: an equality or a bound.
type pvalue struct {
	num
	bound  byte // '=', '<' or '>'
	normal bool // from a test of normality
	words  words
}

var (
	pPattern   = regexp.MustCompile(`(?i)\bp(?:[- ]?values?)?(?:\s+(?:is|was|of|equals)|\s*[=:<>≤≥])\s*([-+]?\d*\.?\d+(?:e[-+]?\d+)?)`)
	normalTest = regexp.MustCompile(`(?i)shapiro|normality|normal\b|jarque|anderson|agostino|lilliefors`)
)

func pvalues(premise string) []pvalue {
	var out []pvalue
	for _, at := range pPattern.FindAllStringSubmatchIndex(premise, -1) {
		text := premise[at[2]:at[3]]
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || v < 0 || v > 1 {
			continue
		}
		p := pvalue{bound: '=', normal: normalTest.MatchString(premise), words: tokens(premise)}
		p.value = v
		if dot := strings.IndexByte(text, '.'); dot >= 0 && !strings.ContainsAny(text, "eE") {
			p.decimals = len(text) - dot - 1
		}
		switch head := premise[at[0]:at[2]]; {
		case strings.ContainsAny(head, "<≤"):
			p.bound = '<'
		case strings.ContainsAny(head, ">≥"):
			p.bound = '>'
		}
		// A bound followed by a truth value ("p < 0.05: False") is a question put to the data, not a statement.
		if rest := strings.TrimLeft(premise[at[1]:], " "); p.bound != '=' && strings.HasPrefix(rest, ":") {
			continue
		}
		out = append(out, p)
	}
	return out
}

// alpha is the significance level; source says where it comes from.
type alpha struct {
	value  float64
	source string
	clash  bool
}

var alphaPattern = regexp.MustCompile(`(?i)(?:\balpha\b|α|\bsignificance level\b|\blevel of significance\b|\bp-?\s?values?\b|\bp\b|\bthreshold\b)[^.\d]{0,40}?(0?\.\d+)|(0?\.\d+)\s*(?:significance\s*)?level`)

func findAlpha(question string) alpha {
	a := alpha{value: 0.05, source: "convention"}
	for _, m := range alphaPattern.FindAllStringSubmatch(question, -1) {
		v, err := strconv.ParseFloat(m[1]+m[2], 64)
		if err != nil || v <= 0 || v > 0.2 {
			continue
		}
		a.clash = a.clash || a.source == "question" && a.value != v
		a.value, a.source = v, "question"
	}
	return a
}

var (
	significant = regexp.MustCompile(`(?i)\b(?:in|non-?)?signific(?:ant|antly|ance)\b`)
	noPolarity  = regexp.MustCompile(`(?i)significan(?:t|ce) (?:figure|digit|level|code)|level of significance|(?:more|most|less|least) significant`)
	normality   = regexp.MustCompile(`(?i)\b(?:non-?)?normal(?:ly|ity)?\b`)
	nullTest    = regexp.MustCompile(`(?i)\breject(?:s|ed|ing)?\b.*\bnull\b|\bnull hypothesis\b.*\breject`)
	negation    = regexp.MustCompile(`(?i)\b(?:not|no|never|without|neither|nor|lacks?|cannot|insignificant(?:ly)?|non-?significant(?:ly)?|non-?normal(?:ly)?|fails? to|failed to)\b|n't\b`)
)

// statistical judges statements that a p-value decides: significance, normality, rejection.
func (k *known) statistical(clause string) (result, bool) {
	sig, norm, null := significant.MatchString(clause) && !noPolarity.MatchString(clause), normality.MatchString(clause), nullTest.MatchString(clause)
	kinds := 0
	for _, on := range []bool{sig, norm, null} {
		if on {
			kinds++
		}
	}
	if kinds == 0 || norm && !k.testsNormality() {
		return result{}, false
	}
	neg := len(negation.FindAllString(clause, -1))
	if kinds > 1 || neg > 1 {
		return unsure("significance", "the polarity of %q can't be told", clause), true
	}
	name := "significance"
	if norm {
		name = "normality"
	}
	if about := tokens(clause).minus(testWords); len(about) > 1 && !k.knowsAny(about) {
		return unsure(name, "the premises do not speak of %s", strings.Join(about.sorted(), ", ")), true
	}
	return k.decide(name, norm, neg == 0, tokens(clause)), true
}

var testWords = list(`significant significantly significance insignificant statistically statistical difference differ different effect
	relationship test result distribution distributed normal normally normality null hypothesis reject rejected we cannot level group mean`)

// knowsAny is loose about endings: distribution and distributed are one word here.
func (k *known) knowsAny(about words) bool {
	for w := range about {
		for v := range k.vocabulary {
			n := min(len(w), len(v), 5)
			if w == v || n >= 3 && w[:n] == v[:n] {
				return true
			}
		}
	}
	return false
}

func (k *known) testsNormality() bool {
	for _, p := range k.ps {
		if p.normal {
			return true
		}
	}
	return false
}

// decide compares the p-values with alpha; a small p means significant, and not normal.
func (k *known) decide(rule string, norm, claimed bool, subject words) result {
	if k.alpha.clash {
		return unsure(rule, "the question names several significance levels")
	}
	var small, large []pvalue
	for _, p := range k.relevant(norm, subject) {
		switch {
		case p.bound != '>' && p.value+p.half() < k.alpha.value, p.bound == '<' && p.value <= k.alpha.value:
			small = append(small, p)
		case p.bound != '<' && p.value-p.half() > k.alpha.value, p.bound == '>' && p.value >= k.alpha.value:
			large = append(large, p)
		default:
			return unsure(rule, "p %c %s is too close to alpha %g", p.bound, p.num, k.alpha.value)
		}
	}
	if (len(small) == 0) == (len(large) == 0) {
		return unsure(rule, "the premises hold no single p-value for it")
	}
	truth, p := len(small) > 0, append(small, large...)[0]
	if norm {
		truth = !truth
	}
	why := fmt.Sprintf("p %c %s, alpha %g (%s)", p.bound, p.num, k.alpha.value, k.alpha.source)
	return decided(rule, truth == claimed, why)
}

// relevant narrows several p-values to the ones whose premises share most words with the clause.
func (k *known) relevant(norm bool, subject words) []pvalue {
	var out []pvalue
	best := -1
	for _, p := range k.ps {
		if norm && !p.normal {
			continue
		}
		switch hits := p.words.common(subject); {
		case hits > best:
			best, out = hits, []pvalue{p}
		case hits == best:
			out = append(out, p)
		}
	}
	return out
}
