package near_test

import (
	"fmt"

	"github.com/verigraph/verigraph/sft/near"
)

// Similarity estimates the Jaccard similarity of the shingles of two texts.
func ExampleSimilarity() {
	sketch := near.NewSketch(3)
	a := sketch.Of("the mean fare over all passengers of the ship is thirty four")
	fmt.Println(near.Similarity(&a, &a))
	// Output:
	// 1
}
