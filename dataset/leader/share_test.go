package leader

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func claim(run string, weight float64, priority, quota, wants int) Claim {
	return Claim{Run: run, Share: Share{Capacity: 12, Weight: weight, Priority: priority, Quota: quota}, Wants: wants}
}

func TestRunsShareThePlacesByPriorityThenWeightWithinTheirQuotas(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		claims []Claim
		want   map[string]int
	}{
		"alone, all of it":                       {[]Claim{claim("a", 1, 0, 0, 50)}, map[string]int{"a": 12}},
		"by weight":                              {[]Claim{claim("a", 1, 0, 0, 50), claim("b", 3, 0, 0, 50)}, map[string]int{"a": 3, "b": 9}},
		"what one does not want the others have": {[]Claim{claim("a", 1, 0, 0, 50), claim("b", 3, 0, 0, 2)}, map[string]int{"a": 10, "b": 2}},
		"a quota":                                {[]Claim{claim("a", 1, 0, 0, 50), claim("b", 3, 0, 4, 50)}, map[string]int{"a": 8, "b": 4}},
		"a quota stands also while places are free": {[]Claim{claim("a", 1, 0, 5, 50)}, map[string]int{"a": 5}},
		"a higher priority first":                   {[]Claim{claim("a", 9, 0, 0, 50), claim("b", 1, 1, 0, 8)}, map[string]int{"a": 4, "b": 8}},
		"nothing is left for a lower one":           {[]Claim{claim("a", 9, 0, 0, 50), claim("b", 1, 1, 0, 50)}, map[string]int{"b": 12}},
		"equal ones":                                {[]Claim{claim("a", 1, 0, 0, 50), claim("b", 1, 0, 0, 50), claim("c", 1, 0, 0, 50)}, map[string]int{"a": 4, "b": 4, "c": 4}},
		"nobody":                                    {nil, map[string]int{}},
	} {
		require.Equal(t, c.want, Divide(c.claims), name)
	}
}

func TestSharesNeverExceedTheCapacityNorLeaveAPlaceThatSomebodyWants(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var claims []Claim
		usable := 0
		for i := range 1 + r.IntN(6) {
			c := claim(string(rune('a'+i)), 0.1+5*r.Float64(), r.IntN(3), r.IntN(8), r.IntN(10))
			claims = append(claims, c)
			usable += c.limit()
		}
		given, sum := Divide(claims), 0
		for _, c := range claims {
			require.LessOrEqual(t, given[c.Run], c.limit())
			sum += given[c.Run]
		}
		require.Equal(t, min(12, usable), sum)
	}
}
