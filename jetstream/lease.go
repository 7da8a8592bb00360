package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
)

// Lease is the right to lead a run. At most one process holds it at a time, as far as clocks that run
// equally fast can tell; what a late holder still decides is refused by the logs' expected sequence.
//
// No clocks are compared: a candidate takes over only after it has seen the same revision for the
// whole lease time by its own clock, and the holder stops when it could not renew for as long.
type Lease struct {
	bus      *Bus
	key      string
	owner    string
	duration time.Duration
	revision uint64
	renewed  time.Time // when the renewal was sent that is known to be stored

	seen   uint64 // the other holder's revision
	seenAt time.Time
}

type leaseState struct {
	Owner string `json:"owner"`
	// Address is where the holder can be reached.
	Address string `json:"address"`
	Free    bool   `json:"free,omitempty"`
}

// NewLease makes a candidate for leading a run. Exclusive says that nobody else can be alive (the
// broker is embedded), so that a dead holder need not be waited for.
func NewLease(b *Bus, run string, duration time.Duration) *Lease {
	return &Lease{bus: b, key: "leader." + run, owner: nuid.Next(), duration: duration}
}

// TryAcquire takes the lease if it is free or its holder has been silent for the lease time. It has to
// be called again and again to see the silence. force takes it in any case.
func (l *Lease) TryAcquire(ctx context.Context, address string, force bool) (bool, error) {
	value, err := json.Marshal(leaseState{Owner: l.owner, Address: address})
	if err != nil {
		return false, fmt.Errorf("nats: %s: %w", l.key, err)
	}
	e, err := l.bus.state.Get(ctx, l.key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		l.renewed = time.Now()
		l.revision, err = l.bus.state.Create(ctx, l.key, value)
		return l.won(err)
	}
	if err != nil {
		return false, fmt.Errorf("nats: %s: %w", l.key, err)
	}
	var st leaseState
	_ = json.Unmarshal(e.Value(), &st) // an unreadable holder is a silent one in the end
	if e.Revision() != l.seen {
		l.seen, l.seenAt = e.Revision(), time.Now()
	}
	if !force && !st.Free && st.Owner != l.owner && time.Since(l.seenAt) < l.duration {
		return false, nil
	}
	l.renewed = time.Now()
	l.revision, err = l.bus.state.Update(ctx, l.key, value, e.Revision())
	return l.won(err)
}

func (l *Lease) won(err error) (bool, error) {
	if errors.Is(err, jetstream.ErrKeyExists) || isWrongSequence(err) {
		return false, nil // another candidate was faster
	}
	if err != nil {
		return false, fmt.Errorf("nats: %s: %w", l.key, err)
	}
	return true, nil
}

// ErrLeaseLost is returned by Hold when another process leads.
var ErrLeaseLost = errors.New("another process leads")

// Hold renews the lease until ctx ends (nil) or it is lost. The holder has to stop leading when it
// returns.
func (l *Lease) Hold(ctx context.Context, address string) error {
	value, err := json.Marshal(leaseState{Owner: l.owner, Address: address})
	if err != nil {
		return fmt.Errorf("nats: %s: %w", l.key, err)
	}
	tick := time.NewTicker(l.duration / 4)
	defer tick.Stop()
	// It is over here before anybody else may take it: others count from when they saw the renewal, which was after it was sent.
	limit := l.duration * 3 / 4
	for mine := true; ; {
		held, end := context.WithDeadline(ctx, l.renewed.Add(limit))
		select {
		case <-held.Done():
		case <-tick.C:
			mine = l.renew(held, value)
		}
		end()
		switch {
		case ctx.Err() != nil:
			return nil
		case !mine:
			return fmt.Errorf("nats: %s: %w", l.key, ErrLeaseLost)
		case time.Since(l.renewed) >= limit:
			return fmt.Errorf("nats: %s: not renewed for %s: %w", l.key, limit, ErrLeaseLost)
		}
	}
}

// renew reports whether the lease may still be this holder's.
func (l *Lease) renew(ctx context.Context, value []byte) bool {
	try, cancel := context.WithTimeout(ctx, l.duration/4)
	defer cancel()
	sent := time.Now()
	revision, err := l.bus.state.Update(try, l.key, value, l.revision)
	if err == nil {
		l.revision, l.renewed = revision, sent
	}
	return !isWrongSequence(err) || l.mine(ctx)
}

// mine picks up the revision of a renewal whose answer was lost.
func (l *Lease) mine(ctx context.Context) bool {
	e, err := l.bus.state.Get(ctx, l.key)
	if err != nil {
		return true // not known: the time decides
	}
	var st leaseState
	if json.Unmarshal(e.Value(), &st) != nil || st.Owner != l.owner {
		return false
	}
	l.revision = e.Revision()
	return true
}

// Release lets the next candidate take over at once.
func (l *Lease) Release(ctx context.Context) {
	value, err := json.Marshal(leaseState{Owner: l.owner, Free: true})
	if err != nil {
		return
	}
	_, err = l.bus.state.Update(ctx, l.key, value, l.revision)
	// The last renewal may have been cut off after the server took it.
	if isWrongSequence(err) && l.mine(ctx) {
		_, _ = l.bus.state.Update(ctx, l.key, value, l.revision) // else it runs out
	}
}

// Holder returns the address of the process that leads, if any.
func (l *Lease) Holder(ctx context.Context) string {
	var st leaseState
	if ok, err := l.bus.GetState(ctx, l.key, &st); !ok || err != nil || st.Free {
		return ""
	}
	return st.Address
}

// wrongSequenceInFlight is the code of a cluster that has another message of the subject on its way.
const wrongSequenceInFlight jetstream.ErrorCode = 10164

func isWrongSequence(err error) bool {
	var apiErr *jetstream.APIError
	return errors.As(err, &apiErr) &&
		(apiErr.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence || apiErr.ErrorCode == wrongSequenceInFlight)
}

// UpdateState changes a small JSON value: f gets the present one (the zero value if there is none) and
// is called again when another process changed it in between.
func UpdateState[T any](ctx context.Context, b *Bus, key string, f func(T) (T, error)) (T, error) {
	for {
		var v T
		e, err := b.state.Get(ctx, key)
		revision := uint64(0)
		switch {
		case err == nil:
			revision = e.Revision()
			if err := json.Unmarshal(e.Value(), &v); err != nil {
				return v, fmt.Errorf("nats: state %s: %w", key, err)
			}
		case !errors.Is(err, jetstream.ErrKeyNotFound):
			return v, fmt.Errorf("nats: state %s: %w", key, err)
		}
		if v, err = f(v); err != nil {
			return v, err
		}
		data, err := json.Marshal(v)
		if err != nil {
			return v, fmt.Errorf("nats: state %s: %w", key, err)
		}
		if _, err = b.state.Update(ctx, key, data, revision); err == nil {
			return v, nil
		}
		if !errors.Is(err, jetstream.ErrKeyExists) && !isWrongSequence(err) {
			return v, fmt.Errorf("nats: state %s: %w", key, err)
		}
		if err := wait(ctx, retryEvery/4); err != nil { // a replica that lags behind answered, or somebody was faster
			return v, fmt.Errorf("nats: state %s: %w", key, err)
		}
	}
}

// CurrentState reads a value as it is now. Any replica answers a plain read, also one that lags behind; so the value
// is written back at the revision that was read, which only the newest one survives.
func CurrentState[T any](ctx context.Context, b *Bus, key string) (T, error) {
	return UpdateState(ctx, b, key, func(v T) (T, error) { return v, nil })
}
