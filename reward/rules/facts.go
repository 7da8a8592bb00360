package rules

import (
	"regexp"
	"strings"
)

// fact is one measured number with the words around it.
type fact struct {
	num
	words   words
	premise int
}

// tag is an @name[value] of DABench's answer syntax.
type tag struct {
	name  string
	value string
}

var tagged = regexp.MustCompile(`@([\p{L}\p{N}_]+)\[(.*?)\]`)

// known is what the premises and the question say.
type known struct {
	premises []string
	facts    []fact
	tags     []tag
	all      []num // every number of the premises
	question []num
	ps       []pvalue
	alpha    alpha
	// vocabulary are the words of premises and question.
	vocabulary words
}

func read(question string, premises []string) *known {
	k := &known{premises: premises, question: numbers(question), alpha: findAlpha(question), vocabulary: tokens(question)}
	for i, p := range premises {
		text, tags := cutTags(p)
		k.tags = append(k.tags, tags...)
		k.vocabulary = k.vocabulary.with(tokens(p))
		k.all = append(k.all, numbers(p)...)
		k.ps = append(k.ps, pvalues(p)...)
		for _, t := range tags {
			if ns := measures(t.value); len(ns) == 1 {
				k.facts = append(k.facts, fact{ns[0], tokens(t.name), i})
			}
		}
		for _, c := range sentences(text) {
			for _, part := range listed(c) {
				if n, ok := principal(part); ok {
					k.facts = append(k.facts, fact{n, tokens(part), i})
				}
			}
		}
	}
	return k
}

// cutTags separates the @name[value] tags of a text from its prose.
func cutTags(s string) (string, []tag) {
	var tags []tag
	for _, m := range tagged.FindAllStringSubmatch(s, -1) {
		tags = append(tags, tag{m[1], strings.TrimSpace(m[2])})
	}
	return tagged.ReplaceAllString(s, " "), tags
}

var listBorder = regexp.MustCompile(`,\s+(?:and\s+)?|\s+and\s+|\s+while\s+|\s+versus\s+|\s+vs\.?\s+`)

// listed splits an enumeration ("0.74 for women and 0.19 for men") where every part measures something.
func listed(s string) []string {
	parts := listBorder.Split(s, -1)
	for _, p := range parts {
		if len(measures(p)) == 0 {
			return []string{s}
		}
	}
	return parts
}

var copula = regexp.MustCompile(`(?i)(?:\b(?:is|was|are|were|equals|averages|of|at|by)|[=:])\s*\$?$`)

var verb = regexp.MustCompile(`(?i)(?:\b(?:is|was|are|were|equals|averages)|[=:])\s*\$?$`)

// principal is the one number that a phrase states: its only measure, else the only one that
// follows a verb of being. Otherwise it can't be told.
func principal(s string) (num, bool) {
	ns := measures(s)
	if len(ns) == 1 {
		return ns[0], true
	}
	for _, pattern := range []*regexp.Regexp{verb, copula} {
		var hits []num
		for _, n := range ns {
			if pattern.MatchString(s[:n.start]) {
				hits = append(hits, n)
			}
		}
		if len(hits) == 1 {
			return hits[0], true
		}
	}
	return num{}, false
}

// says reports whether a premise prints the value, as a percentage or plain.
func (k *known) says(value float64) bool {
	for _, have := range k.all {
		if have.value == value {
			return true
		}
	}
	return false
}

// holds reports whether a number stands in the premises, or in the question.
func (k *known) holds(n num, question bool) bool {
	for _, have := range k.all {
		if have.same(n) {
			return true
		}
	}
	if question {
		for _, have := range k.question {
			if have.same(n) {
				return true
			}
		}
	}
	return false
}

// shared are the words that stand in several facts: attributes, which tell nothing apart.
func (k *known) shared() words {
	first := map[string]fact{}
	out := words{}
	for _, f := range k.facts {
		for w := range f.words {
			if have, ok := first[w]; ok && (have.premise != f.premise || !have.same(f.num)) {
				out[w] = true
			} else {
				first[w] = f
			}
		}
	}
	return out
}

// resolve finds the fact that a phrase speaks of, given the phrase it is set against: it must have
// a word of the phrase that the other lacks, and none that only the other has.
func (k *known) resolve(mine, other words) (fact, bool) {
	return k.search(k.own(mine, other), mine, other.minus(mine))
}

// elliptic resolves the right side of "the mean fare of the women exceeds that of the men": it may
// leave out the attribute that the left side names.
func (k *known) elliptic(mine, left words) (fact, bool) {
	attributes := left.minus(left.minus(k.shared()))
	return k.search(k.own(mine, left), mine.with(attributes), left.minus(mine).minus(attributes))
}

// own are the words that set a phrase apart; attributes only where there is nothing else.
func (k *known) own(mine, other words) words {
	only := mine.minus(other)
	if apart := only.minus(k.shared()); len(apart) > 0 {
		return apart
	}
	return only
}

func (k *known) search(own, mine, foreign words) (fact, bool) {
	var best fact
	score, unique := 0, false
	for _, f := range k.facts {
		hits := f.words.common(own)
		if hits == 0 || f.words.common(foreign) > 0 {
			continue
		}
		switch points := 10*hits + f.words.common(mine); {
		case points > score:
			best, score, unique = f, points, true
		case points == score && !best.same(f.num):
			unique = false
		}
	}
	return best, unique
}

// alike reports whether two facts measure the same thing: what is left of their words without the
// two subjects is mostly shared, or they stand in one enumeration.
func alike(a, b fact, subjectA, subjectB words) bool {
	if a.percent != b.percent {
		return false
	}
	restA, restB := a.words.minus(subjectA), b.words.minus(subjectB)
	union := len(restA.with(restB))
	if union == 0 {
		return true
	}
	if 2*restA.common(restB) >= union {
		return true
	}
	return a.premise == b.premise && (len(restA) == 0 || len(restB) == 0)
}

// statistics name a measure: a conclusion on the median does not follow from means.
var statistics = list(`mean average median mode maximum max minimum min std deviation variance sum total range correlation skewness
	kurtosis quartile percentile rmse accuracy score`)

// neutral words carry no content that a figure could contradict.
var neutral = list(`paid pay pays number count share percentage percent proportion rate figure group difference data dataset show
	shows showed observed stated two other`)

func list(s string) words {
	w := words{}
	for _, t := range strings.Fields(s) {
		w[t] = true
	}
	return w
}

// strange objects to a clause whose words the premises and the question do not know, or that names
// a statistic which the figures used do not state.
func (k *known) strange(clause words, used ...fact) string {
	of := words{}
	for _, f := range used {
		of = of.with(f.words)
	}
	for _, w := range clause.sorted() {
		switch {
		case of[w] || isDigit(w[0]) && k.vocabulary[w]:
		case statistics[w]:
			if w == "mean" && of["average"] || w == "average" && of["mean"] {
				continue
			}
			return "the figures used state no " + w
		case !neutral[w] && !k.vocabulary[w]:
			return "the premises do not speak of " + w
		}
	}
	return ""
}
