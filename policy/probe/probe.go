// Package probe finds out whether a policy server can serve exact rollouts, and names what is
// missing by the server option that gives it.
//
// Invariant: a check is ok only if the server showed it; what could not be found out says so.
package probe

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/verigraph/verigraph/policy"
	"github.com/verigraph/verigraph/policy/tokenizer"
	"github.com/verigraph/verigraph/trajectory"
)

// State is the result of a check.
type State string

// States. Only Missing makes a server unfit.
const (
	OK      State = "ok"
	Missing State = "missing"
	Warning State = "warning"
	Skipped State = "skipped" // it depends on one that failed, or on an input that was not given
)

// Check is one row of the report.
type Check struct {
	Name  string `json:"name"`
	State State  `json:"state"`
	Found string `json:"found"`
	// Fix is the option of the server, or of ours, that gives what is missing.
	Fix string `json:"fix,omitempty"`
}

// Report is what was found at one endpoint.
type Report struct {
	Endpoint string  `json:"endpoint"`
	Model    string  `json:"model"`
	Checks   []Check `json:"checks"`
	// MaxModelLen is the context limit in tokens, 0 where the server does not state it.
	MaxModelLen int `json:"max_model_len,omitempty"`
}

// ContextLength is the name of the check whose absence a worker can live with.
const ContextLength = "context length"

// Fit reports whether nothing is missing.
func (r Report) Fit() bool {
	return !slices.ContainsFunc(r.Checks, func(c Check) bool { return c.State == Missing })
}

// Options of a probe.
type Options struct {
	Endpoint, Model string
	// Tokenizer is the local one, or what servertok made; nil skips the comparison.
	Tokenizer *tokenizer.Tokenizer
	// TokenizerError is why servertok could make none.
	TokenizerError error
	// Sampling is what rollouts will be sampled with.
	Sampling trajectory.Sampling
	// NeedContext is prompt plus response length of the trainer; 0 is unknown.
	NeedContext int
}

// texts are compared between the tokenizers; between them they hold each class of the splitter, and
// control tokens.
var texts = []string{
	"Hello, world! it's I'LL 12345", "  leading\n\n\n  and trailing  \r\n\t", "数据分析：平均票价是34.65。 가나다 العربية",
	"👩\u200d👩\u200d👧 e\u0301 \u00e9 \u1e9b\u0323", "def f(x):\n\treturn {'a': [1, 2.5e-3]}  # ok\n",
	"<|im_start|>user\nhi<|im_end|>\n", "<think>\nx\n</think>\n<code_interpreter>\nprint(1)\n</code_interpreter>",
}

type prober struct {
	client *policy.Client
	opt    Options
	report Report
}

// Run makes about a dozen small calls.
func Run(ctx context.Context, client *policy.Client, opt Options) Report {
	p := &prober{client: client, opt: opt, report: Report{Endpoint: opt.Endpoint, Model: opt.Model}}
	if !p.model(ctx) {
		return p.report
	}
	sample, ok := p.answer(ctx)
	if ok {
		p.stopTag(ctx, sample)
		p.logprobMode(ctx)
	}
	p.tokenizer(ctx)
	p.version(ctx)
	p.load(ctx)
	if warnings := policy.SamplingWarnings(opt.Sampling); len(warnings) > 0 {
		p.add("sampling", Warning, strings.Join(warnings, "; "), "rollout.sampling")
	} else {
		p.add("sampling", OK, "temperature 1, nothing cut off", "")
	}
	return p.report
}

func (p *prober) add(name string, s State, found, fix string) {
	p.report.Checks = append(p.report.Checks, Check{name, s, found, fix})
}

