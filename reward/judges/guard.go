package judges

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

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

// GuardConfig configures a Guard.
type GuardConfig struct {
	// Every is the time between checks, Paused the shorter one while scoring is paused.
	Every  time.Duration `yaml:"every"`
	Paused time.Duration `yaml:"paused"`
	// Allowed is how many canaries may fail in one check.
	Allowed int `yaml:"allowed"`
}

// GuardDefaults check every five minutes.
func GuardDefaults() GuardConfig {
	return GuardConfig{Every: 5 * time.Minute, Paused: 30 * time.Second, Allowed: 1}
}

// Validate reports every problem at once.
func (c GuardConfig) Validate() error {
	var errs []error
	if c.Every <= 0 || c.Paused <= 0 {
		errs = append(errs, fmt.Errorf("canaries: every %s and paused %s must be positive", c.Every, c.Paused))
	}
	if c.Allowed < 0 {
		errs = append(errs, fmt.Errorf("canaries.allowed: %d is negative", c.Allowed))
	}
	return errors.Join(errs...)
}

// GuardState is what a guard knows.
type GuardState struct {
	Paused bool
	// Reason says which canaries failed in the last check.
	Reason string
	Since  time.Time
	Checks int
	// FailedChecks counts those that paused scoring or kept it paused.
	FailedChecks int
}

// Guard runs canaries beside the work.
//
//	working --more than Allowed canaries fail--> paused --they pass--> working
type Guard struct {
	judge    reward.Judge
	canaries []Canary
	cfg      GuardConfig
	notify   func(GuardState)

	checking chan struct{} // holds one check at a time
	mu       sync.Mutex
	state    GuardState
	last     time.Time
	ok       bool
	resumed  chan struct{} // closed when not paused
}

// NewGuard watches over a judge, which must not stand behind a cache. Notify is called on each change
// between working and paused.
func NewGuard(judge reward.Judge, canaries []Canary, cfg GuardConfig, notify func(GuardState)) (*Guard, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if len(canaries) <= cfg.Allowed {
		return nil, fmt.Errorf("canaries: %d canaries and %d allowed to fail watch over nothing", len(canaries), cfg.Allowed)
	}
	g := &Guard{judge: judge, canaries: canaries, cfg: cfg, notify: notify, checking: make(chan struct{}, 1), resumed: make(chan struct{})}
	close(g.resumed)
	return g, nil
}

// Run checks until ctx ends.
func (g *Guard) Run(ctx context.Context) error {
	for {
		g.check(ctx)
		every := g.cfg.Every
		if g.State().Paused {
			every = g.cfg.Paused
		}
		timer := time.NewTimer(every)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
	}
}

// Admit waits while scoring is paused.
func (g *Guard) Admit(ctx context.Context) error {
	for {
		g.mu.Lock()
		resumed := g.resumed
		g.mu.Unlock()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-resumed:
			if !g.State().Paused {
				return nil
			}
		}
	}
}

// State returns the guard's state.
func (g *Guard) State() GuardState {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.state
}

// Healthy reports whether the canaries pass now: it checks unless one ended less than Paused ago.
func (g *Guard) Healthy(ctx context.Context) bool {
	g.mu.Lock()
	fresh := !g.last.IsZero() && time.Since(g.last) < g.cfg.Paused
	ok := g.ok
	g.mu.Unlock()
	if fresh {
		return ok
	}
	return g.check(ctx)
}

func (g *Guard) check(ctx context.Context) bool {
	select {
	case g.checking <- struct{}{}:
		defer func() { <-g.checking }()
	case <-ctx.Done():
		return false
	}
	var failed []error
	for _, c := range g.canaries {
		v, err := g.judge.Entails(ctx, reward.Step{Question: c.Question, Premises: c.Premises, Reasoning: c.Reasoning, Conclusion: c.Conclusion})
		switch {
		case err != nil:
			failed = append(failed, fmt.Errorf("%s: %w", c.Name, err))
		case v.Kind != c.Want:
			failed = append(failed, fmt.Errorf("%s: %s, want %s", c.Name, v.Kind, c.Want))
		}
		if len(failed) > g.cfg.Allowed {
			break // enough to pause; a judge that is down would keep the rest waiting
		}
	}
	if ctx.Err() != nil {
		return false // stopping says nothing about the judge
	}
	return g.settle(failed)
}

func (g *Guard) settle(failed []error) bool {
	g.mu.Lock()
	ok := len(failed) <= g.cfg.Allowed
	changed := g.state.Paused == ok
	g.last, g.ok = time.Now(), ok
	g.state.Checks++
	g.state.Reason = ""
	if err := errors.Join(failed...); err != nil {
		g.state.Reason = err.Error()
	}
	if !ok {
		g.state.FailedChecks++
	}
	if changed {
		g.state.Paused, g.state.Since = !ok, g.last
		if ok {
			close(g.resumed)
		} else {
			g.resumed = make(chan struct{})
		}
	}
	state := g.state
	g.mu.Unlock()
	if changed && g.notify != nil {
		g.notify(state)
	}
	return ok
}
