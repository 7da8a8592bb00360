package pool

import (
	"slices"
	"time"
)

// Verdict is what a finished call says about its endpoint.
type Verdict int

// Verdicts.
const (
	Answered Verdict = iota // it works, whatever the answer was
	Failed                  // no answer: connection errors, 5xx, time-outs
	Refused                 // overloaded: try elsewhere, but it lives
	Unknown                 // the caller left before the answer
)

const (
	firstEjection = time.Second
	maxEjection   = 30 * time.Second
	// stickFor is how long an idle trajectory keeps its endpoint; a cell and its queueing are shorter.
	stickFor = time.Hour
)

// Balancer decides which endpoint takes a call. It is a pure state machine: the clock is passed in,
// and it is not safe for concurrent use.
//
// Invariants: no endpoint has more calls in flight than its limit; an ejected endpoint gets none
// until a health check passed; a call that was placed is released exactly once, also when its
// endpoint was removed meanwhile.
type Balancer struct {
	ejectAfter int
	limit      int
	endpoints  map[string]*endpoint
	order      []string
	sticky     map[string]stick
	swept      time.Time
}

type endpoint struct {
	inFlight int
	limit    int
	failures int // in a row
	removed  bool
	ejected  bool
	until    time.Time // of the ejection: the next health check
	penalty  time.Duration
}

type stick struct {
	endpoint string
	used     time.Time
}

// NewBalancer ejects an endpoint after that many failures in a row; limit is each endpoint's first one.
func NewBalancer(ejectAfter, limit int) *Balancer {
	return &Balancer{
		ejectAfter: ejectAfter, limit: limit,
		endpoints: map[string]*endpoint{}, sticky: map[string]stick{},
	}
}

// Set replaces the list of endpoints. Calls in flight on a removed one end as they will.
func (b *Balancer) Set(names []string) {
	for name, e := range b.endpoints {
		if e.removed = !slices.Contains(names, name); e.removed && e.inFlight == 0 {
			delete(b.endpoints, name)
		}
	}
	b.order = slices.Clone(names)
	slices.Sort(b.order)
	b.order = slices.Compact(b.order)
	for _, name := range b.order {
		if b.endpoints[name] == nil {
			b.endpoints[name] = &endpoint{limit: b.limit}
		}
	}
}

// Acquire places a call: on the session's own endpoint while that is healthy and has room, else on
// the one with the fewest failures and then the fewest calls. False means that none can take it now.
func (b *Balancer) Acquire(session string, now time.Time) (string, bool) {
	b.sweep(now)
	name, ok := b.sticky[session].endpoint, false
	if e := b.endpoints[name]; e != nil && e.takes() && e.failures == 0 {
		ok = true
	} else {
		name, ok = b.best()
	}
	if !ok {
		return "", false
	}
	b.endpoints[name].inFlight++
	if session != "" {
		b.sticky[session] = stick{name, now}
	}
	return name, true
}

func (e *endpoint) takes() bool { return !e.removed && !e.ejected && e.inFlight < e.limit }

func (b *Balancer) best() (string, bool) {
	best := ""
	for _, name := range b.order {
		e := b.endpoints[name]
		if !e.takes() {
			continue
		}
		if best == "" {
			best = name
			continue
		}
		if o := b.endpoints[best]; e.failures < o.failures || e.failures == o.failures && e.inFlight < o.inFlight {
			best = name
		}
	}
	return best, best != ""
}

// Release ends a call.
func (b *Balancer) Release(name, session string, v Verdict, now time.Time) {
	e := b.endpoints[name]
	if e == nil {
		return
	}
	e.inFlight--
	if e.removed && e.inFlight == 0 {
		delete(b.endpoints, name)
	}
	switch v {
	case Answered:
		e.failures, e.penalty = 0, 0
	case Failed:
		e.failures++
		if e.failures >= b.ejectAfter && !e.ejected {
			b.eject(e, now)
		}
		b.unstick(name, session)
	case Refused:
		b.unstick(name, session)
	}
}

func (b *Balancer) unstick(name, session string) {
	if b.sticky[session].endpoint == name {
		delete(b.sticky, session)
	}
}

func (b *Balancer) eject(e *endpoint, now time.Time) {
	e.ejected = true
	e.penalty = min(max(2*e.penalty, firstEjection), maxEjection)
	e.until = now.Add(e.penalty)
}

// Checked takes the result of a health check: it ejects or returns the endpoint.
func (b *Balancer) Checked(name string, healthy bool, now time.Time) {
	e := b.endpoints[name]
	switch {
	case e == nil:
	case healthy && e.ejected:
		e.ejected, e.failures = false, 0 // the penalty stays until a call is answered
	case !healthy && !e.ejected:
		e.failures = max(e.failures, b.ejectAfter)
		b.eject(e, now)
	case !healthy && !now.Before(e.until):
		b.eject(e, now)
	}
}

// Due lists the endpoints whose health may be checked now: all but those whose ejection still runs.
func (b *Balancer) Due(now time.Time) []string {
	var out []string
	for _, name := range b.order {
		if e := b.endpoints[name]; !e.ejected || !now.Before(e.until) {
			out = append(out, name)
		}
	}
	return out
}

// SetLimit bounds the calls in flight on one endpoint; calls over it end as they will.
func (b *Balancer) SetLimit(name string, n int) {
	if e := b.endpoints[name]; e != nil {
		e.limit = max(n, 1)
	}
}

// Usable is the number of endpoints that are not ejected.
func (b *Balancer) Usable() int {
	n := 0
	for _, name := range b.order {
		if !b.endpoints[name].ejected {
			n++
		}
	}
	return n
}

// sweep forgets idle sessions, once in a while.
func (b *Balancer) sweep(now time.Time) {
	if now.Sub(b.swept) < stickFor/4 {
		return
	}
	b.swept = now
	for session, s := range b.sticky {
		if now.Sub(s.used) > stickFor {
			delete(b.sticky, session)
		}
	}
}
