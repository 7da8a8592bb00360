package policy_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"

	"github.com/verigraph/verigraph/policy"
	"github.com/verigraph/verigraph/policy/scripted"
)

// A call sends token ids and takes token ids; the scripted server speaks the wire of vLLM.
func ExampleClient_Complete() {
	script, err := scripted.ReadScript(strings.NewReader(`{"prompt_id": "fares", "turns": ["<code_interpreter>\n1\n</code_interpreter>"]}`), "script")
	if err != nil {
		panic(err)
	}
	engine, err := scripted.New(script, scripted.Defaults())
	if err != nil {
		panic(err)
	}
	server := httptest.NewServer(engine)
	defer server.Close()
	cfg := policy.Defaults()
	cfg.BaseURL, cfg.Model = server.URL, "scripted"
	client, err := policy.NewClient(cfg)
	if err != nil {
		panic(err)
	}
	defer client.Close()
	tok, err := scripted.Tokenizer()
	if err != nil {
		panic(err)
	}
	got, err := client.Complete(context.Background(), policy.Request{
		ID: "run/fares-0/0.0.0", Session: "run/fares-0/0", Prompt: tok.Encode("How many?"), MaxTokens: 64,
		Stop: []string{"</code_interpreter>"},
	})
	if err != nil {
		panic(err)
	}
	n, found := policy.Trim(tok, got.IDs, got.LogProbs, "</code_interpreter>")
	fmt.Println(got.Finish, len(got.IDs) == len(got.LogProbs), found)
	fmt.Println(string(tok.Decode(got.IDs[:n])))
	// Output:
	// stop true true
	// <code_interpreter>
	// 1
	// </code_interpreter>
}
