package policy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// ProbeRequestID is the X-Request-Id of Probe's completion, which belongs to no rollout.
const ProbeRequestID = "probe"

// Model is one served model.
type Model struct {
	Name string
	// MaxModelLen is the context limit in tokens, 0 where the server doesn't state it.
	MaxModelLen int
}

// Models lists what the endpoint serves (GET /v1/models).
func (c *Client) Models(ctx context.Context) ([]Model, error) {
	return c.models(ctx, c.cfg.RetryBudget)
}

func (c *Client) models(ctx context.Context, budget time.Duration) ([]Model, error) {
	var list struct {
		Data []struct {
			ID          string `json:"id"`
			MaxModelLen int    `json:"max_model_len"`
		} `json:"data"`
	}
	err := c.exchange(ctx, Call{Kind: "models"}, budget, http.MethodGet, "/v1/models", nil, decodeInto(&list))
	if err != nil {
		return nil, err
	}
	out := make([]Model, len(list.Data))
	for i, m := range list.Data {
		out[i] = Model{Name: m.ID, MaxModelLen: m.MaxModelLen}
	}
	return out, nil
}

// Tokenize asks the server for the ids of text, without special tokens added (POST /tokenize).
func (c *Client) Tokenize(ctx context.Context, text string) ([]int32, error) {
	body, err := json.Marshal(map[string]any{"model": c.cfg.Model, "prompt": text, "add_special_tokens": false})
	if err != nil {
		return nil, err
	}
	var answer struct {
		Tokens *[]int32 `json:"tokens"`
	}
	err = c.exchange(ctx, Call{Kind: "tokenize"}, c.cfg.RetryBudget, http.MethodPost, "/tokenize", body,
		func(data []byte, res *CallResult) error {
			if err := decodeInto(&answer)(data, res); err != nil {
				return err
			}
			if answer.Tokens == nil {
				return fmt.Errorf("answer has no tokens: %s", excerpt(data))
			}
			return nil
		})
	if err != nil {
		return nil, err
	}
	return *answer.Tokens, nil
}

// Detokenize asks the server for the text of ids, control tokens included (POST /detokenize). Bytes that
// are no characters come as U+FFFD.
func (c *Client) Detokenize(ctx context.Context, ids []int32) (string, error) {
	body, err := json.Marshal(map[string]any{"model": c.cfg.Model, "tokens": ids, "skip_special_tokens": false})
	if err != nil {
		return "", err
	}
	var answer struct {
		Prompt *string `json:"prompt"` // vLLM
		Text   *string `json:"text"`   // SGLang
	}
	err = c.exchange(ctx, Call{Kind: "detokenize"}, c.cfg.RetryBudget, http.MethodPost, "/detokenize", body,
		func(data []byte, res *CallResult) error {
			if err := decodeInto(&answer)(data, res); err != nil {
				return err
			}
			if answer.Prompt == nil {
				answer.Prompt = answer.Text
			}
			if answer.Prompt == nil {
				return fmt.Errorf("answer has no text: %s", excerpt(data))
			}
			return nil
		})
	if err != nil {
		return "", err
	}
	return *answer.Prompt, nil
}

// WeightVersion asks for the version of the weights (GET /weight_info of vLLM, /model_info of
// SGLang): -1 where the server has no such route or states no version yet.
func (c *Client) WeightVersion(ctx context.Context) (int64, error) {
	paths := []string{"/weight_info", "/model_info"}
	if known := c.versionPath.Load(); known != nil {
		paths = []string{*known}
	}
	for _, path := range paths {
		version, err := c.versionAt(ctx, path)
		var failed *Error
		if errors.As(err, &failed) && failed.Status == http.StatusNotFound {
			continue
		}
		if err == nil && version >= 0 {
			c.versionPath.Store(&path)
		}
		return version, err
	}
	return -1, nil
}

func (c *Client) versionAt(ctx context.Context, path string) (int64, error) {
	var answer struct {
		WeightVersion json.RawMessage `json:"weight_version"`
	}
	version := int64(-1)
	err := c.exchange(ctx, Call{Kind: "weight_info"}, c.cfg.RetryBudget, http.MethodGet, path, nil,
		func(data []byte, res *CallResult) (err error) {
			if err := decodeInto(&answer)(data, res); err != nil {
				return err
			}
			version, err = weightVersion(answer.WeightVersion)
			return err
		})
	return version, err
}

// Probe says in one line why the endpoint can't serve rollouts: it is unreachable, the model is not
// there, or an answer of one token lacks ids or log-probs. It doesn't retry. The model's entry is
// returned, for its context limit.
func (c *Client) Probe(ctx context.Context) (Model, error) {
	models, err := c.models(ctx, 0)
	if err != nil {
		return Model{}, fmt.Errorf("policy endpoint %s: %w", c.root, err)
	}
	var found *Model
	names := make([]string, len(models))
	for i := range models {
		names[i] = models[i].Name
		if models[i].Name == c.cfg.Model {
			found = &models[i]
		}
	}
	if found == nil {
		return Model{}, fmt.Errorf("policy endpoint %s: no model %q; it serves: %s", c.root, c.cfg.Model, strings.Join(names, ", "))
	}
	if _, err := c.complete(ctx, probeRequest(), 0); err != nil {
		return Model{}, fmt.Errorf("policy endpoint %s: trial of one token: %w", c.root, err)
	}
	return *found, nil
}

func probeRequest() Request {
	r := Request{ID: ProbeRequestID, Prompt: []int32{1}, MaxTokens: 1}
	r.Sampling.Temperature, r.Sampling.TopP, r.Sampling.RepetitionPenalty = 1, 1, 1
	return r
}

func decodeInto(v any) func([]byte, *CallResult) error {
	return func(data []byte, _ *CallResult) error {
		if err := json.Unmarshal(data, v); err != nil {
			return fmt.Errorf("answer can't be read (%v): %s", err, excerpt(data))
		}
		return nil
	}
}
