package judges

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/verigraph/verigraph/reward"
)

// GuardConfig configures a Guard.
type GuardConfig struct {
	// Every is the time between checks, Paused the shorter one while scoring is paused.
	Every  time.Duration `yaml:"every"`
	Paused time.Duration `yaml:"paused"`
	// Allowed is how many canaries may fail in one check.
	Allowed int `yaml:"allowed"`
	// MaxPause is how long scoring may be paused until it goes on without the judge: what needs a new
	// verdict then leaves unscored at once, until the canaries pass. 0 waits without end.
	MaxPause time.Duration `yaml:"max_pause"`
}

// GuardDefaults check every five minutes.
func GuardDefaults() GuardConfig {
	return GuardConfig{Every: 5 * time.Minute, Paused: 30 * time.Second, Allowed: 1, MaxPause: 30 * time.Minute}
}

// Validate reports every problem at once.
func (c GuardConfig) Validate() error {
	var errs []error
	if c.Every <= 0 || c.Paused <= 0 {
		errs = append(errs, fmt.Errorf("canaries: every %s and paused %s must be positive", c.Every, c.Paused))
	}
	if c.MaxPause < 0 {
		errs = append(errs, fmt.Errorf("canaries.max_pause: %s is negative", c.MaxPause))
	}
	if c.Allowed < 0 {
		errs = append(errs, fmt.Errorf("canaries.allowed: %d is negative", c.Allowed))
	}
	return errors.Join(errs...)
}

// GuardState is what a guard knows.
type GuardState struct {
	// Paused: the canaries fail. GaveUp: they have for MaxPause, and scoring goes on without the judge.
	Paused, GaveUp bool
	// Reason says which canaries failed in the last check.
	Reason string
	Since  time.Time
	Checks int
	// FailedChecks counts those that paused scoring or kept it paused.
	FailedChecks int
}

// Guard runs canaries beside the work. No work begins before the first check, so that a judge that is
// still starting, or was never there, costs no rollout.
//
//	starting --they pass--> working --more than Allowed fail--> paused --MaxPause--> gave up
//	    +------------more than Allowed fail-----------------------^  |                  |
//	                       working <-----------------they pass-------+------------------+
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
	open     bool          // work may begin
	resumed  chan struct{} // closed while open
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
	return &Guard{judge: judge, canaries: canaries, cfg: cfg, notify: notify, checking: make(chan struct{}, 1), resumed: make(chan struct{})}, nil
}

// Run checks until ctx ends.
func (g *Guard) Run(ctx context.Context) error {
	for {
		g.check(ctx)
		wait := g.cfg.Every
		if g.State().Paused {
			wait = g.cfg.Paused
			if left, counting := g.patience(); counting {
				wait = min(wait, left)
			}
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
			g.giveUp()
		}
	}
}

// patience is how long the present pause may still last, and whether it is bounded.
func (g *Guard) patience() (time.Duration, bool) {
	st := g.State()
	if !st.Paused || st.GaveUp || g.cfg.MaxPause == 0 {
		return 0, false
	}
	return max(g.cfg.MaxPause-time.Since(st.Since), 0), true
}

// giveUp ends a pause that has lasted too long.
func (g *Guard) giveUp() {
	if left, counting := g.patience(); !counting || left > 0 {
		return
	}
	g.mu.Lock()
	g.state.GaveUp = true
	g.admit(true)
	state := g.state
	g.mu.Unlock()
	if g.notify != nil {
		g.notify(state)
	}
}

// admit opens or shuts the way for work; g.mu is held.
func (g *Guard) admit(open bool) {
	switch {
	case open && !g.open:
		close(g.resumed)
	case !open && g.open:
		g.resumed = make(chan struct{})
	}
	g.open = open
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
			if st := g.State(); !st.Paused || st.GaveUp {
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
	failed := g.ask(ctx)
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
	var why []string
	for _, err := range failed {
		why = append(why, err.Error())
	}
	g.state.Reason = strings.Join(why, "; ")
	if !ok {
		g.state.FailedChecks++
	}
	if changed {
		g.state.Paused, g.state.Since = !ok, g.last
		g.state.GaveUp = false
	}
	g.admit(ok || g.state.GaveUp)
	state := g.state
	g.mu.Unlock()
	if changed && g.notify != nil {
		g.notify(state)
	}
	return ok
}
