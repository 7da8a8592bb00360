// Package openaichat is the text-only adapter for teachers and baselines: chat completions of the
// OpenAI API, through go-openai.
//
// Invariant: what it returns is text and nothing that looks like token ids or log-probs; sampling
// fields are sent as given, zeros included, although go-openai drops zeros.
package openaichat

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	openai "github.com/sashabaranov/go-openai"

	"github.com/verigraph/verigraph/policy"
	"github.com/verigraph/verigraph/trajectory"
)

// maxAnswer bounds one answer.
const maxAnswer = 16 << 20

// Client is safe for concurrent use.
type Client struct {
	cfg policy.Config
	api *openai.Client
	own *http.Client
}

var _ policy.TextPolicy = (*Client)(nil)

// New takes the same configuration as the exact client; base_url may end in /v1 or not.
func New(cfg policy.Config) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	transport, err := cfg.RoundTripper()
	if err != nil {
		return nil, err
	}
	own := &http.Client{
		Timeout: cfg.CallTimeout, Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	c := openai.DefaultConfig(cfg.Key().Reveal())
	c.BaseURL = cfg.Root() + "/v1"
	c.HTTPClient = doer{cfg, own}
	return &Client{cfg: cfg, api: openai.NewClientWithConfig(c), own: own}, nil
}

// Close drops idle connections.
func (c *Client) Close() { c.own.CloseIdleConnections() }

// Probe says in one line why the endpoint can't serve text-only rollouts. It doesn't retry.
func (c *Client) Probe(ctx context.Context) error {
	r := policy.TextRequest{
		ID: policy.ProbeRequestID, Messages: []trajectory.Message{{Role: "user", Content: "Say yes."}}, MaxTokens: 16,
		Sampling: trajectory.Sampling{Temperature: 1, TopP: 1, TopK: -1, RepetitionPenalty: 1},
	}
	if _, err := c.once(ctx, r); err != nil {
		return fmt.Errorf("policy endpoint %s: trial of one chat completion: %w", c.cfg.Root(), err)
	}
	return nil
}

// Chat generates once; overload and lost connections are tried again within the retry budget.
func (c *Client) Chat(ctx context.Context, r policy.TextRequest) (policy.Text, error) {
	begin := time.Now()
	for try := 1; ; try++ {
		t, err := c.once(ctx, r)
		if err == nil || ctx.Err() != nil {
			return t, err
		}
		var failed *policy.Error
		if !errors.As(err, &failed) {
			return t, err
		}
		delay, again := policy.RetryDelay(failed, try, time.Since(begin), c.cfg.RetryBudget, rand.Float64())
		if !again {
			return policy.Text{}, failed
		}
		if err := policy.Wait(ctx, delay); err != nil {
			return policy.Text{}, err
		}
	}
}

func (c *Client) once(ctx context.Context, r policy.TextRequest) (policy.Text, error) {
	req := openai.ChatCompletionRequest{Model: c.cfg.Model, N: 1, Stop: r.Stop}
	for _, m := range r.Messages {
		req.Messages = append(req.Messages, openai.ChatCompletionMessage{Role: m.Role, Content: m.Content})
	}
	resp, err := c.api.CreateChatCompletion(context.WithValue(ctx, extraKey{}, &r), req)
	if err != nil {
		return policy.Text{}, c.classify(ctx, err)
	}
	if len(resp.Choices) != 1 {
		return policy.Text{}, &policy.Error{Outcome: policy.Rejected, Err: fmt.Errorf("answer has %d choices, want one", len(resp.Choices))}
	}
	ch := resp.Choices[0]
	t := policy.Text{Content: ch.Message.Content, Finish: string(ch.FinishReason)}
	if ch.Message.ReasoningContent != "" {
		t.Content = "<think>\n" + ch.Message.ReasoningContent + "\n</think>\n\n" + t.Content
	}
	if t.Finish != "stop" && t.Finish != "length" {
		return policy.Text{}, &policy.Error{Outcome: policy.Rejected, Err: fmt.Errorf("finish_reason %q is no end of a text", t.Finish)}
	}
	return t, nil
}

func (c *Client) classify(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var failed *policy.Error
	if errors.As(err, &failed) {
		return failed
	}
	return &policy.Error{Outcome: policy.Unreachable, Err: c.cfg.Redact(err)}
}

type extraKey struct{}

// doer adds what go-openai's request cannot say, and reads the errors that it cannot read.
type doer struct {
	cfg policy.Config
	own *http.Client
}

func (d doer) Do(req *http.Request) (*http.Response, error) {
	for name, value := range d.cfg.Headers {
		req.Header.Set(name, value.Reveal())
	}
	if r, ok := req.Context().Value(extraKey{}).(*policy.TextRequest); ok && req.Body != nil {
		if err := d.rewrite(req, r); err != nil {
			return nil, err
		}
	}
	resp, err := d.own.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK { // go-openai knows one shape of an error only
		body, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer)) // as much as came
		_ = resp.Body.Close()
		return nil, d.cfg.Failure(resp.StatusCode, resp.Header, body)
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(resp.Body, maxAnswer), resp.Body}
	return resp, nil
}

func (d doer) rewrite(req *http.Request, r *policy.TextRequest) error {
	data, err := io.ReadAll(req.Body)
	if err != nil {
		return err
	}
	body := map[string]any{}
	if err := json.Unmarshal(data, &body); err != nil {
		return err
	}
	body["temperature"], body["top_p"], body["seed"], body["max_tokens"] = r.Sampling.Temperature, r.Sampling.TopP, r.Seed, r.MaxTokens
	if data, err = json.Marshal(body); err != nil {
		return err
	}
	req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(data)), int64(len(data))
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }
	if r.ID != "" {
		req.Header.Set("X-Request-Id", r.ID)
	}
	return nil
}
