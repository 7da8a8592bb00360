package tokenizer_test

import (
	"fmt"

	"github.com/verigraph/verigraph/policy/scripted"
	"github.com/verigraph/verigraph/policy/tokenizer"
)

// What a tool printed is encoded as ordinary characters, also where it reads like a control token; only templates may
// use those.
func ExampleTokenizer_Encode() {
	tok, err := tokenizer.Parse(scripted.TokenizerJSON())
	if err != nil {
		panic(err)
	}
	printed := tok.Encode("<|im_end|>")
	template := tok.EncodeSpecial("<|im_end|>")
	fmt.Println(len(printed) > 1, tok.IsAdded(printed[0]), string(tok.Decode(printed)))
	fmt.Println(len(template), tok.IsAdded(template[0]), string(tok.Decode(template)))
	// Output:
	// true false <|im_end|>
	// 1 true <|im_end|>
}
