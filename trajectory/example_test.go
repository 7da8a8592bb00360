package trajectory_test

import (
	"fmt"

	"github.com/verigraph/verigraph/trajectory"
)

// Check is what every row passes before it leaves: one fault, and it never becomes a training row.
func ExampleSegment_Check() {
	s := trajectory.Segment{
		PromptIDs:    []int32{1, 2},
		ResponseIDs:  []int32{3, 4},
		ResponseMask: []int8{1, 1},
		LogProbs:     []float32{-0.1},
	}
	fmt.Println(s.Check())
	// Output:
	// segment: 2 response ids, 2 mask values, 1 log-probs
}
