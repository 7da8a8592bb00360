package scorehook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/verigraph/verigraph/reward"
	"github.com/verigraph/verigraph/task"
)

// Request is the JSON body of a POST; Response the body of its answer, with status 200. Status 422
// says that this answer can't be graded; any other status is an outage.
type Request struct {
	Version     int                `json:"version"`
	Prompt      task.Prompt        `json:"prompt"`
	Reference   task.Reference     `json:"reference"`
	Answer      string             `json:"answer"`
	Evidence    string             `json:"evidence"`
	Claims      []reward.HookClaim `json:"claims"`
	Termination string             `json:"termination"`
}

// Response is a grade.
type Response struct {
	Score   *float64            `json:"score"`
	Correct *bool               `json:"correct"`
	Reason  string              `json:"reason"`
	Axes    map[string]*float64 `json:"axes"`
}

// maxResponse bounds what is read of one answer.
const maxResponse = 1 << 20

type httpCaller struct {
	url    string
	client *http.Client
}

func newHTTP(cfg Config) (*httpCaller, error) {
	base, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return nil, errors.New("the default HTTP transport was replaced")
	}
	base = base.Clone()
	base.MaxIdleConnsPerHost = cfg.Concurrency
	return &httpCaller{cfg.URL, &http.Client{Transport: base}}, nil
}

func (c *httpCaller) close() error { c.client.CloseIdleConnections(); return nil }

func (c *httpCaller) call(ctx context.Context, item reward.HookItem) (reward.Grade, bool, error) {
	body, err := json.Marshal(Request{
		Version: 1, Prompt: item.Prompt, Reference: item.Reference, Answer: item.Answer, Evidence: item.Evidence,
		Claims: item.Claims, Termination: string(item.Ending),
	})
	if err != nil {
		return reward.Grade{}, true, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return reward.Grade{}, true, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.client.Do(req)
	if err != nil {
		return reward.Grade{}, false, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxResponse))
	if err != nil {
		return reward.Grade{}, false, err
	}
	if resp.StatusCode != http.StatusOK {
		return reward.Grade{}, resp.StatusCode == http.StatusUnprocessableEntity, fmt.Errorf("status %d: %.200s", resp.StatusCode, data)
	}
	var r Response
	if err := json.Unmarshal(data, &r); err != nil {
		return reward.Grade{}, true, fmt.Errorf("the answer is no grade: %w", err)
	}
	g, err := r.grade()
	return g, true, err
}

func (r Response) grade() (reward.Grade, error) {
	g := reward.Grade{Correct: r.Correct, Reason: r.Reason}
	for name, v := range r.Axes {
		if v == nil {
			return g, fmt.Errorf("axis %s is null", name)
		}
		g.Axes = append(g.Axes, reward.Axis{Name: name, Value: *v})
	}
	slices.SortFunc(g.Axes, func(a, b reward.Axis) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	switch {
	case r.Score != nil:
		g.Score = *r.Score
	case len(g.Axes) == 0:
		return g, errors.New("score is missing")
	}
	return g, nil
}
