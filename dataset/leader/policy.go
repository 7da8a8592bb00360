package leader

import (
	"cmp"
	"fmt"
	"path"
	"slices"

	"github.com/verigraph/verigraph/trajectory"
)

// load is what counts against the capacity, in groups but for pending.
type load struct {
	open     int // dispatched and not yet left, validation included
	running  int // of them, for training and not yet scored
	buffered int // of them, good and waiting for their batch
	pending  int // batches that no policy version holds yet; a partial one takes a version like a full one
}

// capacity is the number of training groups that may be dispatched now. With a staleness bound of S
// everything that is ahead of a new group fits into S+1 batches, so that it can be trained on at most
// S versions after its own.
func (c Config) capacity(l load) int {
	room := c.MaxGroups - l.open
	if c.MaxStaleness != NoStaleness {
		room = min(room, (c.MaxStaleness+1)*c.BatchGroups-(l.running+l.buffered)-l.pending*c.BatchGroups)
	}
	return max(room, 0)
}

// clock is where the trainer is, counted in policy versions.
type clock struct {
	version int64
	pending int64 // batches that this version does not hold; each will make one
}

// trainedAt is the version at which the next batch will be trained on.
func (c clock) trainedAt() int64 { return c.version + c.pending }

// stale reports whether a group is too old even for the next batch.
func (c Config) stale(oldest int64, now clock) bool {
	return c.MaxStaleness != NoStaleness && now.trainedAt()-oldest > int64(c.MaxStaleness)
}

// mayNumber: no further ahead of the trainer than a group of the newest version could bear.
func (c Config) mayNumber(now clock) bool {
	return c.MaxStaleness == NoStaleness || now.pending <= int64(c.MaxStaleness)
}

// waiter is a training group that is not in the next batch.
type waiter struct {
	id      string
	version int64 // its oldest
	running bool
}

// straggler returns a running group that one more batch would make too old and that is not too old yet.
// The oldest of those that wait fill the batches after it.
func (c Config) straggler(waiting []waiter, now clock) (string, bool) {
	if c.MaxStaleness == NoStaleness || c.Stragglers != StragglersWait {
		return "", false
	}
	slices.SortFunc(waiting, func(a, b waiter) int { return cmp.Or(cmp.Compare(a.version, b.version), cmp.Compare(a.id, b.id)) })
	for i, w := range waiting {
		at := clock{now.version, now.pending + int64(i/c.BatchGroups)}
		if w.running && !c.stale(w.version, at) && c.stale(w.version, clock{at.version, at.pending + 1}) {
			return w.id, true
		}
	}
	return "", false
}

// MetricAuto takes acc where a rule judged every valid member, else score.
const MetricAuto = "auto"

// metrics are the scores that a group may be filtered by, under their column names.
var metrics = map[string]func(trajectory.Score) float64{
	"acc":              func(s trajectory.Score) float64 { return s.Accuracy },
	"score":            func(s trajectory.Score) float64 { return s.Total },
	"seq_reward":       func(s trajectory.Score) float64 { return s.Clipped },
	"seq_final_reward": func(s trajectory.Score) float64 { return s.Reward },
	"r_process":        func(s trajectory.Score) float64 { return s.Process },
	"r_infer":          func(s trajectory.Score) float64 { return s.Infer },
	"r_outcome":        func(s trajectory.Score) float64 { return s.Outcome },
}

// sameEnough is the spread below which float rounding explains a difference.
const sameEnough = 1e-9

// varies reports whether the filter's metric differs between the valid members of a group, and what
// its value is. Members without a reward take no part.
func (f Filter) varies(scores []trajectory.Score) (bool, string) {
	name := f.Metric
	if name == MetricAuto {
		name = "acc"
		for _, s := range scores {
			if s.Status == trajectory.ScoreOK && s.Correct == nil {
				name = "score"
			}
		}
	}
	metric := metrics[name]
	low, high, n := 0.0, 0.0, 0
	for _, s := range scores {
		if s.Status != trajectory.ScoreOK {
			continue
		}
		v := metric(s)
		if n == 0 {
			low, high = v, v
		}
		low, high, n = min(low, v), max(high, v), n+1
	}
	// Two decimals keep the number of distinct counters small.
	return high-low > sameEnough, fmt.Sprintf("%s=%.2f", name, low)
}

// usedUp reports whether max_rounds batches' worth of groups ended without a full batch.
func (c Config) usedUp(ended, good int) bool {
	return good < c.BatchGroups && ended >= c.Filter.MaxRounds*c.BatchGroups
}

// allowed reports whether a policy address that a trainer sent matches the allow-list.
func (c Config) allowed(endpoint string) bool {
	for _, pattern := range c.Endpoints {
		if ok, err := path.Match(pattern, endpoint); err == nil && ok {
			return true
		}
	}
	return false
}
