package outcome

import (
	"regexp"
	"slices"
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

// stated is a value that an answer gives, and the claims that it stands in.
type stated struct {
	value  string
	claims []*Claim
}

// Training scores the submitted claims for RL by DABench's rule.
func Training(claims []Claim, want []task.NamedAnswer, faithful bool) []SubAnswer {
	return DABench().Train(claims, want, faithful)
}

// Train scores the submitted claims for RL: a sub-answer is right if its name is given one value
// (several different ones are guesses), the value is right, and, if faithful, it stands in a claim
// that is structurally grounded and brings no new numbers, an atomic claim's numbers coming from its
// placeholders.
func (r Rule) Train(claims []Claim, want []task.NamedAnswer, faithful bool) []SubAnswer {
	given := map[string][]stated{}
	for i := range claims {
		for _, n := range named(claims[i].Node.Text) {
			given[n.Name] = append(given[n.Name], stated{n.Value, []*Claim{&claims[i]}})
		}
	}
	want = required(want)
	if !r.Tagged && len(want) == 1 && len(given[want[0].Name]) == 0 {
		given[want[0].Name] = r.untagged(claims)
	}
	var subs []SubAnswer
	for _, w := range want {
		subs = append(subs, r.judge(w, given[w.Name], faithful))
	}
	return subs
}

// untagged finds the answer in words: each claim's "Final Answer: ", else the text of the one claim
// submitted. Several claims are one text only where texts are graded by overlap.
func (r Rule) untagged(claims []Claim) []stated {
	var out []stated
	for i := range claims {
		if strings.Contains(claims[i].Node.Text, finalMark) {
			out = append(out, stated{finalAnswer(claims[i].Node.Text), []*Claim{&claims[i]}})
		}
	}
	if len(out) > 0 || len(claims) == 0 || len(claims) > 1 && !r.Graded {
		return out
	}
	whole := stated{}
	var texts []string
	for i := range claims {
		texts = append(texts, claims[i].Node.Text)
		whole.claims = append(whole.claims, &claims[i])
	}
	whole.value = strings.TrimSpace(strings.Join(texts, "\n"))
	return []stated{whole}
}

func (r Rule) judge(w task.NamedAnswer, given []stated, faithful bool) SubAnswer {
	s := SubAnswer{Name: w.Name, Want: w.Value}
	if len(given) == 0 {
		s.Reason = "not answered"
		return s
	}
	s.Answered, s.Got, s.Claim = true, given[0].value, given[0].claims[0].Node.ID
	for _, g := range given[1:] {
		if g.value != s.Got && (r.tooLong(g.value, s.Got) || r.Fixed(g.value, s.Got) < 1) {
			s.Reason = "several different values"
			return s
		}
	}
	s.Score = r.best(r.Fixed, w.Name, s.Got, w.Value)
	s.settle(r.tooLong(s.Got, w.Value))
	if s.Score == 0 || !faithful {
		return s
	}
	why := ""
	for _, g := range given {
		reason := unfaithful(g)
		if reason == "" {
			s.Claim = g.claims[0].Node.ID
			return s
		}
		if why == "" {
			why = reason
		}
	}
	s.Score, s.Right, s.Reason = 0, false, why
	return s
}

func unfaithful(g stated) string {
	for _, c := range g.claims {
		switch {
		case !c.Structural:
			return "the claim is not structurally grounded"
		case !c.Lexical:
			return "the claim brings new numbers"
		case c.Node.Kind == evidence.NodeAtomic && !fromPlaceholders(g.part(c), c.Node.Fields):
			return "the number does not come from a placeholder"
		}
	}
	return ""
}

// part is what of the value stands in claim c.
func (g stated) part(c *Claim) string {
	if len(g.claims) == 1 {
		return g.value
	}
	return c.Node.Text
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

// Answering are the claims that give a value to a required name, or, where an answer in words counts, are one.
func (r Rule) Answering(claims []Claim, want []task.NamedAnswer) []string {
	var ids []string
	for _, g := range r.statements(claims, want) {
		for _, c := range g.claims {
			ids = append(ids, c.Node.ID)
		}
	}
	return ids
}

// Attempted reports whether a required name has a value that counts: something is stated, in a grounded claim,
// and its numbers are no constants typed beside a placeholder.
func (r Rule) Attempted(claims []Claim, want []task.NamedAnswer) bool {
	return slices.ContainsFunc(r.statements(claims, want), func(g stated) bool {
		return strings.TrimSpace(g.value) != "" && unfaithful(g) == ""
	})
}

// statements are the values given to required names.
func (r Rule) statements(claims []Claim, want []task.NamedAnswer) []stated {
	names := map[string]bool{}
	for _, w := range want {
		names[w.Name] = true
	}
	var out []stated
	for i := range claims {
		for _, n := range named(claims[i].Node.Text) {
			if names[n.Name] {
				out = append(out, stated{n.Value, []*Claim{&claims[i]}})
			}
		}
	}
	if len(out) == 0 && !r.Tagged && len(names) == 1 {
		return r.untagged(claims)
	}
	return out
}
