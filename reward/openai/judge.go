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

	"github.com/verigraph/verigraph/reward"
	"github.com/verigraph/verigraph/reward/limit"
	"github.com/verigraph/verigraph/trajectory"
)

// Judge implements reward.BlockJudge, reward.OutcomeJudge and gov's checkers. It is safe for
// concurrent use.
type Judge struct {
	cfg     Config
	key     secret
	client  *openai.Client
	prompts map[string]*prompt
	slots   chan struct{}
	gate    *limit.Gate
	// noSchema is set once a server refuses response_format; parsing is as strict without it.
	noSchema atomic.Bool
	usage    usage
	wait     func(context.Context, time.Duration) error
}

var (
	_ reward.BlockJudge   = (*Judge)(nil)
	_ reward.OutcomeJudge = (*Judge)(nil)
)

// schemas are the answers' shapes by template.
var schemas = map[string]json.RawMessage{
	"entails":  json.RawMessage(`{"type":"object","properties":{"reasoning":{"type":"string"},"verdict":{"type":"string","enum":["entailed","not_entailed"]}},"required":["reasoning","verdict"],"additionalProperties":false}`),
	"outcome":  json.RawMessage(`{"type":"object","properties":{"reasoning":{"type":"string"},"correctness":{"type":"number","minimum":0,"maximum":1},"completeness":{"type":"number","minimum":0,"maximum":1},"faithfulness":{"type":"number","minimum":0,"maximum":1}},"required":["reasoning","correctness","completeness","faithfulness"],"additionalProperties":false}`),
	"closed":   json.RawMessage(`{"type":"object","properties":{"reasoning":{"type":"string"},"verdict":{"type":"string","enum":["right","wrong"]}},"required":["reasoning","verdict"],"additionalProperties":false}`),
	"open":     json.RawMessage(`{"type":"object","properties":{"reasoning":{"type":"string"},"content":{"type":"integer","minimum":1,"maximum":5},"format":{"type":"integer","minimum":1,"maximum":5}},"required":["reasoning","content","format"],"additionalProperties":false}`),
	"block":    json.RawMessage(`{"type":"object","properties":{"reasoning":{"type":"string"},"first_error":{"type":"integer","minimum":0}},"required":["reasoning","first_error"],"additionalProperties":false}`),
	"step":     json.RawMessage(`{"type":"object","properties":{"reasoning":{"type":"string"},"verdict":{"type":"string","enum":["correct","incorrect"]}},"required":["reasoning","verdict"],"additionalProperties":false}`),
	"support":  json.RawMessage(`{"type":"object","properties":{"reasoning":{"type":"string"},"verdict":{"type":"string","enum":["supported","not_supported"]}},"required":["reasoning","verdict"],"additionalProperties":false}`),
	"split":    json.RawMessage(`{"type":"object","properties":{"claims":{"type":"array","items":{"type":"string"}}},"required":["claims"],"additionalProperties":false}`),
	"holistic": json.RawMessage(`{"type":"object","properties":{"reasoning":{"type":"string"},"first_error":{"type":"integer","minimum":0}},"required":["reasoning","first_error"],"additionalProperties":false}`),
}

// New checks the configuration and reads the key and the templates; it makes no call.
func New(cfg Config) (*Judge, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	j := &Judge{
		cfg: cfg, slots: make(chan struct{}, cfg.Concurrency), wait: wait, prompts: map[string]*prompt{},
		gate: limit.New(limit.Config{
			RequestsPerMinute: cfg.RequestsPerMinute, TokensPerMinute: cfg.TokensPerMinute,
			BreakerFailures: cfg.BreakerFailures, BreakerPause: cfg.Backoff, BreakerMaxPause: cfg.MaxBackoff,
		}),
	}
	if cfg.APIKeyEnv != "" {
		j.key = secret(strings.TrimSpace(os.Getenv(cfg.APIKeyEnv)))
	}
	files := templates(cfg.Prompts)
	for name, schema := range schemas {
		p, err := loadPrompt(files, name, schema)
		if err != nil {
			return nil, err
		}
		j.prompts[name] = p
	}
	base, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return nil, errors.New("judge: the default HTTP transport was replaced")
	}
	base = base.Clone()
	base.MaxIdleConnsPerHost = cfg.Concurrency
	j.transport(base)
	return j, nil
}

// transport builds the client on rt.
func (j *Judge) transport(rt http.RoundTripper) {
	api := openai.DefaultConfig(string(j.key))
	api.BaseURL = strings.TrimRight(j.cfg.BaseURL, "/")
	api.HTTPClient = doer{&http.Client{Transport: rt}, time.Now}
	j.client = openai.NewClientWithConfig(api)
}

// Name is the model.
func (j *Judge) Name() string { return j.cfg.Model }

// Identity is what verdicts depend on besides the material: model, prompts, sampling.
func (j *Judge) Identity() string {
	hashes := ""
	for _, name := range []string{"entails", "block", "outcome", "closed", "open"} {
		hashes += " " + j.prompts[name].hash
	}
	return fmt.Sprintf("openai %s%s temperature=0 max_tokens=%d/%d", j.cfg.Model, hashes, j.cfg.MaxTokens, j.cfg.RetryMaxTokens)
}

// material is a derived claim as the template sees it.
type material struct {
	Question   string   `json:"question,omitempty"`
	Premises   []string `json:"premises"`
	Reasoning  string   `json:"reasoning"`
	Conclusion string   `json:"conclusion"`
}

