// Package pool spreads policy calls over endpoints that come, go, fail and fill up.
//
// Invariants: a trajectory stays on one endpoint while that is healthy and has room; no endpoint
// holds more calls than its limit; a call is tried again elsewhere only when it brought no answer,
// and then from nothing; every call is released, whatever became of it.
//
//	         fails in a row, or health check failed
//	usable ------------------------------------------> ejected (1 s, 2 s, ... 30 s)
//	   ^                                                  |
//	   +------------------ health check passed -----------+
package pool

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/verigraph/verigraph/policy"
)

// Pool is safe for concurrent use. Run must run beside it for health, DNS, load and versions.
type Pool struct {
	cfg    Config
	policy policy.Config
	log    *zap.Logger
	lookup func(ctx context.Context, host string) ([]string, error)

	mu      sync.Mutex
	bal     *Balancer
	members map[string]*member
	waiting []*waiter
	given   []string // the trainer's list; replaces the configured one

	configured []string
	trainer    *Stated   // nil while it said nothing
	pausedAt   time.Time // zero while it does not pause
	pausedFor  time.Duration
}

// member is one endpoint.
type member struct {
	client    *policy.Client
	version   int64 // newest that the endpoint itself stated, -1 before
	versioned bool
	asked     bool // whether it states versions at all is known
	inFlight  int
	control   Concurrency
	healthy   bool
}

// waiter is a call that found no room.
type waiter struct {
	session string
	placed  chan placement
}

type placement struct {
	name string
	m    *member
}

// Status is one endpoint as a person sees it.
type Status struct {
	Endpoint string `json:"endpoint"`
	Usable   bool   `json:"usable"`
	InFlight int    `json:"in_flight"`
	Limit    int    `json:"limit"`
	Version  int64  `json:"version"`
}

// New builds a pool over base_url and urls; it makes no call.
func New(cfg Config, p policy.Config, log *zap.Logger) (*Pool, error) {
	if err := cfg.ValidateWith(p); err != nil {
		return nil, err
	}
	if p.Ledger == nil {
		p.Ledger = &policy.Ledger{}
	}
	if base, err := url.Parse(p.BaseURL); err == nil && cfg.DNS && base.Scheme == "https" && p.TLS.ServerName == "" {
		p.TLS.ServerName = base.Hostname() // the endpoints are addresses; their certificate holds the name
	}
	first := cfg.MaxInFlight
	if cfg.Adaptive {
		first = cfg.StartInFlight
	}
	pl := &Pool{
		cfg: cfg, policy: p, log: log, lookup: lookupHost,
		bal: NewBalancer(cfg.EjectAfter, first), members: map[string]*member{},
	}
	var urls []string
	for _, u := range append([]string{p.BaseURL}, cfg.URLs...) {
		if u == "" {
			continue // the trainer names it
		}
		clean, err := cleanURL(u)
		if err != nil {
			return nil, fmt.Errorf("policy: %w", err)
		}
		urls = append(urls, clean)
	}
	pl.configured = urls
	return pl, pl.set(urls)
}

// SetEndpoints replaces the endpoints by those that the trainer names, each of which must be on the
// allow-list; otherwise nothing changes.
func (p *Pool) SetEndpoints(urls []string) error {
	var clean []string
	var errs []error
	for _, u := range urls {
		c, err := cleanURL(u)
		if err == nil && !p.cfg.allowed(c) {
			err = fmt.Errorf("%s is not on policy.endpoints.allow", c)
		}
		errs = append(errs, err)
		clean = append(clean, c)
	}
	if len(urls) == 0 {
		errs = append(errs, errors.New("no endpoint was named"))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("policy: endpoints from the trainer: %w", err)
	}
	p.mu.Lock()
	p.given = clean
	p.mu.Unlock()
	return p.set(clean)
}

// set makes the members exactly these. Clients of removed ones are closed once they are idle.
func (p *Pool) set(urls []string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, u := range urls {
		if p.members[u] != nil {
			continue
		}
		cfg := p.policy
		cfg.BaseURL, cfg.RetryBudget = u, 0
		c, err := policy.NewClient(cfg)
		if err != nil {
			return err
		}
		p.members[u] = &member{
			client: c, version: -1, healthy: true,
			control: Concurrency{Min: 1, Max: p.cfg.MaxInFlight, Limit: p.cfg.StartInFlight},
		}
	}
	for u, m := range p.members {
		if !slices.Contains(urls, u) {
			m.client.Close()
			delete(p.members, u)
		}
	}
	p.bal.Set(urls)
	p.wake()
	return nil
}

// Client is one member's client, for checks; nil while there is no endpoint.
func (p *Pool) Client() *policy.Client {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, name := range p.bal.order {
		return p.members[name].client
	}
	return nil
}

// Open is the ledger of calls of all endpoints that have not ended.
func (p *Pool) Open() *policy.Ledger { return p.policy.Ledger }

// Version is what the trainer stated last; without its word the newest that any endpoint stated, 0
// where none did.
func (p *Pool) Version() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.trainer != nil {
		return p.trainer.Version
	}
	v := int64(0)
	for _, m := range p.members {
		v = max(v, m.version)
	}
	return v
}

