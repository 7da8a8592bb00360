package rules

import (
	"fmt"
	"regexp"
	"strings"
)

var (
	top     = `highest|largest|greatest|biggest|most|longest|oldest|best|maximum`
	bottom  = `lowest|smallest|fewest|least|shortest|youngest|worst|minimum`
	extreme = regexp.MustCompile(`(?i)^(.*?)\b(?:has|have|had|is|are|was|were|shows?|reaches|holds) (not )?(?:in )?(?:the )?(?:one with the )?` +
		`(?:(` + top + `)|(` + bottom + `)|(` + upWords + `)|(` + downWords + `))\b(.*)$`)
	binary = regexp.MustCompile(`(?i)\b(?:of the two|of both|both)\b`)
)

// superlative judges "X has the highest Y" and, over exactly two figures, "X has the larger Y".
func (k *known) superlative(clause string) (result, bool) {
	m := extreme.FindStringSubmatch(clause)
	if m == nil || strings.Contains(clause, " than ") {
		return result{}, false
	}
	comparative := m[5]+m[6] != ""
	sign := 1.0
	if m[4]+m[6] != "" {
		sign = -1
	}
	subject, attribute := tokens(m[1]), tokens(m[7])
	return k.extremum(subject, attribute, sign, comparative || binary.MatchString(clause), m[2] != ""), true
}

func (k *known) extremum(subject, attribute words, sign float64, pair, negated bool) result {
	const rule = "superlative"
	mine, ok := k.resolve(subject.with(attribute), attribute)
	if !ok || mine.words.common(subject) == 0 {
		return unsure(rule, "the premises do not say which figure is meant")
	}
	if why := k.strange(subject.with(attribute), mine); why != "" {
		return unsure(rule, "%s", why)
	}
	rivals := 0
	for _, f := range k.facts {
		apart := subject.minus(f.words)
		if len(apart) == 0 || mine.words.common(apart) == 0 || !alike(mine, f, mine.words.minus(f.words), f.words.minus(mine.words)) ||
			f.words.common(mine.words) == 0 && f.premise != mine.premise {
			continue
		}
		rivals++
		if d := sign * (f.value - mine.value); d > 0 {
			return decided(rule, negated, fmt.Sprintf("%s is beaten by %s", mine.num, f.num))
		} else if d == 0 {
			return unsure(rule, "%s is tied", mine.num)
		}
	}
	switch {
	case rivals == 0:
		return unsure(rule, "the premises hold no figure to compare %s with", mine.num)
	case pair && rivals != 1:
		return unsure(rule, "a comparison of two, and the premises hold %d figures", rivals+1)
	case !pair && rivals == 1:
		return unsure(rule, "two figures do not show an extreme")
	}
	return decided(rule, !negated, fmt.Sprintf("%s is the extreme of %d figures", mine.num, rivals+1))
}
