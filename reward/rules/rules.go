// Package rules is a judge without a model. It evaluates what a conclusion says about its premises'
// numbers: comparisons, extremes, arithmetic, significance, signs. A statement that is false makes
// the step not entailed; a step of which every statement is true is entailed; everything else is an
// abstention. Invariants: deterministic, no I/O, and every verdict names its rule and the figures it
// used. It reads text by patterns, so it abstains whenever a reading is not the only one.
package rules

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/verigraph/verigraph/reward"
	"github.com/verigraph/verigraph/trajectory"
)

// Name is the judge's name in every verdict.
const Name = "rules"

// Judge implements reward.Judge. The zero value is ready.
type Judge struct{}

var _ reward.Judge = Judge{}

// Name returns "rules".
func (Judge) Name() string { return Name }

// Identity changes when a rule changes its verdicts, so that cached ones are not reused.
func (Judge) Identity() string { return Name + "/1" }

type outcomeKind int

const (
	unknown outcomeKind = iota
	carried             // repeats what a premise says; nothing was concluded
	holds
	fails
)

type result struct {
	kind outcomeKind
	rule string
	why  string
}

func unsure(rule, format string, args ...any) result {
	return result{unknown, rule, fmt.Sprintf(format, args...)}
}

func decided(rule string, truth bool, why string) result {
	if truth {
		return result{holds, rule, why}
	}
	return result{fails, rule, why}
}

// maxText bounds what is read; the graph caps claims far below it.
const maxText = 20_000

// Entails evaluates the conclusion's statements.
func (Judge) Entails(ctx context.Context, step reward.Step) (trajectory.Verdict, error) {
	if err := ctx.Err(); err != nil {
		return trajectory.Verdict{}, err
	}
	v := trajectory.Verdict{Judge: Name, Kind: trajectory.Abstained}
	if len(step.Conclusion) > maxText || len(strings.Join(step.Premises, "")) > 10*maxText {
		v.Reason = "too long for rules"
		return v, nil
	}
	v.Kind, v.Reason = combine(evaluate(step))
	return v, nil
}

func evaluate(step reward.Step) []result {
	k := read(step.Question, step.Premises)
	text, tags := cutTags(step.Conclusion)
	var out []result
	for _, s := range sentences(text) {
		for _, clause := range statements(s) {
			out = append(out, k.statement(clause))
		}
	}
	for _, t := range tags {
		out = append(out, k.tag(t, text))
	}
	return out
}

func combine(results []result) (trajectory.VerdictKind, string) {
	var open, truths []string
	for _, r := range results {
		text := r.rule + ": " + r.why
		switch r.kind {
		case fails:
			return trajectory.NotEntailed, "false by " + text
		case holds:
			truths = append(truths, text)
		case unknown:
			open = append(open, text)
		case carried:
		}
	}
	switch {
	case len(open) > 0:
		return trajectory.Abstained, open[0]
	case len(truths) == 0:
		return trajectory.Abstained, "no rule applies: nothing beyond the premises is stated"
	}
	return trajectory.Entailed, strings.Join(truths, "; ")
}

var (
	turning   = regexp.MustCompile(`(?i),?\s+(?:but|while|whereas|although|though)\s+|:\s+`)
	joining   = regexp.MustCompile(`(?i),?\s+and\s+|,\s+`)
	pairing   = regexp.MustCompile(`(?i)\b(?:between|both|of)\b[^,]*\band\b`)
	assertive = regexp.MustCompile(`(?i)\b(?:than|exceeds?|above|below|significant(?:ly)?|highest|lowest|largest|smallest|positively|negatively|equals?|differ(?:ence)?|sum|total|ratio|twice)\b|[<>]`)
	hedge     = regexp.MustCompile(`(?i)\b(?:because|due to|caus(?:e|es|ed|ing)|suggests?|impl(?:y|ies)|likely|unlikely|may|might|could|probably|perhaps|should|therefore|hence|explains?|since|if|unless|approximately|about|roughly|nearly|almost|always|every|everywhere|in general|much|far|substantially|dramatically)\b`)
)

// statements splits a sentence where both sides assert something of their own.
func statements(s string) []string {
	var out []string
	for _, part := range turning.Split(s, -1) {
		part = strings.Trim(part, " ,:")
		pieces := joining.Split(part, -1)
		whole := len(pieces) < 2 || pairing.MatchString(part)
		for _, p := range pieces {
			whole = whole || !assertive.MatchString(p)
		}
		if whole {
			pieces = []string{part}
		}
		for _, p := range pieces {
			if word.MatchString(p) {
				out = append(out, strings.TrimSpace(p))
			}
		}
	}
	return out
}

// statement evaluates one clause by the first rule that recognises it.
func (k *known) statement(clause string) result {
	for _, rule := range []func(string) (result, bool){
		k.equations, k.statistical, k.portion, k.moved, k.multiple, k.comparison, k.superlative, k.operation, k.sign,
	} {
		r, ok := rule(clause)
		if !ok {
			continue
		}
		if r.kind == holds && hedge.MatchString(clause) {
			return unsure(r.rule, "%s holds, the rest of %q is beyond rules", r.why, clause)
		}
		if r.kind == fails && hedge.MatchString(clause) {
			return unsure(r.rule, "%s, in a hedged clause", r.why)
		}
		return r
	}
	if k.repeats(clause) {
		return result{kind: carried}
	}
	return unsure("none", "no rule applies to %q", clause)
}

// repeats reports whether a clause only says what one premise says.
func (k *known) repeats(clause string) bool {
	for _, n := range numbers(clause) {
		if !k.holds(n, true) {
			return false
		}
	}
	mine := tokens(clause)
	for _, p := range k.premises {
		if len(mine.minus(tokens(p))) == 0 && negation.MatchString(p) == negation.MatchString(clause) {
			return true
		}
	}
	return false
}
