package parquet_test

import (
	"bytes"
	"fmt"

	"github.com/verigraph/verigraph/dataset"
	"github.com/verigraph/verigraph/dataset/parquet"
)

// A batch is one Parquet object: rows of whole groups, and what they were made with in the file's own metadata.
func ExampleWrite() {
	meta := dataset.Meta{Run: "first", Model: "model", RewardPreset: "default", PromptLength: 4, ResponseLength: 4, OverlongOwner: dataset.OverlongNone}
	row := dataset.Row{
		UID: "429-0", RolloutID: "first/429-0/0", PromptIDs: []int32{1, 2}, ResponseIDs: []int32{3, 4},
		ResponseMask: []int8{1, 1}, RolloutLogProbs: []float32{-0.5, -0.25}, Reward: 0.9, TerminationReason: "submitted",
	}
	var object bytes.Buffer
	if err := parquet.Write(&object, meta, []dataset.Row{row}); err != nil {
		panic(err)
	}
	back, rows, err := parquet.Read(bytes.NewReader(object.Bytes()), int64(object.Len()))
	fmt.Println(back.RewardPreset, rows[0].UID, rows[0].ResponseIDs, rows[0].RolloutLogProbs, err)
	// Output:
	// default 429-0 [3 4] [-0.5 -0.25] <nil>
}
