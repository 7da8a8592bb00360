package evidence

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// minOwnWords is how many content words a reasoning needs besides "premise" when it names no word
// or number of a premise: "This follows from the premises." could stand under any inference.
const minOwnWords = 3

var premiseWords = wordSet("premise premises claim claims 前提")

func (g *Graph) checkReasoning(r InferRequest, premises []int) *Refusal {
	reasoning := strings.TrimSpace(r.Reasoning)
	switch {
	case len(reasoning) < g.cfg.MinReasoningBytes || reasoning == "":
		return refuse("infer_reasoning_short", "The reasoning is too short (at least %d bytes); say how the premises lead to the conclusion.", max(1, g.cfg.MinReasoningBytes))
	case len(r.Reasoning) > g.cfg.MaxReasoningBytes:
		return refuse("infer_reasoning_long", "The reasoning is longer than %d bytes; shorten it.", g.cfg.MaxReasoningBytes)
	}
	if bad := badText(r.Reasoning); bad != "" {
		return refuse("infer_characters", "The reasoning holds %s; write it with plain characters.", bad)
	}
	if slices.Equal(words(reasoning), words(r.Conclusion)) {
		return refuse("infer_reasoning_is_conclusion", "The reasoning only repeats the conclusion; say how the premises lead to it.")
	}
	for _, p := range premises {
		if refersTo(reasoning, &g.nodes[p]) {
			return nil
		}
	}
	if !speaksOfPremises(reasoning) {
		return refuse("infer_reasoning_unrelated", "The reasoning refers to no premise; name what the premises state and how the conclusion follows.")
	}
	return nil
}

// refersTo reports whether a reasoning names a premise by its id, by a number that it states, or by
// a content word of it.
func refersTo(reasoning string, premise *Node) bool {
	mentioned := words(reasoning)
	if slices.Contains(mentioned, premise.ID) {
		return true
	}
	content := map[string]bool{}
	for _, w := range words(premise.Text) {
		if contentWord(w) {
			content[stem(w)] = true
		}
	}
	for _, w := range mentioned {
		if contentWord(w) && content[stem(w)] {
			return true
		}
	}
	pool := givenRules.pool([]string{premise.Text}, "", "")
	for _, n := range allRules.scan(reasoning) {
		if slices.ContainsFunc(n.readings, func(r reading) bool { return pool.equal(n, r) }) {
			return true
		}
	}
	return false
}

func speaksOfPremises(reasoning string) bool {
	named := false
	own := map[string]bool{}
	for _, w := range words(reasoning) {
		switch {
		case premiseWords[w]:
			named = true
		case contentWord(w):
			own[w] = true
		}
	}
	return named && len(own) >= minOwnWords
}

// stem lets "correlations" name "correlation".
func stem(w string) string {
	if utf8.RuneCountInString(w) > 4 {
		w = strings.TrimSuffix(w, "s")
	}
	return w
}

// restated returns the premise that a conclusion merely repeats: the same words, or no word, number
// or negation that the premise does not have. A conclusion of several sentences repeats when each
// of them repeats some premise; the first one's is named.
func restated(conclusion string, premises []ClaimText) string {
	held := make([]substance, len(premises))
	for i, p := range premises {
		held[i] = substanceOf(p.Text)
	}
	repeats := func(text string) string {
		own := substanceOf(text)
		if i := slices.IndexFunc(held, own.repeats); i >= 0 {
			return premises[i].ID
		}
		return ""
	}
	if id := repeats(conclusion); id != "" {
		return id
	}
	first := ""
	for _, sentence := range sentences(conclusion) {
		if len(words(sentence)) == 0 {
			continue
		}
		id := repeats(sentence)
		if id == "" {
			return ""
		}
		if first == "" {
			first = id
		}
	}
	return first
}

// substance is a text's words, the set of those that carry content, and how many of them negate.
type substance struct {
	words   []string
	content map[string]bool
	negated int
}

func substanceOf(text string) substance {
	s := substance{words: words(text), content: map[string]bool{}}
	for _, w := range s.words {
		if fillers[w] {
			continue
		}
		if negations[w] {
			s.negated++
		}
		s.content[stem(w)] = true
	}
	return s
}

// repeats reports whether s says nothing that premise does not say.
func (s substance) repeats(premise substance) bool {
	if slices.Equal(s.words, premise.words) {
		return true
	}
	if len(s.content) == 0 || s.negated != premise.negated {
		return false
	}
	for w := range s.content {
		if !premise.content[w] {
			return false
		}
	}
	return true
}

func sentences(text string) []string {
	var out []string
	start := 0
	for i := range len(text) {
		ends := text[i] == '\n' || text[i] == ';' ||
			(text[i] == '.' || text[i] == '!' || text[i] == '?') && (i+1 == len(text) || text[i+1] == ' ' || text[i+1] == '\n')
		if ends {
			out = append(out, text[start:i])
			start = i + 1
		}
	}
	return append(out, text[start:])
}
