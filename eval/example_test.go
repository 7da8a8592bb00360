package eval_test

import (
	"fmt"

	"github.com/verigraph/verigraph/eval"
)

// With 4 samples of which 1 is right, one sample is right in 25 %, two hold a right one in 50 %.
func ExamplePassAtK() {
	fmt.Println(eval.PassAtK(4, 1, 1), eval.PassAtK(4, 1, 2), eval.PassAtK(4, 1, 4))
	// Output:
	// 0.25 0.5 1
}

// Of ten items that only one of two policies got right, nine fell to one side.
func ExampleMcNemar() {
	fmt.Printf("%.4f\n", eval.McNemar(9, 1))
	// Output:
	// 0.0215
}
