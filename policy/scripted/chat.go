package scripted

import (
	"net/http"
	"strings"

	"github.com/verigraph/verigraph/policy"
	"github.com/verigraph/verigraph/task"
)

// chatCompletions is the other wire form: the script's turn as text, without ids. As the API has it, a stop
// string is left out of the text, and it is the request id that names the turn.
func (s *Server) chatCompletions(w http.ResponseWriter, r *http.Request) {
	s.stats.running.Add(1)
	defer s.stats.running.Add(-1)
	var req struct {
		Model     string   `json:"model"`
		Stop      []string `json:"stop"`
		MaxTokens *int     `json:"max_tokens"`
	}
	err := readJSON(r, &req)
	if err == nil && req.Model != s.cfg.Model {
		err = notFound("model", "The model `%s` does not exist.", req.Model)
	}
	text := probeWords
	if id := r.Header.Get("X-Request-Id"); err == nil && id != policy.ProbeRequestID {
		text, err = s.chatTurn(id)
	}
	if err != nil {
		s.writeError(w, err)
		return
	}
	for _, stop := range req.Stop {
		text, _, _ = strings.Cut(text, stop)
	}
	finish := "stop"
	ids := s.cfg.Tokenizer.Encode(text)
	if req.MaxTokens != nil && len(ids) > *req.MaxTokens {
		ids, finish = ids[:max(*req.MaxTokens, 0)], "length"
		text = strings.ToValidUTF8(string(s.cfg.Tokenizer.Decode(ids)), "")
	}
	if s.cfg.Latency != nil {
		id, attempt, turn, _ := task.ParseRequestID(r.Header.Get("X-Request-Id"))
		if !waitFor(r, s.cfg.Latency(CallInfo{ID: id, Attempt: attempt, Turn: turn, SampledTokens: len(ids)})) {
			panic(http.ErrAbortHandler)
		}
	}
	s.stats.finished(finish)
	writeJSON(w, http.StatusOK, map[string]any{
		"id": "chatcmpl-" + r.Header.Get("X-Request-Id"), "object": "chat.completion", "model": s.cfg.Model,
		"choices": []any{map[string]any{
			"index": 0, "finish_reason": finish, "message": map[string]string{"role": "assistant", "content": text},
		}},
		"usage": usage{CompletionTokens: len(ids), TotalTokens: len(ids)},
	})
}

// chatTurn is the text of the turn that a request id names; a script that has run out says nothing.
func (s *Server) chatTurn(requestID string) (string, error) {
	id, _, turn, err := task.ParseRequestID(requestID)
	if err != nil {
		return "", badRequest("", "X-Request-Id: %v", err)
	}
	turns, err := s.turnsOf(id)
	if err != nil || turn >= len(turns) {
		return "", err
	}
	return turns[turn], nil
}

// turnsOf are the turns that the script has for a rollout.
func (s *Server) turnsOf(id task.RolloutID) ([]string, error) {
	slug := id.Dispatch
	if dash := strings.LastIndexByte(slug, '-'); dash >= 0 {
		slug = slug[:dash]
	}
	turns, ok := s.script.turns(slug, id.Sample)
	if !ok {
		return nil, notFound("", "The script has no turns for dispatch `%s`, sample %d.", id.Dispatch, id.Sample)
	}
	return turns, nil
}
