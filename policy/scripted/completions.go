package scripted

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/verigraph/verigraph/policy"
	"github.com/verigraph/verigraph/task"
)

// defaultMaxTokens is vLLM's, a trap for clients that leave max_tokens out.
const defaultMaxTokens = 16

type completionRequest struct {
	Model                  string          `json:"model"`
	Prompt                 json.RawMessage `json:"prompt"`
	N                      *int            `json:"n"`
	MaxTokens              *int            `json:"max_tokens"`
	Logprobs               *int            `json:"logprobs"`
	Stop                   json.RawMessage `json:"stop"`
	StopTokenIDs           []int32         `json:"stop_token_ids"`
	IncludeStopStrInOutput bool            `json:"include_stop_str_in_output"`
	ReturnTokenIDs         bool            `json:"return_token_ids"`
	ReturnTokensAsTokenIDs bool            `json:"return_tokens_as_token_ids"`
	Stream                 bool            `json:"stream"`
}

type completionResponse struct {
	ID      string   `json:"id"`
	Object  string   `json:"object"`
	Created int64    `json:"created"`
	Model   string   `json:"model"`
	Choices []choice `json:"choices"`
	Usage   usage    `json:"usage"`
	// Metadata is SGLang's: the version when the answer was made.
	Metadata map[string]string `json:"metadata,omitempty"`
}

type choice struct {
	Index          int       `json:"index"`
	Text           string    `json:"text"`
	Logprobs       *logprobs `json:"logprobs"`
	FinishReason   string    `json:"finish_reason"`
	StopReason     any       `json:"stop_reason,omitempty"`
	MatchedStop    any       `json:"matched_stop,omitempty"` // SGLang's name of it
	TokenIDs       []int32   `json:"token_ids"`
	PromptTokenIDs []int32   `json:"prompt_token_ids"`
}

type logprobs struct {
	Tokens        []string             `json:"tokens"`
	TokenLogprobs []float32            `json:"token_logprobs"`
	TopLogprobs   []map[string]float32 `json:"top_logprobs"`
	TextOffset    []int                `json:"text_offset"`
}

type usage struct {
	PromptTokens     int `json:"prompt_tokens"`
	CompletionTokens int `json:"completion_tokens"`
	TotalTokens      int `json:"total_tokens"`
}

func (s *Server) completions(w http.ResponseWriter, r *http.Request) {
	s.stats.running.Add(1)
	defer s.stats.running.Add(-1)
	resp, info, err := s.complete(r)
	if err != nil {
		s.writeError(w, err)
		return
	}
	if s.cfg.Latency != nil && !waitFor(r, s.cfg.Latency(info)) {
		// The client is gone, or the server is stopping: an empty 200 would look like a broken answer.
		panic(http.ErrAbortHandler)
	}
	if s.cfg.SGLang {
		resp.Metadata = map[string]string{"weight_version": strconv.FormatInt(s.version.Load(), 10)}
	}
	s.stats.finished(resp.Choices[0].FinishReason)
	writeJSON(w, http.StatusOK, resp)
}

func waitFor(r *http.Request, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.Context().Done():
		return false
	}
}

func (s *Server) complete(r *http.Request) (*completionResponse, CallInfo, error) {
	version := s.version.Load()
	var req completionRequest
	if err := readJSON(r, &req); err != nil {
		return nil, CallInfo{}, err
	}
	prompt, l, err := s.check(req)
	if err != nil {
		return nil, CallInfo{}, err
	}
	requestID := r.Header.Get("X-Request-Id")
	info := CallInfo{PromptTokens: len(prompt)}
	rest := s.cfg.Tokenizer.Encode(probeWords)
	if requestID != policy.ProbeRequestID {
		turn, err := s.find(requestID, &info)
		if err != nil {
			return nil, CallInfo{}, err
		}
		rest = s.sampler.rest(prompt, turn)
	}
	g := s.sampler.generate(prompt, rest, version, l)
	info.SampledTokens = len(g.ids)
	return &completionResponse{
		ID:      "cmpl-" + requestID,
		Object:  "text_completion",
		Created: time.Now().Unix(),
		Model:   s.cfg.Model,
		Choices: []choice{s.choice(req, prompt, g)},
		Usage:   usage{len(prompt), len(g.ids), len(prompt) + len(g.ids)},
	}, info, nil
}

// probeWords are what a probe samples, who has no turn of a script.
const probeWords = "plain words to stop at"

