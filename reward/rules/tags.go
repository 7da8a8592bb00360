package rules

import (
	"regexp"
	"strings"
)

var (
	yes = regexp.MustCompile(`(?i)^(?:true|yes|significant|normal|normally distributed)$`)
	no  = regexp.MustCompile(`(?i)^(?:false|no|not[ _-]?significant|non-?significant|insignificant|not[ _-]?normal(?:ly distributed)?|non-?normal)$`)

	topName    = regexp.MustCompile(`(?i)(?:^|_)(?:highest|largest|max|maximum|most|greatest|biggest)(?:_|$)`)
	bottomName = regexp.MustCompile(`(?i)(?:^|_)(?:lowest|smallest|min|minimum|least|fewest)(?:_|$)`)
)

// tag evaluates an @name[value] of the conclusion.
func (k *known) tag(t tag, prose string) result {
	for _, have := range k.tags {
		if have.name != t.name {
			continue
		}
		if have.value == t.value {
			return result{kind: carried}
		}
		a, b := measures(have.value), measures(t.value)
		if len(a) == 1 && len(b) == 1 && a[0].same(b[0]) {
			return result{kind: carried}
		}
		return decided("tag", false, "a premise says @"+have.name+"["+have.value+"]")
	}
	if ns := measures(t.value); len(ns) > 0 {
		return k.numberTag(t, ns)
	}
	return k.wordTag(t, prose)
}

// numberTag carries a premise's figure over; a figure that the premises give to another name is false.
func (k *known) numberTag(t tag, ns []num) result {
	for _, n := range ns {
		if !k.says(n.value) {
			return unsure("tag", "%s of @%s stands in no premise", n, t.name)
		}
	}
	if len(ns) > 1 {
		return result{kind: carried}
	}
	name := tokens(t.name)
	f, ok := k.resolve(name, words{})
	if !ok || f.value == ns[0].value {
		return result{kind: carried}
	}
	for _, other := range k.facts {
		if other.value == ns[0].value && other.words.common(name) > 0 && other.words.common(name) >= f.words.common(name) {
			return result{kind: carried}
		}
	}
	return unsure("tag", "the premises seem to give %s for @%s", f.num, t.name)
}

// wordTag evaluates a verdict in words.
func (k *known) wordTag(t tag, prose string) result {
	name := strings.ReplaceAll(t.name, "_", " ")
	claimed := yes.MatchString(t.value)
	if claimed || no.MatchString(t.value) {
		switch {
		case strings.Contains(strings.ToLower(name), "signific"):
			return k.decide("significance", false, claimed, tokens(t.name))
		case strings.Contains(strings.ToLower(name), "normal") && k.testsNormality():
			return k.decide("normality", true, claimed, tokens(t.name))
		}
		return unsure("tag", "no rule decides @%s[%s]", t.name, t.value)
	}
	if sign := extremeName(t.name); sign != 0 {
		return k.extremum(tokens(t.value), tokens(strings.Join(cutExtreme(name), " ")), sign, false, false)
	}
	if t.value != "" && strings.Contains(strings.ToLower(prose), strings.ToLower(t.value)) {
		return result{kind: carried} // the prose is evaluated, and it names the value
	}
	return unsure("tag", "no rule decides @%s[%s]", t.name, t.value)
}

func extremeName(name string) float64 {
	switch up, down := topName.MatchString(name), bottomName.MatchString(name); {
	case up && !down:
		return 1
	case down && !up:
		return -1
	}
	return 0
}

func cutExtreme(name string) []string {
	var out []string
	for _, w := range strings.Fields(name) {
		if extremeName(w) == 0 && w != "with" {
			out = append(out, w)
		}
	}
	return out
}
