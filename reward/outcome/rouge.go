package outcome

import (
	"regexp"
	"strings"
)

var rougeToken = regexp.MustCompile(`[a-z0-9]+`)

// maxRougeTokens bounds the quadratic subsequence; references have at most some hundred tokens.
const maxRougeTokens = 4000

// RougeL is the F-measure of the longest common subsequence of tokens, without stemming.
func RougeL(got, want string) float64 {
	a := rougeToken.FindAllString(strings.ToLower(got), maxRougeTokens)
	b := rougeToken.FindAllString(strings.ToLower(want), maxRougeTokens)
	if len(a) == 0 || len(b) == 0 {
		return 0
	}
	common := float64(commonSubsequence(a, b))
	if common == 0 {
		return 0
	}
	precision, recall := common/float64(len(a)), common/float64(len(b))
	return 2 * precision * recall / (precision + recall)
}

func commonSubsequence(a, b []string) int {
	last, row := make([]int, len(b)+1), make([]int, len(b)+1)
	for i := range a {
		for j := range b {
			if a[i] == b[j] {
				row[j+1] = last[j] + 1
			} else {
				row[j+1] = max(last[j+1], row[j])
			}
		}
		last, row = row, last
	}
	return last[len(b)]
}
