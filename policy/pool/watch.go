package pool

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/verigraph/verigraph/policy"
)

// checkTimeout bounds a health check, a look at the load and a question for the version.
const checkTimeout = 5 * time.Second

// Run keeps health, limits, versions and addresses current until ctx ends; it returns nil then.
func (p *Pool) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return every(ctx, p.cfg.CheckEvery, p.checkAll) })
	if p.cfg.DNS {
		g.Go(func() error { return every(ctx, p.cfg.Refresh, p.Resolve) })
	}
	return g.Wait()
}

func every(ctx context.Context, d time.Duration, do func(context.Context)) error {
	tick := time.NewTicker(d)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			do(ctx)
		}
	}
}

// checkAll checks every endpoint whose turn it is, side by side.
func (p *Pool) checkAll(ctx context.Context) {
	p.mu.Lock()
	due := p.bal.Due(time.Now())
	members := make([]*member, len(due))
	for i, name := range due {
		members[i] = p.members[name]
	}
	p.mu.Unlock()
	var checks errgroup.Group
	for i, name := range due {
		checks.Go(func() error {
			p.check(ctx, name, members[i])
			return nil
		})
	}
	_ = checks.Wait() // no check returns an error
}

func (p *Pool) check(ctx context.Context, name string, m *member) {
	limited, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	err := m.client.Health(limited)
	if ctx.Err() != nil {
		return
	}
	p.mu.Lock()
	p.bal.Checked(name, err == nil, time.Now())
	changed := m.healthy != (err == nil)
	m.healthy = err == nil
	p.wake()
	p.mu.Unlock()
	if changed {
		p.log.Warn("policy endpoint changed", zap.String("endpoint", name), zap.Bool("healthy", err == nil), zap.Error(err))
	}
	if err != nil {
		return
	}
	p.readVersion(limited, m)
	if p.cfg.Adaptive {
		p.adapt(limited, name, m)
	}
}

// adapt asks for the load; an endpoint without metrics keeps its limit.
func (p *Pool) adapt(ctx context.Context, name string, m *member) {
	load, err := m.client.Load(ctx)
	if err != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bal.SetLimit(name, m.control.Next(load, m.inFlight))
	p.wake()
}

// CheckNow does one round of checks, so that versions are known before the first call.
func (p *Pool) CheckNow(ctx context.Context) { p.checkAll(ctx) }

func (p *Pool) readVersion(ctx context.Context, m *member) (int64, bool) {
	v, err := m.client.WeightVersion(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	m.asked = m.asked || err == nil
	if err != nil || v < 0 {
		return -1, false
	}
	m.version, m.versioned = v, true
	return v, true
}

// stated is what the endpoint said before a call. One that was never reached is asked first: a
// version must not be made up for its ids.
func (p *Pool) stated(ctx context.Context, m *member) (int64, bool) {
	p.mu.Lock()
	version, versioned, asked := m.version, m.versioned, m.asked
	p.mu.Unlock()
	if asked {
		return version, versioned
	}
	limited, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	return p.readVersion(limited, m)
}

// confirm asks for the version after a call: no update can have happened during the call if it is
// still the one that was known before it. With the answer's own word (SGLang) no question is needed.
// An endpoint that doesn't say any more gets the next version as its end, so that the span counts
// as mixed rather than as confirmed.
func (p *Pool) confirm(ctx context.Context, m *member, start, answered int64) policy.Versions {
	end := answered
	if end < 0 {
		limited, cancel := context.WithTimeout(ctx, checkTimeout)
		defer cancel()
		v, ok := p.readVersion(limited, m)
		if !ok {
			v = start + 1
		}
		end = v
	} else {
		p.mu.Lock()
		m.version = max(m.version, answered)
		p.mu.Unlock()
	}
	return policy.Versions{Known: true, Start: min(start, end), End: end}
}

// Resolve looks base_url's host up again. A failed look-up changes nothing.
func (p *Pool) Resolve(ctx context.Context) {
	p.mu.Lock()
	given := p.given != nil
	p.mu.Unlock()
	if given {
		return
	}
	urls, err := p.resolved(ctx)
	if err == nil {
		err = p.set(urls)
	}
	if err != nil && ctx.Err() == nil {
		p.log.Warn("policy endpoints not looked up", zap.Error(err))
	}
}

func (p *Pool) resolved(ctx context.Context) ([]string, error) {
	base, err := cleanURL(p.policy.BaseURL)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(base)
	if err != nil {
		return nil, err
	}
	addrs, err := p.lookup(ctx, u.Hostname())
	if err != nil || len(addrs) == 0 {
		return nil, fmt.Errorf("look up %s: %d addresses: %w", u.Hostname(), len(addrs), err)
	}
	slices.Sort(addrs)
	var urls []string
	for _, a := range addrs {
		host := net.JoinHostPort(a, u.Port())
		if u.Port() == "" {
			host = strings.TrimSuffix(host, ":")
		}
		urls = append(urls, u.Scheme+"://"+host)
	}
	for _, extra := range p.cfg.URLs {
		if clean, err := cleanURL(extra); err == nil {
			urls = append(urls, clean)
		}
	}
	return urls, nil
}

func lookupHost(ctx context.Context, host string) ([]string, error) {
	return net.DefaultResolver.LookupHost(ctx, host)
}