// find gives the ids of the turn that a request id names; a script that has run out of turns
// samples the end of the turn at once.
func (s *Server) find(requestID string, info *CallInfo) ([]int32, error) {
	id, attempt, turn, err := task.ParseRequestID(requestID)
	if err != nil {
		return nil, badRequest("", "X-Request-Id: %v", err)
	}
	info.ID, info.Attempt, info.Turn = id, attempt, turn
	turns, err := s.turnsOf(id)
	if err != nil || turn >= len(turns) {
		return nil, err
	}
	return s.sampler.turn(id, turn, turns[turn]), nil
}

func (s *Server) choice(req completionRequest, prompt []int32, g generation) choice {
	ch := choice{Text: g.text, FinishReason: g.finish, StopReason: g.reason}
	if s.cfg.SGLang {
		ch.StopReason, ch.MatchedStop = nil, g.reason
	}
	if req.ReturnTokenIDs {
		ch.TokenIDs, ch.PromptTokenIDs = g.ids, prompt
	}
	if req.Logprobs == nil {
		return ch
	}
	lp := &logprobs{TokenLogprobs: g.logprobs}
	offset := 0
	for i, id := range g.ids {
		name := string(s.cfg.Tokenizer.TokenBytes(id))
		lp.TextOffset = append(lp.TextOffset, offset)
		offset += len(name)
		if req.ReturnTokensAsTokenIDs && !s.cfg.SGLang {
			name = fmt.Sprintf("token_id:%d", id)
		}
		lp.Tokens = append(lp.Tokens, name)
		lp.TopLogprobs = append(lp.TopLogprobs, map[string]float32{name: g.logprobs[i]})
	}
	ch.Logprobs = lp
	return ch
}

// check refuses what vLLM refuses.
func (s *Server) check(req completionRequest) ([]int32, limits, error) {
	l := limits{maxTokens: defaultMaxTokens, includeStop: req.IncludeStopStrInOutput, stopIDs: req.StopTokenIDs}
	if req.MaxTokens != nil {
		l.maxTokens = *req.MaxTokens
	}
	if req.Model != "" && req.Model != s.cfg.Model {
		return nil, l, notFound("model", "The model `%s` does not exist.", req.Model)
	}
	if req.Stream || req.N != nil && *req.N != 1 {
		return nil, l, badRequest("", "The scripted policy answers one choice, without streaming.")
	}
	if l.maxTokens < 1 {
		return nil, l, badRequest("max_tokens", "max_tokens must be at least 1, got %d.", l.maxTokens)
	}
	prompt, err := s.prompt(req.Prompt)
	if err != nil {
		return nil, l, err
	}
	if l.stop, err = stopStrings(req.Stop); err != nil {
		return nil, l, err
	}
	if limit := s.cfg.MaxModelLen; len(prompt)+l.maxTokens > limit {
		return nil, l, badRequest("input_tokens", "This model's maximum context length is %d tokens. However, you requested "+
			"%d output tokens and your prompt contains %d input tokens.", limit, l.maxTokens, len(prompt))
	}
	return prompt, l, nil
}

func (s *Server) prompt(raw json.RawMessage) ([]int32, error) {
	var ids []int32
	if err := json.Unmarshal(raw, &ids); err != nil {
		var text string
		if json.Unmarshal(raw, &text) != nil {
			return nil, badRequest("prompt", "The prompt must be a list of token ids or a string.")
		}
		ids = s.cfg.Tokenizer.EncodeSpecial(text)
	}
	if len(ids) == 0 {
		return nil, badRequest("prompt", "The prompt is empty.")
	}
	for _, id := range ids {
		if s.cfg.Tokenizer.TokenBytes(id) == nil {
			return nil, badRequest("prompt", "Token id %d is out of vocabulary", id)
		}
	}
	return ids, nil
}

func stopStrings(raw json.RawMessage) ([]string, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	var list []string
	if err := json.Unmarshal(raw, &list); err != nil {
		var one string
		if json.Unmarshal(raw, &one) != nil {
			return nil, badRequest("stop", "stop must be a string or a list of strings.")
		}
		list = []string{one}
	}
	if len(list) > 4 {
		return nil, badRequest("stop", "At most 4 stop strings are supported, got %d.", len(list))
	}
	for _, s := range list {
		if s == "" {
			return nil, badRequest("stop", "stop cannot contain an empty string.")
		}
	}
	return list, nil
}

// maxBody bounds a request: a context of a million ids fits.
const maxBody = 32 << 20

func readJSON(r *http.Request, v any) error {
	data, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err == nil && len(data) > maxBody {
		err = errors.New("the request body is too large")
	}
	if err == nil {
		err = json.Unmarshal(data, v)
	}
	if err != nil {
		return badRequest("", "%v", err)
	}
	return nil
}
