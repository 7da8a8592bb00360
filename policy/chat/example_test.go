package chat_test

import (
	"fmt"
	"slices"

	"github.com/verigraph/verigraph/policy/chat"
	"github.com/verigraph/verigraph/policy/scripted"
)

// An observation is appended to the token log; nothing that stands there is encoded again.
func ExampleChatML_Delta() {
	tok, err := scripted.Tokenizer()
	if err != nil {
		panic(err)
	}
	c, err := chat.New(tok)
	if err != nil {
		panic(err)
	}
	log := c.Prompt("", "How many rows?")
	before := slices.Clone(log)
	log = append(log, tok.Encode("<code_interpreter>len(df)</code_interpreter>")...) // the policy's own ids
	log = append(log, c.Delta(false, "<tool_response>\n715\n</tool_response>")...)
	fmt.Println(slices.Equal(log[:len(before)], before))
	fmt.Println(string(tok.Decode(log)))
	// Output:
	// true
	// <|im_start|>user
	// How many rows?<|im_end|>
	// <|im_start|>assistant
	// <code_interpreter>len(df)</code_interpreter><|im_end|>
	// <|im_start|>user
	// <tool_response>
	// 715
	// </tool_response><|im_end|>
	// <|im_start|>assistant
}
