package evidence

import (
	"regexp"
	"slices"
	"strings"
)

// placeholderLike finds what a format call would fill: {name}, {name:.2f}, {0}, {}. A set or a dict
// in braces is not one.
var placeholderLike = regexp.MustCompile(`\{([A-Za-z_][A-Za-z0-9_]*([.\[][^{}]*)?(![rsa])?(:[^ {}][^{}]*)?|[0-9]*)\}`)

// Infer makes a derived claim, or says why not.
func (c *Cell) Infer(r InferRequest) (id, text string, refusal *Refusal) {
	if refusal = c.open("infer"); refusal != nil {
		return "", "", refusal
	}
	g := c.g
	premises, refusal := g.premises(r.Premises)
	if refusal == nil {
		refusal = g.checkConclusion(r.Conclusion)
	}
	if refusal == nil {
		refusal = g.checkReasoning(r, premises)
	}
	if refusal == nil {
		refusal = g.room(1)
	}
	if refusal != nil {
		return "", "", c.refuse("infer", refusal)
	}
	texts := make([]string, len(premises))
	for i, p := range premises {
		texts[i] = g.nodes[p].Text
	}
	numbers := NewNumbers(r.Conclusion, texts, g.task.Question)
	if len(numbers) > 0 && g.cfg.NumberRule == NumberReject {
		return "", "", c.refuse("infer", refuse("infer_new_number",
			"The conclusion states %s, which no premise holds; bind it from the data first, or leave it out.", short(strings.Join(numbers, ", "))))
	}
	return g.addDerived(c.turn, c.next, r, premises, numbers), r.Conclusion, nil
}

// premises resolves claim ids to nodes, each once, in order.
func (g *Graph) premises(ids []string) ([]int, *Refusal) {
	var out []int
	for _, id := range ids {
		node, ok := g.claims[id]
		if !ok {
			return nil, refuse("infer_unknown_premise", "The premise %q is no claim; pass claims that bind or infer returned.", short(id))
		}
		if !slices.Contains(out, node) {
			out = append(out, node)
		}
		if len(out) > g.cfg.MaxPremises {
			return nil, refuse("infer_too_many_premises", "More than %d premises; infer an intermediate claim first.", g.cfg.MaxPremises)
		}
	}
	if len(out) == 0 {
		return nil, refuse("infer_no_premise", "An inference needs at least one premise; bind the facts first and pass their claims.")
	}
	return out, nil
}

func (g *Graph) checkConclusion(conclusion string) *Refusal {
	switch {
	case strings.TrimSpace(conclusion) == "":
		return refuse("infer_empty_conclusion", "The conclusion is empty; state what follows from the premises.")
	case len(conclusion) > g.cfg.MaxClaimBytes:
		return refuse("infer_conclusion_length", "The conclusion is longer than %d bytes; shorten it or split it.", g.cfg.MaxClaimBytes)
	case placeholderLike.MatchString(conclusion):
		return refuse("infer_placeholder", "The conclusion holds a placeholder (%s); infer fills none, so state the premises' values as text.",
			short(placeholderLike.FindString(conclusion)))
	}
	if bad := badText(conclusion); bad != "" {
		return refuse("infer_characters", "The conclusion holds %s; write it with plain characters.", bad)
	}
	return nil
}

func (g *Graph) addDerived(turn, statement int, r InferRequest, premises []int, numbers []string) string {
	node := Node{
		ID: g.claimID(), Kind: NodeDerived, Turn: turn, Statement: statement,
		Text: r.Conclusion, Reasoning: r.Reasoning, NewNumbers: numbers,
	}
	var inputs []input
	claims := make([]ClaimText, len(premises))
	for i, p := range premises {
		inputs = append(inputs, input{node: p, kind: EdgeDerive})
		claims[i] = ClaimText{ID: g.nodes[p].ID, Text: g.nodes[p].Text}
	}
	node.Restates = restated(r.Conclusion, claims)
	if node.Restates != "" {
		g.flag("restated_premise:" + node.ID)
	}
	if len(numbers) > 0 && g.cfg.NumberRule == NumberFlag {
		g.flag("number_flagged:" + node.ID)
	}
	g.claims[node.ID] = g.add(node, inputs)
	return node.ID
}
