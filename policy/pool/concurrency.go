package pool

import "github.com/verigraph/verigraph/policy"

// Thresholds of the controller. A preemption throws computed KV cache away and computes it again, so
// it is the clearest sign of too many trajectories at once; a queue is the next.
const (
	kvHigh = 0.95
	kvLow  = 0.80
	// queueShare of the running requests may wait before the limit falls.
	queueShare = 0.10
	shrink     = 0.80
	grow       = 0.10
	// rest is how many samples the limit stays after it fell: its effect takes a while.
	rest = 3
)

// Concurrency finds how many calls an endpoint can take at once from what it says about itself. It
// is a pure value: no clock, no I/O.
type Concurrency struct {
	Min, Max int
	// Limit is the current one.
	Limit int

	preemptions float64
	seen        bool
	resting     int
}

// Next takes a sample of the endpoint's load and the number of our calls in flight there.
func (c *Concurrency) Next(load policy.Load, inFlight int) int {
	preempted := c.seen && load.Preemptions > c.preemptions
	c.preemptions, c.seen = load.Preemptions, true
	full := preempted || load.KVUsage >= kvHigh
	queued := load.Waiting > queueShare*max(load.Running, 1)
	switch {
	case c.resting > 0:
		c.resting--
	case full, queued:
		// From what is in flight, not from a limit that nobody used.
		c.Limit = int(shrink * float64(min(c.Limit, max(inFlight, 1))))
		c.resting = rest
	case load.KVUsage < kvLow && load.Waiting == 0 && inFlight >= c.Limit:
		c.Limit += max(1, int(grow*float64(c.Limit)))
	}
	c.Limit = min(max(c.Limit, c.Min), c.Max)
	return c.Limit
}
