// Package limit keeps calls to a judge within its endpoint's limits: requests and tokens per minute,
// and a circuit breaker that holds calls back while the endpoint is down.
//
// Invariants: Bucket and Breaker are pure state machines that are told the time; a limit only ever
// delays a call, so it can't change a verdict; while the breaker is open one call at a time probes.
package limit

import (
	"context"
	"sync"
	"time"
)

// Bucket is a token bucket that holds one minute's worth and may be overdrawn by corrections.
type Bucket struct {
	perMinute float64
	level     float64
	at        time.Time
}

// NewBucket returns a full bucket; perMinute <= 0 means no limit.
func NewBucket(perMinute int) *Bucket {
	return &Bucket{perMinute: float64(perMinute), level: float64(perMinute)}
}

func (b *Bucket) refill(now time.Time) {
	if !b.at.IsZero() && now.After(b.at) {
		b.level = min(b.perMinute, b.level+b.perMinute*now.Sub(b.at).Minutes())
	}
	if now.After(b.at) {
		b.at = now
	}
}

// Wait is how long n units are not to be had; 0 means now. More than a minute's worth is treated as
// exactly that, since it would never be had otherwise.
func (b *Bucket) Wait(now time.Time, n int) time.Duration {
	if b.perMinute <= 0 {
		return 0
	}
	b.refill(now)
	missing := min(float64(n), b.perMinute) - b.level
	if missing <= 0 {
		return 0
	}
	return time.Duration(missing/b.perMinute*float64(time.Minute)) + 1
}

// Take draws n units; a negative n gives units back.
func (b *Bucket) Take(now time.Time, n int) {
	if b.perMinute > 0 {
		b.refill(now)
		b.level = min(b.perMinute, b.level-float64(n))
	}
}

// Breaker opens after a number of failures in a row. While it is open, calls wait for a pause that
// doubles up to a maximum; then one call probes, and its success closes the breaker.
//
//	closed --failures--> open --pause--> probing --ok--> closed
//	                      ^---------failed---/
type Breaker struct {
	failures   int // in a row
	limit      int
	pause      time.Duration // after the next failed probe
	first, max time.Duration
	until      time.Time // open until then; zero when closed
	probing    bool
}

// NewBreaker opens after limit failures in a row; limit <= 0 never opens.
func NewBreaker(limit int, first, longest time.Duration) *Breaker {
	return &Breaker{limit: limit, first: first, max: longest, pause: first}
}

// Open reports whether calls are held back.
func (b *Breaker) Open() bool { return !b.until.IsZero() }

// Admit lets a call go (wait 0) or says when to ask again. A call that was let go must be reported.
func (b *Breaker) Admit(now time.Time) (wait time.Duration) {
	switch {
	case b.until.IsZero():
		return 0
	case now.Before(b.until):
		return b.until.Sub(now)
	case b.probing:
		return b.first
	}
	b.probing = true
	return 0
}

// Report tells how a call ended: a success, or the endpoint's failure. A call that was let go before
// the breaker opened and ends after it says nothing about the probe.
func (b *Breaker) Report(now time.Time, ok bool) {
	switch {
	case ok:
		*b = Breaker{limit: b.limit, first: b.first, max: b.max, pause: b.first}
	case b.limit <= 0:
	case b.until.IsZero():
		if b.failures++; b.failures >= b.limit {
			b.until, b.pause = now.Add(b.pause), min(2*b.pause, b.max)
		}
	case b.probing:
		b.probing = false
		b.until, b.pause = now.Add(b.pause), min(2*b.pause, b.max)
	}
}

// Release gives a probe back that ended without saying anything about the endpoint.
func (b *Breaker) Release() { b.probing = false }

// Gate admits calls. It is safe for concurrent use.
type Gate struct {
	mu       sync.Mutex
	requests *Bucket
	tokens   *Bucket
	breaker  *Breaker
	waited   time.Duration
	opened   int
}

// Config of a Gate. Zero limits mean none.
type Config struct {
	RequestsPerMinute int
	TokensPerMinute   int
	BreakerFailures   int
	BreakerPause      time.Duration
	BreakerMaxPause   time.Duration
}

// New returns a gate.
func New(c Config) *Gate {
	return &Gate{
		requests: NewBucket(c.RequestsPerMinute), tokens: NewBucket(c.TokensPerMinute),
		breaker: NewBreaker(c.BreakerFailures, c.BreakerPause, c.BreakerMaxPause),
	}
}

// Enter waits until a call of an estimated number of tokens may go, or ctx ends. The caller ends the
// call with Leave.
func (g *Gate) Enter(ctx context.Context, tokens int) error {
	for {
		wait := g.try(time.Now(), tokens)
		if wait <= 0 {
			return nil
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
	}
}

func (g *Gate) try(now time.Time, tokens int) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	wait := max(g.requests.Wait(now, 1), g.tokens.Wait(now, tokens))
	if wait == 0 {
		wait = g.breaker.Admit(now)
	}
	if wait == 0 {
		g.requests.Take(now, 1)
		g.tokens.Take(now, tokens)
	}
	g.waited += wait
	return wait
}

// Verdict on a call, for the breaker.
type Verdict int

// Verdicts on a call.
const (
	Answered Verdict = iota // the endpoint works, whatever it said
	Failed                  // an outage: connection, time-out, 429, 5xx
	Canceled                // the caller left; this says nothing
)

// Leave ends a call: spent tokens correct the estimate.
func (g *Gate) Leave(v Verdict, estimated, spent int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	g.tokens.Take(now, spent-estimated)
	was := g.breaker.Open()
	switch v {
	case Answered:
		g.breaker.Report(now, true)
	case Failed:
		g.breaker.Report(now, false)
	case Canceled:
		g.breaker.Release()
	}
	if !was && g.breaker.Open() {
		g.opened++
	}
}

// Open reports whether the breaker holds calls back, and how often it has opened.
func (g *Gate) Open() (now bool, times int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.breaker.Open(), g.opened
}
