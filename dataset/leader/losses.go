package leader

import "fmt"

// lossWindow is how many of the last groups say whether rollouts are being lost.
const lossWindow = 16

// losses are the last groups that left: how many rollouts each had, and how many of them got no reward
// for reasons that are not the policy's (stale and filtered ones got one).
type losses struct {
	lost, of [lossWindow]int
	groups   int
}

func (l *losses) left(o Outcomes) {
	at := l.groups % lossWindow
	l.lost[at], l.of[at] = o[Failed]+o[Unscored]+o[SetAside], 0
	for _, n := range o {
		l.of[at] += n
	}
	l.groups++
}

// share is that of the whole window; 0 until it is full.
func (l *losses) share() float64 {
	lost, of := 0, 0
	for i := range l.of {
		lost, of = lost+l.lost[i], of+l.of[i]
	}
	if l.groups < lossWindow || of == 0 {
		return 0
	}
	return float64(lost) / float64(of)
}

// losing reports whether more rollouts are lost than max_lost allows. Dispatching for training then pauses
// but for one group at a time, which finds out when it is over. Good groups that wait for their batch do
// not count as that one, or the batch would never fill.
func (c Config) losing(l *losses) bool { return l.share() > c.MaxLost }

func (l *losses) String() string {
	return fmt.Sprintf("%.0f%% of the rollouts of the last %d groups were lost", 100*l.share(), lossWindow)
}
