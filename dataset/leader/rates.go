package leader

import "time"

// rateWindow is the time over which rates are measured.
const rateWindow = time.Minute

// rates counts rollouts over the last minute. The zero value is ready; it is a plain value.
type rates struct {
	at    []time.Time
	count []int
}

func (r *rates) add(now time.Time, n int) {
	r.drop(now)
	r.at, r.count = append(r.at, now), append(r.count, n)
}

func (r *rates) drop(now time.Time) {
	for len(r.at) > 0 && now.Sub(r.at[0]) > rateWindow {
		r.at, r.count = r.at[1:], r.count[1:]
	}
}

// perSecond is the mean rate over the last minute.
func (r *rates) perSecond(now time.Time) float64 {
	r.drop(now)
	n := 0
	for _, c := range r.count {
		n += c
	}
	return float64(n) / rateWindow.Seconds()
}
