package reward_test

import (
	"fmt"

	"github.com/verigraph/verigraph/reward"
)

// A preset is read strictly; a name that is not shipped says which are.
func ExampleLoadPreset() {
	p, err := reward.LoadPreset("outcome_only")
	fmt.Println(p.Weights.Outcome, err)
	_, err = reward.LoadPreset("outcome")
	fmt.Println(err != nil)
	// Output:
	// 1 <nil>
	// true
}
