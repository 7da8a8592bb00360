package outcome

import (
	"regexp"
	"strings"

	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/task"
)

// Claim is a submitted claim with what the graph knows about it.
type Claim struct {
	Node evidence.Node
	// Structural and Lexical are the claim's S and N; a part that did not run is false.
	Structural bool
	Lexical    bool
}

type stated struct {
	value string
	claim *Claim
}

// Training scores the submitted claims for RL: a sub-answer is right if its name is given one
// value (several different ones are guesses), the value is right, and, if faithful, it stands in a
// claim that is structurally grounded and brings no new numbers, an atomic claim's numbers coming
// from its placeholders.
func Training(claims []Claim, want []task.NamedAnswer, faithful bool) []SubAnswer {
	given := map[string][]stated{}
	for i := range claims {
		for _, n := range named(claims[i].Node.Text) {
			given[n.Name] = append(given[n.Name], stated{n.Value, &claims[i]})
		}
	}
	var subs []SubAnswer
	for _, w := range required(want) {
		subs = append(subs, judge(w, given[w.Name], faithful))
	}
	return subs
}

func judge(w task.NamedAnswer, given []stated, faithful bool) SubAnswer {
	s := SubAnswer{Name: w.Name, Want: w.Value}
	if len(given) == 0 {
		s.Reason = "not answered"
		return s
	}
	s.Answered, s.Got, s.Claim = true, given[0].value, given[0].claim.Node.ID
	for _, g := range given[1:] {
		if !lenientEqual(g.value, s.Got) {
			s.Reason = "several different values"
			return s
		}
	}
	if !lenientEqual(s.Got, w.Value) {
		s.Reason = "wrong value"
		return s
	}
	if !faithful {
		s.Right = true
		return s
	}
	for _, g := range given {
		reason := unfaithful(g)
		if reason == "" {
			s.Right, s.Claim, s.Reason = true, g.claim.Node.ID, ""
			return s
		}
		if s.Reason == "" {
			s.Reason = reason
		}
	}
	return s
}

func unfaithful(g stated) string {
	switch {
	case !g.claim.Structural:
		return "the claim is not structurally grounded"
	case !g.claim.Lexical:
		return "the claim brings new numbers"
	case g.claim.Node.Kind == evidence.NodeAtomic && !fromPlaceholders(g.value, g.claim.Node.Fields):
		return "the number does not come from a placeholder"
	}
	return ""
}

var number = regexp.MustCompile(`\d[\d,]*(?:\.\d+)?(?:[eE][+-]?\d+)?|\.\d+`)

// fromPlaceholders reports whether every number of an answer is rendered by some placeholder, a
// leading minus included: "-{r}" states a sign that no computation gave.
func fromPlaceholders(value string, fields []evidence.Field) bool {
	want := figures(value)
	if len(want) == 0 {
		return true
	}
	have := map[string]bool{}
	for _, f := range fields {
		for _, n := range figures(f.Text) {
			have[n] = true
		}
	}
	for _, n := range want {
		if !have[n] {
			return false
		}
	}
	return true
}

// figures are the numbers of a text; a sign is part of one only at the text's start or after a
// blank, bracket or comma, since elsewhere it may join two numbers.
func figures(s string) []string {
	s = minus.Replace(s)
	var out []string
	for _, at := range number.FindAllStringIndex(s, -1) {
		n := strings.TrimRight(s[at[0]:at[1]], ",")
		if i := at[0]; i > 0 && s[i-1] == '-' && (i == 1 || strings.IndexByte(" ([{,:=", s[i-2]) >= 0) {
			n = "-" + n
		}
		out = append(out, n)
	}
	return out
}

// Attempted reports whether a structurally grounded claim gives a value to a required name.
func Attempted(claims []Claim, want []task.NamedAnswer) bool {
	names := map[string]bool{}
	for _, w := range want {
		names[w.Name] = true
	}
	for i := range claims {
		if !claims[i].Structural {
			continue
		}
		for _, n := range named(claims[i].Node.Text) {
			if names[n.Name] {
				return true
			}
		}
	}
	return false
}
