package scripted

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
)

func (s *Server) routes() {
	s.mux = http.NewServeMux()
	s.mux.HandleFunc("POST /v1/completions", s.completions)
	s.mux.HandleFunc("POST /v1/chat/completions", s.chatCompletions)
	s.mux.HandleFunc("GET /v1/models", s.models)
	s.mux.HandleFunc("POST /tokenize", s.tokenize)
	s.mux.HandleFunc("POST /detokenize", s.detokenize)
	s.mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	version := "GET /weight_info"
	if s.cfg.SGLang {
		version = "GET /model_info"
	}
	s.mux.HandleFunc(version, s.weightInfo)
	s.mux.HandleFunc("GET /metrics", s.metrics)
}

func (s *Server) models(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": []any{map[string]any{
		"id": s.cfg.Model, "object": "model", "owned_by": "verigraph", "root": s.cfg.Model, "max_model_len": s.cfg.MaxModelLen,
	}}})
}

func (s *Server) tokenize(w http.ResponseWriter, r *http.Request) {
	var req struct {
		Prompt *string `json:"prompt"`
	}
	err := readJSON(r, &req)
	if err == nil && req.Prompt == nil {
		err = badRequest("prompt", "prompt is required.")
	}
	if err != nil {
		s.writeError(w, err)
		return
	}
	// As in vLLM, control-token text in the prompt becomes control tokens here.
	ids := s.cfg.Tokenizer.EncodeSpecial(*req.Prompt)
	if ids == nil {
		ids = []int32{}
	}
	writeJSON(w, http.StatusOK, map[string]any{"count": len(ids), "max_model_len": s.cfg.MaxModelLen, "tokens": ids, "token_strs": nil})
}

func (s *Server) detokenize(w http.ResponseWriter, r *http.Request) {
	var req struct {
		Tokens []int32 `json:"tokens"`
	}
	if err := readJSON(r, &req); err != nil {
		s.writeError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{"prompt": string(s.cfg.Tokenizer.Decode(req.Tokens))})
}

// weightInfo states the version as text, as vLLM does.
func (s *Server) weightInfo(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]string{"weight_version": strconv.FormatInt(s.version.Load(), 10)})
}

type stats struct {
	running      atomic.Int64
	stop, length atomic.Int64
}

func (s *stats) finished(reason string) {
	if reason == "length" {
		s.length.Add(1)
		return
	}
	s.stop.Add(1)
}

func (s *Server) metrics(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	if s.cfg.SGLang {
		_, _ = fmt.Fprintf(w, "sglang:num_running_reqs{model_name=%q} %d\nsglang:num_queue_reqs{model_name=%q} 0\nsglang:token_usage{model_name=%q} 0\n",
			s.cfg.Model, s.stats.running.Load(), s.cfg.Model, s.cfg.Model)
		return
	}
	label := fmt.Sprintf("engine=\"0\",model_name=%q", s.cfg.Model)
	for _, m := range []struct {
		name, kind, labels string
		value              int64
	}{
		{"vllm:num_requests_running", "gauge", label, s.stats.running.Load()},
		{"vllm:num_requests_waiting", "gauge", label, 0},
		{"vllm:kv_cache_usage_perc", "gauge", label, 0},
		{"vllm:num_preemptions_total", "counter", label, 0},
		{"vllm:request_success_total", "counter", label + ",finished_reason=\"stop\"", s.stats.stop.Load()},
		{"vllm:request_success_total", "", label + ",finished_reason=\"length\"", s.stats.length.Load()},
	} {
		if m.kind != "" {
			_, _ = fmt.Fprintf(w, "# TYPE %s %s\n", m.name, m.kind)
		}
		_, _ = fmt.Fprintf(w, "%s{%s} %d\n", m.name, m.labels, m.value)
	}
}

// wireError is an error in vLLM's shape.
type wireError struct {
	status               int
	kind, param, message string
}

func (e *wireError) Error() string { return e.message }

func badRequest(param, format string, args ...any) error {
	return &wireError{http.StatusBadRequest, "BadRequestError", param, fmt.Sprintf(format, args...)}
}

func notFound(param, format string, args ...any) error {
	return &wireError{http.StatusNotFound, "NotFoundError", param, fmt.Sprintf(format, args...)}
}

func (s *Server) writeError(w http.ResponseWriter, err error) {
	e := &wireError{http.StatusInternalServerError, "InternalServerError", "", err.Error()}
	errors.As(err, &e)
	var param any
	if e.param != "" {
		param = e.param
	}
	object := map[string]any{"message": e.message, "type": e.kind, "param": param, "code": e.status}
	if s.cfg.SGLang {
		object["object"] = "error"
		writeJSON(w, e.status, object)
		return
	}
	writeJSON(w, e.status, map[string]any{"error": object})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // the client is gone, or will see a cut body
}
