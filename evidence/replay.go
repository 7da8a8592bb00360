package evidence

import (
	"slices"
	"strings"
)

// ReplayOutcome is what running a claim's cells again in a fresh session gave.
type ReplayOutcome string

// Outcomes of a replay. The zero value means that the claim was not run again.
const (
	// ReplaySame: the same text, clocks, addresses and paths aside.
	ReplaySame ReplayOutcome = "same"
	// ReplayTampered: two replays agree with each other and not with the stored text.
	ReplayTampered ReplayOutcome = "tampered"
	// ReplayNondeterministic: two replays differ from each other, so nothing is known of tampering.
	ReplayNondeterministic ReplayOutcome = "nondeterministic"
)

// ReplayResult is what a replay says about one claim.
type ReplayResult struct {
	Claim   string        `json:"claim"`
	Outcome ReplayOutcome `json:"outcome"`
	// Detail says what differs.
	Detail string `json:"detail,omitempty"`
	// Constant are the placeholders whose number stayed the same under every change of the data.
	Constant []string `json:"constant,omitempty"`
	// Dodged: the claim was hardly ever made on changed data, so nothing is known of its dependence.
	Dodged bool `json:"dodged,omitempty"`
}

// Flags that a replay leaves, each followed by ":" and the claim's id. All but the last deny S to the
// claim and to all that is derived from it; that one is for a person.
const (
	FlagTampered         = "tampered"
	FlagFakeDependency   = "fake_dependency"
	FlagDodged           = "never_perturbed"
	FlagNondeterministic = "nondeterministic"
)

// ApplyReplay stores what a replay found: R of every submitted claim all of whose claims were run
// again, the flags, and S computed again. It is pure and may be applied twice.
func (e *Export) ApplyReplay(results []ReplayResult) {
	found := make(map[string]ReplayResult, len(results))
	for _, r := range results {
		found[r.Claim] = r
		switch {
		case r.Outcome == ReplayTampered:
			e.addFlag(FlagTampered + ":" + r.Claim)
		case r.Outcome == ReplayNondeterministic:
			e.addFlag(FlagNondeterministic + ":" + r.Claim)
		}
		if len(r.Constant) > 0 {
			e.addFlag(FlagFakeDependency + ":" + r.Claim)
		}
		if r.Dodged {
			e.addFlag(FlagDodged + ":" + r.Claim)
		}
	}
	v := e.view()
	e.Grounding = e.ComputeGrounding()
	for i := range e.Grounding {
		replayed, why := v.replayed(e.Grounding[i].Claim, found)
		e.Grounding[i].Replayed = replayed
		if e.Grounding[i].Why == "" && isFalse(replayed) {
			e.Grounding[i].Why = why
		}
	}
}

// replayed is nil unless every claim that id rests on was run again.
func (v *view) replayed(id string, found map[string]ReplayResult) (same *bool, why string) {
	at, ok := v.index[id]
	if !ok {
		return nil, ""
	}
	yes := true
	for _, node := range v.claimsBelow(at) {
		r, ran := found[v.e.Nodes[node].ID]
		if !ran || r.Outcome == "" {
			return nil, ""
		}
		if r.Outcome != ReplaySame && yes {
			yes, why = false, r.Claim+": "+string(r.Outcome)+": "+short(r.Detail)
		}
	}
	return &yes, why
}

func (e *Export) addFlag(flag string) {
	if !slices.Contains(e.Flags, flag) {
		// A copy: exports share the slice with what they were copied from.
		e.Flags = append(slices.Clone(e.Flags), flag)
	}
}

// denials are the claims to which a replay denied S, with the reason.
func (e *Export) denials() map[string]string {
	out := map[string]string{}
	for _, flag := range e.Flags {
		kind, claim, ok := strings.Cut(flag, ":")
		switch {
		case !ok:
		case kind == FlagTampered:
			out[claim] = "a replay gives another text"
		case kind == FlagFakeDependency:
			out[claim] = "a number that it binds does not change with the data"
		case kind == FlagDodged:
			out[claim] = "the code that makes it runs on the original data only"
		}
	}
	return out
}

// ClaimsUnder lists the claims that the submitted ones rest on, themselves included, in creation
// order: what a replay has to check.
func (e *Export) ClaimsUnder() []Node {
	v := e.view()
	seen := make([]bool, len(e.Nodes))
	var stack []int
	for _, id := range e.Submitted {
		if at, ok := v.index[id]; ok {
			stack = append(stack, at)
		}
	}
	v.mark(stack, seen, func(in incoming) bool { return in.kind == EdgeDerive })
	var out []Node
	for i, ok := range seen {
		if ok && e.Nodes[i].isClaim() {
			out = append(out, e.Nodes[i])
		}
	}
	return out
}

// SourcesUnder names the data files that a node depends on in any way, control included.
func (e *Export) SourcesUnder(id string) []string {
	v := e.view()
	at, ok := v.index[id]
	if !ok {
		return nil
	}
	seen := make([]bool, len(e.Nodes))
	v.mark([]int{at}, seen, func(incoming) bool { return true })
	var out []string
	for i, reached := range seen {
		if reached && e.Nodes[i].Kind == NodeSource {
			out = append(out, e.Nodes[i].Name)
		}
	}
	return out
}

// UntrackedUnder lists the untracked values that a node depends on in any way.
func (e *Export) UntrackedUnder(id string) []UntrackedMark {
	v := e.view()
	at, ok := v.index[id]
	if !ok {
		return nil
	}
	seen := make([]bool, len(e.Nodes))
	v.mark([]int{at}, seen, func(incoming) bool { return true })
	type place struct {
		turn            int
		construct, name string
	}
	under := map[place]bool{}
	for i, reached := range seen {
		if n := &e.Nodes[i]; reached && n.Untracked != "" {
			under[place{n.Turn, n.Untracked, n.Name}] = true
		}
	}
	var out []UntrackedMark
	for _, m := range e.Untracked {
		if under[place{m.Turn, m.Construct, m.Name}] {
			out = append(out, m)
		}
	}
	return out
}

// BoundNumbers are the indices of an atomic claim's fields that state a number which must come from
// the data: not one of the question, and no text or boolean without digits.
func (n *Node) BoundNumbers() []int {
	kinds := map[string]string{}
	for _, value := range n.Values {
		kinds[value.Name] = value.Kind
	}
	var out []int
	for i, f := range n.Fields {
		if !slices.Contains(n.Given, f.Name) && boundNumber(kinds[f.Name], f.Text) {
			out = append(out, i)
		}
	}
	return out
}
