package leader

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// Share is what a run may take of the groups that all runs on one broker may have in work.
type Share struct {
	// Capacity is the number of groups that the workers of all runs have room for, the same in the
	// configuration of every run; 0 shares nothing.
	Capacity int `yaml:"capacity" json:"capacity"`
	// Weight is the run's part of it while others want more too.
	Weight float64 `yaml:"weight" json:"weight"`
	// Priority: what a run of a higher one wants is served first.
	Priority int `yaml:"priority" json:"priority"`
	// Quota bounds the run's groups in work; 0 does not.
	Quota int `yaml:"quota" json:"quota"`
}

func (s Share) validate() error {
	var errs []error
	if s.Capacity < 0 || s.Quota < 0 {
		errs = append(errs, fmt.Errorf("leader.share: capacity %d and quota %d must not be negative", s.Capacity, s.Quota))
	}
	if !(s.Weight > 0) {
		errs = append(errs, fmt.Errorf("leader.share.weight: %g, want more than 0", s.Weight))
	}
	return errors.Join(errs...)
}

// Claim is a run's share and how many groups it could have in work now.
type Claim struct {
	Run string `json:"run"`
	Share
	Wants int `json:"wants"`
}

// Divide says how many groups each run may have in work. Higher priorities are served first; within one,
// each place goes to the run that has the least for its weight, so that nobody gets more than it wants or
// its quota, and what one does not want the others have. A capacity that the runs disagree on is the
// smallest one.
func Divide(claims []Claim) map[string]int {
	given := map[string]int{}
	if len(claims) == 0 {
		return given
	}
	claims = slices.Clone(claims)
	slices.SortFunc(claims, func(a, b Claim) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Run, b.Run))
	})
	left := claims[0].Capacity
	for _, c := range claims {
		left = min(left, c.Capacity)
	}
	for len(claims) > 0 {
		n := slices.IndexFunc(claims, func(c Claim) bool { return c.Priority != claims[0].Priority })
		if n < 0 {
			n = len(claims)
		}
		left = divideLevel(claims[:n], left, given)
		claims = claims[n:]
	}
	return given
}

func divideLevel(claims []Claim, left int, given map[string]int) int {
	for ; left > 0; left-- {
		next := -1
		for i, c := range claims {
			if given[c.Run] >= c.limit() {
				continue
			}
			if next < 0 || float64(given[c.Run]+1)/c.Weight < float64(given[claims[next].Run]+1)/claims[next].Weight {
				next = i
			}
		}
		if next < 0 {
			break
		}
		given[claims[next].Run]++
	}
	return left
}

// limit is what the run can use at most.
func (c Claim) limit() int {
	if c.Quota > 0 {
		return min(c.Wants, c.Quota)
	}
	return c.Wants
}