// Entails asks whether a step's premises entail its conclusion.
func (j *Judge) Entails(ctx context.Context, s reward.Step) (trajectory.Verdict, error) {
	p := j.prompts["entails"]
	v := trajectory.Verdict{Judge: j.cfg.Model, PromptHash: p.hash}
	type answer struct {
		entailed bool
		reason   string
	}
	a, repaired, err := ask(ctx, j, p, material(s), func(o object) (answer, error) {
		yes, err := o.choice("verdict", string(trajectory.Entailed), string(trajectory.NotEntailed))
		return answer{yes, o.reasoning()}, err
	})
	if err != nil {
		return v, err
	}
	v.Kind, v.Reason, v.Repaired = trajectory.NotEntailed, a.reason, repaired
	if a.entailed {
		v.Kind = trajectory.Entailed
	}
	return v, nil
}

// found is a judge's word on where the first error of a list stands, from 0; -1 is none.
type found struct {
	first  int
	reason string
}

// firstOf reads "first_error", which counts from 1.
func firstOf(n int) func(object) (found, error) {
	return func(o object) (found, error) {
		at, err := o.whole("first_error", 0, n)
		return found{at - 1, o.reasoning()}, err
	}
}

// EntailsBlock asks for the first of several steps that does not follow.
func (j *Judge) EntailsBlock(ctx context.Context, b reward.Block) (int, trajectory.Verdict, error) {
	p := j.prompts["block"]
	v := trajectory.Verdict{Judge: j.cfg.Model, PromptHash: p.hash}
	type numbered struct {
		Number int `json:"number"`
		material
	}
	in := struct {
		Question string     `json:"question"`
		Given    []string   `json:"given"`
		Steps    []numbered `json:"steps"`
	}{b.Question, b.Given, nil}
	for i, s := range b.Steps {
		s.Question = ""
		in.Steps = append(in.Steps, numbered{i + 1, material(s)})
	}
	f, repaired, err := ask(ctx, j, p, in, firstOf(len(b.Steps)))
	if err != nil {
		return -1, v, err
	}
	v.Reason, v.Repaired = f.reason, repaired
	return f.first, v, nil
}

// Outcome grades a submission by its task.
func (j *Judge) Outcome(ctx context.Context, item reward.OutcomeItem) (reward.OutcomeVerdict, error) {
	material := struct {
		Question  string `json:"question"`
		Reference string `json:"reference_answer,omitempty"`
		Rubric    string `json:"should_cover,omitempty"`
		Answer    string `json:"submitted_claims"`
		Evidence  string `json:"evidence,omitempty"`
	}{item.Question, item.Reference, item.Rubric, item.Answer, item.Evidence}
	name, accept := "outcome", acceptAxes
	switch item.Task {
	case reward.TaskClosed:
		name, accept = "closed", acceptClosed
		material.Evidence = ""
	case reward.TaskOpen:
		name, accept = "open", acceptOpen
	case reward.TaskAxes, "":
	}
	p := j.prompts[name]
	v, repaired, err := ask(ctx, j, p, material, accept)
	v.Judge, v.PromptHash, v.Repaired = j.cfg.Model, p.hash, repaired
	return v, err
}

func acceptAxes(o object) (reward.OutcomeVerdict, error) {
	v := reward.OutcomeVerdict{Reason: o.reasoning()}
	var errs []error
	for _, name := range []string{"correctness", "completeness", "faithfulness"} {
		share, err := o.share(name)
		v.Axes, errs = append(v.Axes, reward.Axis{Name: name, Value: share}), append(errs, err)
	}
	return v, errors.Join(errs...)
}

func acceptClosed(o object) (reward.OutcomeVerdict, error) {
	right, err := o.choice("verdict", "right", "wrong")
	v := reward.OutcomeVerdict{Reason: o.reasoning(), Axes: []reward.Axis{{Name: "correctness"}}}
	if right {
		v.Axes[0].Value = 1
	}
	return v, err
}

// acceptOpen maps grades of 1 to 5 to [0, 1].
func acceptOpen(o object) (reward.OutcomeVerdict, error) {
	v := reward.OutcomeVerdict{Reason: o.reasoning()}
	var errs []error
	for _, name := range []string{"content", "format"} {
		grade, err := o.whole(name, 1, 5)
		v.Axes, errs = append(v.Axes, reward.Axis{Name: name, Value: float64(grade-1) / 4}), append(errs, err)
	}
	return v, errors.Join(errs...)
}

// Correct asks whether one unit of a solution is free of errors, given the earlier ones.
func (j *Judge) Correct(ctx context.Context, problem string, earlier []string, unit string) (bool, error) {
	material := struct {
		Problem string   `json:"problem"`
		Earlier []string `json:"earlier_units,omitempty"`
		Unit    string   `json:"unit"`
	}{problem, earlier, unit}
	ok, _, err := ask(ctx, j, j.prompts["step"], material, func(o object) (bool, error) {
		return o.choice("verdict", "correct", "incorrect")
	})
	return ok, err
}

// FirstError asks for the first wrong unit of a solution at once, from 0; -1 is none.
func (j *Judge) FirstError(ctx context.Context, problem string, units []string) (int, error) {
	type numbered struct {
		Number int    `json:"number"`
		Text   string `json:"text"`
	}
	material := struct {
		Problem string     `json:"problem"`
		Units   []numbered `json:"units"`
	}{Problem: problem}
	for i, u := range units {
		material.Units = append(material.Units, numbered{i + 1, u})
	}
	f, _, err := ask(ctx, j, j.prompts["holistic"], material, firstOf(len(units)))
	return f.first, err
}

// Breaker reports whether calls are held back because the endpoint fails, and how often that was.
func (j *Judge) Breaker() (open bool, times int) { return j.gate.Open() }

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
