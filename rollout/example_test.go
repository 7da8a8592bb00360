package rollout_test

import (
	"fmt"

	"github.com/verigraph/verigraph/policy"
	"github.com/verigraph/verigraph/policy/chat"
	"github.com/verigraph/verigraph/policy/scripted"
	"github.com/verigraph/verigraph/rollout"
)

// A trajectory is a machine without I/O: it says what it needs, and takes what came of it.
func ExampleMachine() {
	tok, err := scripted.Tokenizer()
	if err != nil {
		panic(err)
	}
	c, err := chat.New(tok)
	if err != nil {
		panic(err)
	}
	m := rollout.NewMachine(rollout.Defaults(), tok, c, c.Prompt("", "How many rows?"))
	turns := []string{"<code_interpreter>\nprint(len(df))\n</code_interpreter>", "There are 715 rows."}
	for done := false; !done; {
		switch step := m.Next().(type) {
		case rollout.Generate:
			ids := tok.Encode(turns[0])
			finish := policy.Completion{IDs: ids, LogProbs: make([]float32, len(ids)), Finish: "stop"}
			turns = turns[1:]
			m.Sampled(finish, 7, 7)
		case rollout.RunCell:
			fmt.Println("run:", step.Code)
			m.Observed("<tool_response>\n715\n</tool_response>", false)
		case rollout.End:
			fmt.Println("ended:", step.Reason)
			done = true
		}
	}
	s := m.Segments()[0]
	fmt.Println(s.Check(), s.Spans[0].Kind, s.Spans[0].PolicyVersion, len(s.ResponseIDs) == len(s.LogProbs))
	// Output:
	// run: print(len(df))
	// ended: no_submission
	// <nil> sampled 7 true
}
