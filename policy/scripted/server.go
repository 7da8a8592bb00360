// Package scripted is a policy without a GPU: an HTTP server that speaks vLLM's wire and samples
// what a script says.
//
// Invariants: ids, log-probs and finish reasons are a pure function of the script, the prompt's ids,
// the request id and the version, so every stored number can be recomputed; ids are now and then
// not the ones that encoding the text would give, and the last one may run past a stop string, as
// with a real engine. The seed is ignored.
package scripted

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/verigraph/verigraph/policy/chat"
	"github.com/verigraph/verigraph/policy/tokenizer"
	"github.com/verigraph/verigraph/task"
)

//go:embed tokenizer.json
var tokenizerJSON []byte

var embedded = sync.OnceValues(func() (*tokenizer.Tokenizer, error) { return tokenizer.Parse(tokenizerJSON) })

// Tokenizer is the embedded tokenizer, trained by train_tokenizer.py.
func Tokenizer() (*tokenizer.Tokenizer, error) { return embedded() }

// TokenizerJSON is the embedded file.
func TokenizerJSON() []byte { return append([]byte(nil), tokenizerJSON...) }

// Config of a Server.
type Config struct {
	// Model is the served name.
	Model string
	// Version is the weight version at start; SetVersion changes it.
	Version int64
	// MaxModelLen is the context limit in tokens.
	MaxModelLen int
	// Tokenizer replaces the embedded one.
	Tokenizer *tokenizer.Tokenizer
	// SGLang makes the server speak as SGLang does where that differs from vLLM: matched_stop,
	// metadata.weight_version, flat errors, no token_id:N strings, /model_info and its own metrics.
	SGLang bool
	// Latency says how long a completion takes; nil is no time. Called from many goroutines.
	Latency func(CallInfo) time.Duration
}

// CallInfo is what a latency function may look at.
type CallInfo struct {
	ID            task.RolloutID
	Attempt, Turn int
	// PromptTokens and SampledTokens are counts.
	PromptTokens, SampledTokens int
}

// Defaults serves "scripted" with a context of 32768 tokens.
func Defaults() Config { return Config{Model: "scripted", MaxModelLen: 32768} }

// Server is the policy endpoint. It is an http.Handler: a test that wants faults wraps it.
type Server struct {
	cfg     Config
	script  *Script
	sampler sampler
	version atomic.Int64
	mux     *http.ServeMux
	stats   stats
}

var _ http.Handler = (*Server)(nil)

// New checks the configuration.
func New(script *Script, cfg Config) (*Server, error) {
	if script == nil {
		return nil, errors.New("scripted: no script")
	}
	if cfg.Model == "" || cfg.MaxModelLen < 2 || cfg.Version < 0 {
		return nil, fmt.Errorf("scripted: model %q, max_model_len %d, version %d: want a name, at least 2, at least 0",
			cfg.Model, cfg.MaxModelLen, cfg.Version)
	}
	if cfg.Tokenizer == nil {
		tok, err := Tokenizer()
		if err != nil {
			return nil, fmt.Errorf("scripted: %w", err)
		}
		cfg.Tokenizer = tok
	}
	ml, err := chat.New(cfg.Tokenizer)
	if err != nil {
		return nil, fmt.Errorf("scripted: %w", err)
	}
	s := &Server{cfg: cfg, script: script, sampler: sampler{tok: cfg.Tokenizer, chat: ml}}
	s.version.Store(cfg.Version)
	s.routes()
	return s, nil
}

// SetVersion is what a weight update does: calls that arrive from now on are of this version.
func (s *Server) SetVersion(v int64) { s.version.Store(v) }

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// Start serves on a free port of 127.0.0.1 until stop is called or ctx ends. stop is idempotent,
// cuts running calls off and returns after the server is gone.
func (s *Server) Start(ctx context.Context) (url string, stop func(), err error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, fmt.Errorf("scripted: %w", err)
	}
	// A handler may be waiting out its latency: it must see the end too.
	ctx, cancel := context.WithCancel(ctx)
	srv := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: 10 * time.Second,
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(l) // returns when the server is closed, which is the only way out
	}()
	unhook := context.AfterFunc(ctx, func() { _ = srv.Close() })
	return "http://" + l.Addr().String(), func() {
		cancel()
		unhook()
		_ = srv.Close()
		<-done
	}, nil
}
