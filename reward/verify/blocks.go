package verify

import "strings"

// Blocks joins the units of one place into one: a layer of a triangle becomes a single unit, which rests on
// the one before it. Places and labels stay what they were.
func Blocks(items []Item) []Item {
	out := make([]Item, len(items))
	for i, it := range items {
		joined := it
		joined.Units = nil
		for _, u := range it.Units {
			n := len(joined.Units)
			if n > 0 && joined.Units[n-1].Place == u.Place {
				joined.Units[n-1].Text += "\n" + u.Text
				continue
			}
			block := Unit{Text: u.Text, Place: u.Place}
			if n > 0 {
				block.Premises = []int{n - 1}
			}
			joined.Units = append(joined.Units, block)
		}
		out[i] = joined
	}
	return out
}

// block checks a layer at once: every sum adds up, over numbers that the layers before gave or the problem.
func (Adder) block(problem string, earlier []string, block string) (bool, error) {
	known := map[int64]bool{}
	for _, text := range earlier {
		for line := range strings.Lines(text) {
			sum, err := parseSum(strings.TrimSpace(line))
			if err != nil {
				return false, err
			}
			known[sum[2]] = true
		}
	}
	for line := range strings.Lines(block) {
		sum, err := parseSum(strings.TrimSpace(line))
		if err != nil {
			return false, err
		}
		for _, operand := range sum[:2] {
			if len(earlier) > 0 && !known[operand] || len(earlier) == 0 && !given(problem, operand) {
				return false, nil
			}
		}
		if sum[0]+sum[1] != sum[2] {
			return false, nil
		}
	}
	return true, nil
}
