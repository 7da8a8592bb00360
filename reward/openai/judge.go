// Package openai is an LLM judge behind any OpenAI-compatible chat endpoint. Invariants: a reply is
// a verdict only if its one required field is there, of its type and in its range; everything else,
// like every outage, is an error that wraps reward.ErrNoVerdict and never a value; text of the
// policy reaches the model only inside a fence whose code is drawn per call; no key is ever printed.
package openai

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	openai "github.com/sashabaranov/go-openai"

	judgeprompts "github.com/verigraph/verigraph/configs/prompts/judge"
	"github.com/verigraph/verigraph/reward"
	"github.com/verigraph/verigraph/trajectory"
)

// Judge implements reward.Judge and reward.OutcomeJudge. It is safe for concurrent use.
type Judge struct {
	cfg     Config
	key     secret
	client  *openai.Client
	entails *prompt
	outcome *prompt
	slots   chan struct{}
	// noSchema is set once a server refuses response_format; parsing is as strict without it.
	noSchema atomic.Bool
	usage    usage
	wait     func(context.Context, time.Duration) error
}

var (
	_ reward.Judge        = (*Judge)(nil)
	_ reward.OutcomeJudge = (*Judge)(nil)
)

var (
	entailsSchema = json.RawMessage(`{"type":"object","properties":{"reasoning":{"type":"string"},"verdict":{"type":"string","enum":["entailed","not_entailed"]}},"required":["reasoning","verdict"],"additionalProperties":false}`)
	outcomeSchema = json.RawMessage(`{"type":"object","properties":{"reasoning":{"type":"string"},"correctness":{"type":"number","minimum":0,"maximum":1},"completeness":{"type":"number","minimum":0,"maximum":1},"faithfulness":{"type":"number","minimum":0,"maximum":1}},"required":["reasoning","correctness","completeness","faithfulness"],"additionalProperties":false}`)
)

// New checks the configuration and reads the key; it makes no call.
func New(cfg Config) (*Judge, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	j := &Judge{cfg: cfg, slots: make(chan struct{}, cfg.Concurrency), wait: wait}
	if cfg.APIKeyEnv != "" {
		j.key = secret(strings.TrimSpace(os.Getenv(cfg.APIKeyEnv)))
	}
	var err error
	if j.entails, err = loadPrompt(judgeprompts.FS, "entails", entailsSchema); err != nil {
		return nil, err
	}
	if j.outcome, err = loadPrompt(judgeprompts.FS, "outcome", outcomeSchema); err != nil {
		return nil, err
	}
	transport, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return nil, errors.New("judge: the default HTTP transport was replaced")
	}
	transport = transport.Clone()
	transport.MaxIdleConnsPerHost = cfg.Concurrency
	api := openai.DefaultConfig(string(j.key))
	api.BaseURL = strings.TrimRight(cfg.BaseURL, "/")
	api.HTTPClient = doer{&http.Client{Transport: transport}, time.Now}
	j.client = openai.NewClientWithConfig(api)
	return j, nil
}

// Name is the model.
func (j *Judge) Name() string { return j.cfg.Model }

// Identity is what verdicts depend on besides the material: model, prompts, sampling.
func (j *Judge) Identity() string {
	return fmt.Sprintf("openai %s %s %s temperature=0 max_tokens=%d/%d", j.cfg.Model, j.entails.hash, j.outcome.hash, j.cfg.MaxTokens, j.cfg.RetryMaxTokens)
}

// Entails asks whether a step's premises entail its conclusion.
func (j *Judge) Entails(ctx context.Context, step reward.Step) (trajectory.Verdict, error) {
	material := struct {
		Question   string   `json:"question"`
		Premises   []string `json:"premises"`
		Reasoning  string   `json:"reasoning"`
		Conclusion string   `json:"conclusion"`
	}(step)
	v := trajectory.Verdict{Judge: j.cfg.Model, PromptHash: j.entails.hash}
	type answer struct {
		kind   trajectory.VerdictKind
		reason string
	}
	a, repaired, err := ask(ctx, j, j.entails, material, func(o object) (answer, error) {
		verdict, err := o.text("verdict")
		if err != nil {
			return answer{}, err
		}
		kind := trajectory.VerdictKind(verdict)
		if kind != trajectory.Entailed && kind != trajectory.NotEntailed {
			return answer{}, fmt.Errorf("verdict %.40q is neither entailed nor not_entailed", verdict)
		}
		return answer{kind, o.reasoning()}, nil
	})
	if err != nil {
		return v, err
	}
	v.Kind, v.Reason, v.Repaired = a.kind, a.reason, repaired
	return v, nil
}

// Outcome grades a submission on three axes.
func (j *Judge) Outcome(ctx context.Context, item reward.OutcomeItem) (reward.OutcomeVerdict, error) {
	material := struct {
		Question  string `json:"question"`
		Reference string `json:"reference_answer"`
		Answer    string `json:"submitted_claims"`
		Evidence  string `json:"evidence"`
	}(item)
	v, repaired, err := ask(ctx, j, j.outcome, material, func(o object) (reward.OutcomeVerdict, error) {
		v := reward.OutcomeVerdict{Reason: o.reasoning()}
		var errs [3]error
		v.Correctness, errs[0] = o.share("correctness")
		v.Completeness, errs[1] = o.share("completeness")
		v.Faithfulness, errs[2] = o.share("faithfulness")
		return v, errors.Join(errs[:]...)
	})
	v.Judge, v.PromptHash, v.Repaired = j.cfg.Model, j.outcome.hash, repaired
	return v, err
}

// maxReason bounds the reasoning that is kept with a verdict.
const maxReason = 2000

// reasoning is kept for people; a verdict without it is still a verdict.
func (o object) reasoning() string {
	s, err := o.text("reasoning")
	if err != nil {
		return ""
	}
	if len(s) > maxReason {
		s = strings.ToValidUTF8(s[:maxReason], "") + "…"
	}
	return s
}
