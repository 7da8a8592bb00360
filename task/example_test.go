package task_test

import (
	"fmt"

	"github.com/verigraph/verigraph/task"
)

// Every call to the policy carries the rollout, the attempt and the turn, so that a line in the engine's log can be
// found again here.
func ExampleRolloutID() {
	id := task.RolloutID{Run: "first", Dispatch: task.NewDispatchID("429", 1), Sample: 3}
	fmt.Println(id)
	sent := id.RequestID(0, 2)
	fmt.Println(sent)
	back, attempt, turn, err := task.ParseRequestID(sent)
	fmt.Println(back == id, attempt, turn, err)
	// Output:
	// first/429-1/3
	// first/429-1/3.0.2
	// true 0 2 <nil>
}
