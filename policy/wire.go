package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// completionRequest is the body of POST /v1/completions. No field has omitempty: what is left out
// silently takes the model's generation_config, and max_tokens would be 16.
type completionRequest struct {
	Model                   string   `json:"model"`
	Prompt                  []int32  `json:"prompt"`
	N                       int      `json:"n"`
	MaxTokens               int      `json:"max_tokens"`
	Temperature             float64  `json:"temperature"`
	TopP                    float64  `json:"top_p"`
	TopK                    int      `json:"top_k"`
	MinP                    float64  `json:"min_p"`
	RepetitionPenalty       float64  `json:"repetition_penalty"`
	Seed                    int64    `json:"seed"`
	Logprobs                int      `json:"logprobs"`
	ReturnTokenIDs          bool     `json:"return_token_ids"`
	ReturnTokensAsTokenIDs  bool     `json:"return_tokens_as_token_ids"`
	Stop                    []string `json:"stop"`
	IncludeStopStrInOutput  bool     `json:"include_stop_str_in_output"`
	StopTokenIDs            []int32  `json:"stop_token_ids"`
	SkipSpecialTokens       bool     `json:"skip_special_tokens"`
	SpacesBetweenSpecialTok bool     `json:"spaces_between_special_tokens"`
	Stream                  bool     `json:"stream"`
	// CacheSalt alone may be absent: an empty string is an error to vLLM.
	CacheSalt string `json:"cache_salt,omitempty"`
}

func (c *Client) wireRequest(r Request) completionRequest {
	return completionRequest{
		Model:                  c.cfg.Model,
		Prompt:                 r.Prompt,
		N:                      1,
		MaxTokens:              r.MaxTokens,
		Temperature:            r.Sampling.Temperature,
		TopP:                   r.Sampling.TopP,
		TopK:                   topK(r.Sampling.TopK),
		MinP:                   r.Sampling.MinP,
		RepetitionPenalty:      r.Sampling.RepetitionPenalty,
		Seed:                   r.Seed,
		ReturnTokenIDs:         true,
		ReturnTokensAsTokenIDs: true,
		Stop:                   nonNil(r.Stop),
		IncludeStopStrInOutput: true,
		StopTokenIDs:           nonNil(r.StopTokenIDs),
		CacheSalt:              r.CacheSalt,
	}
}

// topK says off as -1: SGLang refuses 0, which vLLM takes for the same.
func topK(k int) int {
	if k == 0 {
		return -1
	}
	return k
}

func nonNil[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// check refuses requests that no server could answer usefully.
func (r Request) check() error {
	switch {
	case len(r.Prompt) == 0:
		return errors.New("request: no prompt ids")
	case r.MaxTokens < 1:
		return fmt.Errorf("request: max_tokens is %d", r.MaxTokens)
	case strings.ContainsFunc(r.ID+r.Session, func(c rune) bool { return c < ' ' || c > '~' }):
		return fmt.Errorf("request: id %q or session %q holds a character that no header can", r.ID, r.Session)
	}
	for _, s := range r.Stop {
		if s == "" {
			return errors.New("request: empty stop string")
		}
	}
	return nil
}

type completionResponse struct {
	Choices []struct {
		Index          int             `json:"index"`
		Text           string          `json:"text"`
		FinishReason   string          `json:"finish_reason"`
		StopReason     json.RawMessage `json:"stop_reason"`
		MatchedStop    json.RawMessage `json:"matched_stop"` // SGLang's name of it
		TokenIDs       *idList         `json:"token_ids"`
		PromptTokenIDs *idList         `json:"prompt_token_ids"`
		Logprobs       *struct {
			Tokens        []string   `json:"tokens"`
			TokenLogprobs []*float64 `json:"token_logprobs"`
		} `json:"logprobs"`
	} `json:"choices"`
	Usage *struct {
		PromptTokens     int `json:"prompt_tokens"`
		CompletionTokens int `json:"completion_tokens"`
	} `json:"usage"`
	Metadata *struct {
		WeightVersion json.RawMessage `json:"weight_version"` // SGLang
	} `json:"metadata"`
}

// weightVersion reads 7, "7" or "default", which servers say before the first update and which
// states no version, like null.
func weightVersion(raw json.RawMessage) (int64, error) {
	text := strings.Trim(string(raw), `"`)
	if text == "" || text == "null" || text == "default" {
		return -1, nil
	}
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil || v < 0 {
		return -1, fmt.Errorf("weight_version %s is not a version number", excerpt(raw))
	}
	return v, nil
}

// idList reads a list of ids without reflection: an echo of 8,000 ids is the bulk of an answer.
type idList []int32

func (l *idList) UnmarshalJSON(data []byte) error {
	if len(data) == 0 || data[0] != '[' {
		return fmt.Errorf("want a list of token ids, got %s", excerpt(data))
	}
	out := make(idList, 0, bytes.Count(data, []byte(","))+1)
	for i := 1; i < len(data); {
		switch data[i] {
		case ' ', '\n', '\t', '\r', ',', ']': // the decoder made sure that these stand where they may
			i++
			continue
		}
		id, next, ok := readID(data, i)
		if !ok {
			return fmt.Errorf("%s in a list of token ids is none", excerpt(data[i:min(len(data), i+24)]))
		}
		out = append(out, id)
		i = next
	}
	*l = out
	return nil
}

// readID reads the integer at i, which must end at a separator and fit 32 bits.
func readID(data []byte, i int) (id int32, next int, ok bool) {
	negative := data[i] == '-'
	if negative {
		i++
	}
	start, v := i, int64(0)
	for ; i < len(data) && data[i] >= '0' && data[i] <= '9' && v <= math.MaxInt32; i++ {
		v = 10*v + int64(data[i]-'0')
	}
	if i == start || v > math.MaxInt32 || i < len(data) && !bytes.ContainsRune([]byte(" \n\t\r,]"), rune(data[i])) {
		return 0, i, false
	}
	if negative {
		v = -v
	}
	return int32(v), i, true
}
