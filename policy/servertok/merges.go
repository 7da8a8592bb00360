package servertok

import "slices"

// deriveMerges gives the merge that makes each token of two bytes or more, in order: what the merges
// before it leave of its bytes is two parts. rest are the tokens that are left in more parts.
func deriveMerges(tokens [][]byte) (merges [][2][]byte, rest []int32) {
	ranks := map[[2]string]int{}
	for id, b := range tokens {
		if len(b) < 2 {
			continue
		}
		parts := encode(b, ranks)
		if len(parts) != 2 {
			rest = append(rest, int32(id))
			continue
		}
		ranks[[2]string{parts[0], parts[1]}] = len(merges)
		merges = append(merges, [2][]byte{[]byte(parts[0]), []byte(parts[1])})
	}
	return merges, rest
}

// encode applies the merges to bytes: always the one of lowest rank, leftmost first.
func encode(b []byte, ranks map[[2]string]int) []string {
	parts := make([]string, len(b))
	for i := range b {
		parts[i] = string(b[i : i+1])
	}
	for {
		best, at := -1, -1
		for i := range len(parts) - 1 {
			if rank, ok := ranks[[2]string{parts[i], parts[i+1]}]; ok && (best < 0 || rank < best) {
				best, at = rank, i
			}
		}
		if at < 0 {
			return parts
		}
		parts[at] += parts[at+1]
		parts = slices.Delete(parts, at+1, at+2)
	}
}
