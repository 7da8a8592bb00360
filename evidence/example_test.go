package evidence_test

import (
	"fmt"

	"github.com/verigraph/verigraph/evidence"
)

// A conclusion may use the numbers of its premises and of the question, also rounded; any other is new.
func ExampleNewNumbers() {
	premises := []string{"The mean fare over 715 passengers is 34.65.", "The median fare is 15.74."}
	fmt.Println(evidence.NewNumbers("The mean of about 34.7 is above the median of 15.74.", premises, ""))
	fmt.Println(evidence.NewNumbers("The mean is 2.2 times the median.", premises, ""))
	// Output:
	// []
	// [2.2]
}
