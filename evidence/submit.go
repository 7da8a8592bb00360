package evidence

import "slices"

// Submit takes the trajectory's answer. The first accepted submission counts.
func (c *Cell) Submit(r SubmitRequest) *Refusal {
	if refusal := c.open("submit_answer"); refusal != nil {
		return refusal
	}
	g := c.g
	if g.Submitted() {
		return c.refuse("submit_answer", refuse("submit_twice", "An answer was submitted already; the first submission counts."))
	}
	var ids []string
	for _, id := range r.Claims {
		if _, ok := g.claims[id]; !ok {
			return c.refuse("submit_answer", refuse("submit_unknown_claim", "%q is no claim; submit claims that bind or infer returned.", short(id)))
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return c.refuse("submit_answer", refuse("submit_no_claim", "Nothing was submitted; pass at least one claim that bind or infer returned."))
	}
	g.submitted, g.submitTurn = ids, c.turn
	return nil
}
