package outcome

// maxSimilar bounds the texts whose similarity is computed. From 200 characters on Python's matcher
// leaves out frequent characters, which nothing here imitates: longer texts must be equal.
const maxSimilar = 199

// similarity is 2*matches/total over the matching blocks that Python's SequenceMatcher finds: the
// longest common block first (the earliest of equal ones), then left and right of it.
func similarity(a, b string) float64 {
	x, y := []rune(a), []rune(b)
	if len(x) > maxSimilar || len(y) > maxSimilar {
		return 0
	}
	if len(x)+len(y) == 0 {
		return 1
	}
	return 2 * float64(matches(x, y)) / float64(len(x)+len(y))
}

func matches(a, b []rune) int {
	i, j, size := longestBlock(a, b)
	if size == 0 {
		return 0
	}
	return size + matches(a[:i], b[:j]) + matches(a[i+size:], b[j+size:])
}

func longestBlock(a, b []rune) (atA, atB, size int) {
	last, row := make([]int, len(b)+1), make([]int, len(b)+1)
	for i := range a {
		for j := range b {
			row[j+1] = 0
			if a[i] == b[j] {
				row[j+1] = last[j] + 1
				if row[j+1] > size {
					size = row[j+1]
					atA, atB = i-size+1, j-size+1
				}
			}
		}
		last, row = row, last
	}
	return atA, atB, size
}