// model finds the served model and its context length.
func (p *prober) model(ctx context.Context) bool {
	models, err := p.client.Models(ctx)
	if err != nil {
		fix := "the URL, and the server's --host and --port"
		var failed *policy.Error
		if errors.As(err, &failed) && (failed.Status == 401 || failed.Status == 403) {
			fix = "policy.api_key_env: the key that the server was given with --api-key"
		}
		p.add("endpoint", Missing, err.Error(), fix)
		return false
	}
	p.add("endpoint", OK, "answers", "")
	var names []string
	for _, m := range models {
		names = append(names, m.Name)
		if m.Name != p.opt.Model {
			continue
		}
		p.add("model", OK, m.Name, "")
		p.report.MaxModelLen = m.MaxModelLen
		switch {
		case m.MaxModelLen == 0:
			p.add(ContextLength, Warning, "not stated by the server", "rollout.max_context: the server's limit")
		case p.opt.NeedContext > m.MaxModelLen:
			p.add(ContextLength, Missing, fmt.Sprintf("%d tokens, prompt and response need %d", m.MaxModelLen, p.opt.NeedContext),
				"--max-model-len (vLLM), --context-length (SGLang), or a smaller trainer.response_length")
		default:
			p.add(ContextLength, OK, fmt.Sprintf("%d tokens", m.MaxModelLen), "")
		}
		return true
	}
	p.add("model", Missing, fmt.Sprintf("%q is not served; served are: %s", p.opt.Model, strings.Join(names, ", ")),
		"--served-model-name, or another --model here")
	return false
}

// request samples the likeliest tokens, so that a second call can be compared with the first.
func (p *prober) request(n int) policy.Request {
	prompt := []int32{1, 2, 3, 4, 5, 6, 7, 8}
	if p.opt.Tokenizer != nil {
		prompt = p.opt.Tokenizer.Encode("The quick brown fox, the mean fare and 17 other things:")
	}
	r := policy.Request{ID: policy.ProbeRequestID, Prompt: prompt, MaxTokens: n}
	r.Sampling = trajectory.Sampling{Temperature: 0, TopP: 1, TopK: -1, RepetitionPenalty: 1}
	return r
}

// answer checks ids, echo and log-probs all at once: the client refuses an answer that lacks one.
func (p *prober) answer(ctx context.Context) (policy.Completion, bool) {
	c, err := p.client.Complete(ctx, p.request(16))
	if err == nil {
		p.add("token ids", OK, fmt.Sprintf("%d sampled, prompt echoed", len(c.IDs)), "")
		p.add("log-probs", OK, fmt.Sprintf("one for each id, first %.3f", c.LogProbs[0]), "")
		return c, true
	}
	text := err.Error()
	switch {
	case strings.Contains(text, "token_ids"):
		p.add("token ids", Missing, text, "return_token_ids: vLLM 0.10.2 or newer, or an SGLang that has it on /v1/completions")
		p.add("log-probs", Skipped, "needs token ids", "")
	case strings.Contains(text, "log-prob"), strings.Contains(text, "logprobs"):
		p.add("token ids", OK, "given", "")
		p.add("log-probs", Missing, text, "--max-logprobs 1 or more, and --logprobs-mode raw_logprobs or processed_logprobs (vLLM)")
	default:
		p.add("token ids", Missing, text, "see the server's log: the answer failed the client's checks")
	}
	return c, false
}

// stopTag stops a repetition of the same answer at a text that it holds.
func (p *prober) stopTag(ctx context.Context, sample policy.Completion) {
	stop := middle(sample.Text)
	if stop == "" || len(sample.IDs) == 1 && sample.Finish == "stop" { // an end token may have a text, and stops first
		p.add("stop tag", Skipped, "the trial sampled no plain text to stop at", "")
		return
	}
	r := p.request(16)
	r.Stop = []string{stop}
	c, err := p.client.Complete(ctx, r)
	switch {
	case err != nil:
		p.add("stop tag", Missing, err.Error(), "stop and include_stop_str_in_output; or rollout.stop: end_of_turn")
	case c.Finish == "stop" && c.StopString == stop && strings.HasSuffix(c.Text, stop):
		p.add("stop tag", OK, "stops at a string and includes it", "")
	case c.Finish == "stop" && c.StopString == stop:
		p.add("stop tag", Warning, "stops at a string but leaves it out of the text; ids are kept all the same", "")
	default:
		p.add("stop tag", Missing, fmt.Sprintf("finished with %q where it should have stopped at %q", c.Finish, stop),
			"rollout.stop: end_of_turn")
	}
}