// Status lists the endpoints.
func (p *Pool) Status() []Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []Status
	for _, name := range p.bal.order {
		e := p.bal.endpoints[name]
		out = append(out, Status{name, !e.ejected, e.inFlight, e.limit, p.members[name].version})
	}
	return out
}

// Close drops idle connections.
func (p *Pool) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.members {
		m.client.Close()
	}
}

// Complete generates once. Where every endpoint is full it waits as long as ctx lets it: queueing is
// nobody's failure. What brought no answer is tried again within the retry budget, on another
// endpoint where there is one.
func (p *Pool) Complete(ctx context.Context, r policy.Request) (policy.Completion, error) {
	var firstFailure time.Time
	for try := 1; ; try++ {
		c, err := p.once(ctx, r, firstFailure)
		if err == nil || ctx.Err() != nil {
			return c, err
		}
		var failed *policy.Error
		if !errors.As(err, &failed) {
			return c, err
		}
		if firstFailure.IsZero() {
			firstFailure = p.Now()
		}
		delay, again := policy.RetryDelay(failed, try, p.Now().Sub(firstFailure), p.policy.RetryBudget, rand.Float64())
		if !again {
			return policy.Completion{}, failed
		}
		if err := policy.Wait(ctx, delay); err != nil {
			return policy.Completion{}, err
		}
	}
}

// once places one call, makes it and releases it.
func (p *Pool) once(ctx context.Context, r policy.Request, failing time.Time) (policy.Completion, error) {
	name, m, err := p.place(ctx, r.Session, failing)
	if err != nil {
		return policy.Completion{}, err
	}
	trainer := p.stance() // after the wait for a place
	if trainer != nil {
		r.CacheSalt = trainer.salt()
	}
	start, versioned := p.stated(ctx, m)
	c, err := m.client.Complete(ctx, r)
	if err == nil && versioned {
		c.Versions = p.confirm(ctx, m, start, c.WeightVersion)
	}
	if err == nil && trainer != nil {
		c.Versions = trainer.versions(*p.stance(), c.Versions)
	}
	p.release(name, m, r.Session, verdict(ctx, err))
	return c, err
}

func verdict(ctx context.Context, err error) Verdict {
	var failed *policy.Error
	switch {
	case err == nil:
		return Answered
	case ctx.Err() != nil || !errors.As(err, &failed):
		return Unknown
	case failed.Outcome == policy.Unreachable:
		return Failed
	case failed.Outcome == policy.Overloaded:
		return Refused
	}
	return Answered
}

// place waits for an endpoint with room, and while the trainer pauses. While everything is ejected it
// waits no longer than the retry budget.
func (p *Pool) place(ctx context.Context, session string, failing time.Time) (string, *member, error) {
	p.mu.Lock()
	if name, ok := p.acquire(session); ok {
		m := p.members[name]
		p.mu.Unlock()
		return name, m, nil
	}
	w := &waiter{session: session, placed: make(chan placement, 1)}
	p.waiting = append(p.waiting, w)
	p.mu.Unlock()
	defer policy.BeginWaiting(ctx, p.Now)()
	begin := p.Now()
	if !failing.IsZero() {
		begin = failing
	}
	tick := time.NewTicker(p.cfg.CheckEvery)
	defer tick.Stop()
	for {
		var err error
		select {
		case at := <-w.placed:
			return at.name, at.m, nil
		case <-ctx.Done():
			err = ctx.Err()
		case <-tick.C:
			err = p.hopeless(&begin)
		}
		if err != nil {
			p.leave(w)
			return "", nil, err
		}
	}
}

// acquire cannot overtake those who wait: they are placed whenever there is room, under the same
// lock, which is held.
func (p *Pool) acquire(session string) (string, bool) {
	if !p.pausedAt.IsZero() {
		return "", false
	}
	name, ok := p.bal.Acquire(session, time.Now())
	if ok {
		p.members[name].inFlight++
	}
	return name, ok
}

// hopeless gives an error once nothing was usable for longer than the budget.
func (p *Pool) hopeless(since *time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bal.Usable() > 0 {
		*since = p.clock()
		return nil
	}
	if p.clock().Sub(*since) < p.policy.RetryBudget {
		return nil
	}
	return &policy.Error{Outcome: policy.Unreachable, Err: fmt.Errorf("none of %d endpoints was usable for %s",
		len(p.bal.order), p.policy.RetryBudget)}
}

// leave takes a waiter out; one that was placed at the same moment gives its place back.
func (p *Pool) leave(w *waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.waiting, w); i >= 0 {
		p.waiting = slices.Delete(p.waiting, i, i+1)
		return
	}
	at := <-w.placed
	at.m.inFlight--
	p.bal.Release(at.name, w.session, Unknown, time.Now())
	p.wake()
}

// wake places waiters in the order in which they came. The lock is held.
func (p *Pool) wake() {
	for len(p.waiting) > 0 {
		w := p.waiting[0]
		name, ok := p.acquire(w.session)
		if !ok {
			return
		}
		m := p.members[name]
		p.waiting = p.waiting[1:]
		w.placed <- placement{name, m}
	}
}

func (p *Pool) release(name string, m *member, session string, v Verdict) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m.inFlight--
	p.bal.Release(name, session, v, time.Now())
	p.wake()
}
