package judges

import (
	"context"
	"encoding/json"
	"fmt"

	judgeprompts "github.com/verigraph/verigraph/configs/prompts/judge"
	"github.com/verigraph/verigraph/reward"
	"github.com/verigraph/verigraph/trajectory"
)

// Canary is a step with a known verdict.
type Canary struct {
	Name       string                 `json:"name"`
	Question   string                 `json:"question"`
	Premises   []string               `json:"premises"`
	Reasoning  string                 `json:"reasoning"`
	Conclusion string                 `json:"conclusion"`
	Want       trajectory.VerdictKind `json:"want"`
}

// Canaries returns the shipped ones.
func Canaries() ([]Canary, error) {
	data, err := judgeprompts.FS.ReadFile("canaries.json")
	if err != nil {
		return nil, fmt.Errorf("judges: %w", err)
	}
	var out []Canary
	if err := json.Unmarshal(data, &out); err != nil {
		return nil, fmt.Errorf("judges: canaries.json: %w", err)
	}
	return out, nil
}

// ask puts all canaries to the judge at once. What has no verdict when the next check would be due, or when
// the pause may last no longer, has failed: a judge that never answers must not keep the guard waiting.
func (g *Guard) ask(ctx context.Context) []error {
	bound := g.cfg.Every
	if left, counting := g.patience(); counting {
		bound = min(bound, max(left, g.cfg.Paused))
	}
	within, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	results := make(chan error, len(g.canaries))
	for _, c := range g.canaries {
		go func() { results <- g.one(within, c) }()
	}
	var failed []error
	for range g.canaries {
		if err := <-results; err != nil {
			failed = append(failed, err)
		}
		if len(failed) > g.cfg.Allowed {
			cancel() // enough to pause; a judge that is down would keep the rest waiting
		}
	}
	return failed[:min(len(failed), g.cfg.Allowed+1)]
}

func (g *Guard) one(ctx context.Context, c Canary) error {
	v, err := g.judge.Entails(ctx, reward.Step{Question: c.Question, Premises: c.Premises, Reasoning: c.Reasoning, Conclusion: c.Conclusion})
	switch {
	case err != nil && ctx.Err() != nil:
		return fmt.Errorf("%s: no answer in time", c.Name)
	case err != nil:
		return fmt.Errorf("%s: %w", c.Name, err)
	case v.Kind != c.Want:
		return fmt.Errorf("%s: %s, want %s", c.Name, v.Kind, c.Want)
	}
	return nil
}