// middle is a stretch of plain text from inside an answer, empty if there is none. Text that a
// server replaced (bytes that are no characters) cannot be stopped at.
func middle(text string) string {
	for _, f := range strings.FieldsFunc(text, func(r rune) bool { return r == '\ufffd' || r < ' ' }) {
		if r := []rune(f); len(r) >= 2 {
			return string(r[:2])
		}
	}
	return ""
}

// logprobMode samples with top_k 1: under the sampler's own distribution the one token that is left
// has log-prob 0, under the model's it keeps the one it had.
func (p *prober) logprobMode(ctx context.Context) {
	r := p.request(1)
	r.Sampling.Temperature, r.Sampling.TopK = 1, 1
	c, err := p.client.Complete(ctx, r)
	free := p.request(1)
	free.Sampling.Temperature = 1
	f, err2 := p.client.Complete(ctx, free)
	const fix = "--logprobs-mode processed_logprobs (vLLM)"
	exact := len(policy.SamplingWarnings(p.opt.Sampling)) == 0
	switch {
	case err != nil || err2 != nil:
		p.add("log-prob mode", Warning, "not found out: "+errors.Join(err, err2).Error(), "")
	case math.Abs(float64(c.LogProbs[0])) > 1e-4 && exact:
		p.add("log-prob mode", OK, "raw: of the model before temperature and top_k; the same here, since sampling changes nothing", "")
	case math.Abs(float64(c.LogProbs[0])) > 1e-4:
		p.add("log-prob mode", Warning, "raw: of the model before temperature, top_p and top_k, which your sampling changes", fix)
	case math.Abs(float64(f.LogProbs[0])) > 1e-2:
		p.add("log-prob mode", OK, "processed: of the distribution that was sampled from", "")
	default:
		p.add("log-prob mode", Skipped, "not found out: the trial's tokens are certain in either mode", "")
	}
}

func (p *prober) tokenizer(ctx context.Context) {
	if err := p.opt.TokenizerError; err != nil {
		p.add("tokenizer", Missing, err.Error(), "/tokenize and /detokenize of a byte-level BPE, or policy.tokenizer: a directory with tokenizer.json")
		return
	}
	if p.opt.Tokenizer == nil {
		p.add("tokenizer", Skipped, "no local tokenizer was given", "--tokenizer DIR")
		return
	}
	const fix = "policy.tokenizer: the directory that the server loads (its --tokenizer or --model)"
	for _, text := range texts {
		theirs, err := p.client.Tokenize(ctx, text)
		if err != nil {
			p.add("tokenizer", Warning, "the server has no /tokenize to compare with: "+err.Error(), "")
			return
		}
		if ours := p.opt.Tokenizer.EncodeSpecial(text); !slices.Equal(ours, theirs) {
			p.add("tokenizer", Missing, fmt.Sprintf("differs on %.40q: %v here, %v there", text, head(ours), head(theirs)), fix)
			return
		}
	}
	p.add("tokenizer", OK, fmt.Sprintf("same ids on %d texts, %d tokens known", len(texts), p.opt.Tokenizer.Size()), "")
}

func head(ids []int32) []int32 { return ids[:min(len(ids), 12)] }

func (p *prober) version(ctx context.Context) {
	const fix = "versions count as 0; for online training start vLLM with VLLM_SERVER_DEV_MODE=1 (GET /weight_info), or let the trainer state versions"
	v, err := p.client.WeightVersion(ctx)
	switch {
	case err != nil:
		p.add("weight version", Warning, err.Error(), fix)
	case v < 0:
		p.add("weight version", Warning, "not stated, or before the first update", fix)
	default:
		p.add("weight version", OK, fmt.Sprint(v), "")
	}
}

func (p *prober) load(ctx context.Context) {
	l, err := p.client.Load(ctx)
	if err != nil {
		p.add("load metrics", Warning, err.Error(), "/metrics (SGLang: --enable-metrics); without them the number of calls stays as configured")
		return
	}
	p.add("load metrics", OK, fmt.Sprintf("%g running, %g waiting, KV cache %.0f%%", l.Running, l.Waiting, 100*l.KVUsage), "")
}
