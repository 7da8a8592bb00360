package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// clampedLogProb is what vLLM writes for minus infinity.
const clampedLogProb = -9999

// maxLogProb allows for rounding above 0.
const maxLogProb = 0.01

// readCompletion accepts an answer only if everything in it agrees with the request and with itself.
func readCompletion(data []byte, r Request) (Completion, error) {
	var a completionResponse
	if err := json.Unmarshal(data, &a); err != nil {
		return Completion{}, fmt.Errorf("answer is no completion (%v): %s", err, excerpt(data))
	}
	if len(a.Choices) != 1 || a.Choices[0].Index != 0 {
		return Completion{}, fmt.Errorf("answer has %d choices, want one: %s", len(a.Choices), excerpt(data))
	}
	ch := a.Choices[0]
	if ch.TokenIDs == nil {
		return Completion{}, errors.New("answer has no token_ids: the server ignored return_token_ids (vLLM before 0.10.2?)")
	}
	if ch.PromptTokenIDs == nil {
		return Completion{}, errors.New("answer has no prompt_token_ids: the server ignored return_token_ids")
	}
	ids := *ch.TokenIDs
	if err := checkEcho(*ch.PromptTokenIDs, r.Prompt); err != nil {
		return Completion{}, err
	}
	if err := checkIDs(ids, ch.FinishReason, r.MaxTokens); err != nil {
		return Completion{}, err
	}
	if a.Usage == nil {
		return Completion{}, errors.New("answer has no usage")
	}
	if a.Usage.PromptTokens != len(r.Prompt) || a.Usage.CompletionTokens != len(ids) {
		return Completion{}, fmt.Errorf("usage counts %d prompt and %d sampled tokens, the ids are %d and %d",
			a.Usage.PromptTokens, a.Usage.CompletionTokens, len(r.Prompt), len(ids))
	}
	if ch.Logprobs == nil {
		return Completion{}, errors.New("answer has no logprobs: the server ignored logprobs, or has them turned off (max-logprobs)")
	}
	if err := checkTokenStrings(ch.Logprobs.Tokens, ids); err != nil {
		return Completion{}, err
	}
	logprobs, err := checkLogProbs(ch.Logprobs.TokenLogprobs, ids)
	if err != nil {
		return Completion{}, err
	}
	out := Completion{IDs: ids, LogProbs: logprobs, Finish: ch.FinishReason, Text: ch.Text, WeightVersion: -1}
	if err := out.setStop(ch.StopReason, ch.MatchedStop); err != nil {
		return Completion{}, err
	}
	if a.Metadata != nil {
		if out.WeightVersion, err = weightVersion(a.Metadata.WeightVersion); err != nil {
			return Completion{}, err
		}
	}
	return out, nil
}

func checkEcho(echo, sent []int32) error {
	if len(echo) != len(sent) {
		return fmt.Errorf("answer echoes %d prompt ids, %d were sent", len(echo), len(sent))
	}
	for i := range echo {
		if echo[i] != sent[i] {
			return fmt.Errorf("answer echoes prompt id %d at position %d, %d was sent", echo[i], i, sent[i])
		}
	}
	return nil
}

func checkIDs(ids []int32, finish string, maxTokens int) error {
	if !slices.Contains([]string{"stop", "length", "abort", "repetition"}, finish) {
		return fmt.Errorf("finish_reason %q is unknown", finish)
	}
	if len(ids) == 0 && finish != "abort" {
		return fmt.Errorf("answer finished with %q and holds no token", finish)
	}
	if len(ids) > maxTokens {
		return fmt.Errorf("answer holds %d tokens, max_tokens was %d", len(ids), maxTokens)
	}
	for i, id := range ids {
		if id < 0 {
			return fmt.Errorf("token id %d at position %d", id, i)
		}
	}
	return nil
}

// checkTokenStrings compares "token_id:N" with the ids. SGLang doesn't know the option and gives
// the tokens' text, which says nothing; a mixture is an error.
func checkTokenStrings(tokens []string, ids []int32) error {
	if len(tokens) == 0 {
		return nil
	}
	if len(tokens) != len(ids) {
		return fmt.Errorf("answer has %d token strings and %d token ids", len(tokens), len(ids))
	}
	_, stated := strings.CutPrefix(tokens[0], "token_id:")
	for i, text := range tokens {
		n, ok := strings.CutPrefix(text, "token_id:")
		if ok != stated {
			return fmt.Errorf("token string %q at position %d: only some state their id", excerpt([]byte(text)), i)
		}
		if stated && n != strconv.Itoa(int(ids[i])) {
			return fmt.Errorf("token string %q at position %d, the id is %d", excerpt([]byte(text)), i, ids[i])
		}
	}
	return nil
}

func checkLogProbs(raw []*float64, ids []int32) ([]float32, error) {
	if len(raw) != len(ids) {
		return nil, fmt.Errorf("answer has %d log-probs and %d token ids", len(raw), len(ids))
	}
	out := make([]float32, len(raw))
	for i, p := range raw {
		if p == nil {
			return nil, fmt.Errorf("log-prob at position %d is null", i)
		}
		lp := float32(*p)
		if math.IsNaN(*p) || math.IsInf(float64(lp), 0) || *p <= clampedLogProb || *p > maxLogProb {
			return nil, fmt.Errorf("log-prob %g at position %d", *p, i)
		}
		out[i] = lp
	}
	return out, nil
}

// setStop reads the stop string or stop id; null and absence mean the model's own end token.
func (c *Completion) setStop(stopReason, matchedStop json.RawMessage) error {
	raw := stopReason
	if len(raw) == 0 || string(raw) == "null" {
		raw = matchedStop
	}
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	if json.Unmarshal(raw, &c.StopString) == nil {
		return nil
	}
	var id int32
	if err := json.Unmarshal(raw, &id); err != nil {
		return fmt.Errorf("stop_reason %s is neither a string nor a token id", excerpt(raw))
	}
	c.StopToken = &id
	return nil
}

// excerpt is the beginning of a body, in one line, for an error's text.
func excerpt(data []byte) string {
	const limit = 200
	cut := data
	if len(cut) > 4*limit {
		cut = cut[:4*limit]
	}
	text := strings.ToValidUTF8(string(bytes.Join(bytes.Fields(cut), []byte(" "))), "\ufffd")
	if runes := []rune(text); len(runes) > limit {
		return string(runes[:limit]) + "…"
	}
	return text
}
