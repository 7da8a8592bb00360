// Package dispatch decides what is admitted, what is filtered and what is too old. It is all pure
// values: no clock, no goroutine, no stream; the leader owns those.
//
// Invariants: admission never lets more groups run than a trainer that moves on by max_staleness
// versions could still use, and no group older than max_staleness is numbered into a batch, so that
// one number moves a run between synchronous (0), one step off (1) and asynchronous.
package dispatch

import (
	"errors"
	"fmt"
)

// Unbounded as MaxStaleness switches staleness off.
const Unbounded = -1

// Policy bounds what is in flight.
type Policy struct {
	// MaxGroups bounds the groups that are dispatched and not yet delivered.
	MaxGroups int `yaml:"max_groups"`
	// BatchGroups is the number of groups of a full batch.
	BatchGroups int `yaml:"batch_groups"`
	// MaxStaleness is how many policy versions a group may lag behind the trainer; -1 is no bound.
	MaxStaleness int `yaml:"max_staleness"`
}

// Load is what counts against the capacity, in groups.
type Load struct {
	// Running are dispatched groups that have not come back scored.
	Running int
	// Good are scored groups that wait for a batch.
	Good int
	// Delivered are groups that went into batches since the last policy update.
	Delivered int
}

// Capacity is the number of groups that may be admitted now; it can be negative after an update of
// the bounds. It is min(max_groups - running - good, (max_staleness+1)*batch_groups - (running +
// good + delivered since the last update)), AReaL's formula in groups.
func (p Policy) Capacity(l Load) int {
	room := p.MaxGroups - l.Running - l.Good
	if p.MaxStaleness == Unbounded {
		return room
	}
	return min(room, (p.MaxStaleness+1)*p.BatchGroups-(l.Running+l.Good+l.Delivered))
}

// TooOld reports whether a group whose oldest token was sampled under version oldest may no longer
// be delivered to a trainer at version current.
func (p Policy) TooOld(oldest, current int64) bool {
	return p.MaxStaleness != Unbounded && current-oldest > int64(p.MaxStaleness)
}

// Validate reports every problem at once.
func (p Policy) Validate() error {
	var errs []error
	for _, e := range []struct {
		name   string
		v, low int
	}{{"batch_groups", p.BatchGroups, 1}, {"max_groups", p.MaxGroups, 1}, {"max_staleness", p.MaxStaleness, Unbounded}} {
		if e.v < e.low {
			errs = append(errs, fmt.Errorf("leader.%s: %d, want at least %d", e.name, e.v, e.low))
		}
	}
	if p.MaxGroups < p.BatchGroups {
		errs = append(errs, fmt.Errorf("leader.max_groups: %d is below batch_groups %d: no batch would ever fill", p.MaxGroups, p.BatchGroups))
	}
	return errors.Join(errs...)
}
