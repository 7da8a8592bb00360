package leader_test

import (
	"fmt"

	"github.com/verigraph/verigraph/dataset/leader"
)

// Two runs share one pool of workers by weight; what a run does not want the others have.
func ExampleDivide() {
	training := leader.Claim{Run: "training", Share: leader.Share{Capacity: 12, Weight: 3}, Wants: 100}
	ablation := leader.Claim{Run: "ablation", Share: leader.Share{Capacity: 12, Weight: 1}, Wants: 100}
	fmt.Println(leader.Divide([]leader.Claim{training, ablation}))
	training.Wants = 2
	fmt.Println(leader.Divide([]leader.Claim{training, ablation}))
	// Output:
	// map[ablation:3 training:9]
	// map[ablation:10 training:2]
}
