package chaos

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// kind is one way in which something breaks.
type kind string

const (
	killWorker    kind = "worker killed"
	killLeader    kind = "leader killed"
	killStandby   kind = "standby reward server killed"
	killNode      kind = "NATS server killed"
	killTrainer   kind = "trainer killed"
	killZygote    kind = "zygote killed"
	killPair      kind = "leader and a NATS server killed"
	killNodes     kind = "all NATS servers killed"
	stopWorker    kind = "worker stopped for a while"
	stopLeader    kind = "leader stopped for a while"
	stopStandby   kind = "standby stopped for a while"
	stopNode      kind = "NATS server stopped for a while"
	stopTrainer   kind = "trainer stopped for a while"
	cutNode       kind = "NATS server cut off"
	cutWorker     kind = "worker cut off"
	cutLeader     kind = "leader cut off"
	cutTrainer    kind = "trainer cut off"
	slowBroker    kind = "slow links to NATS"
	slowRoutes    kind = "slow links between NATS servers"
	slowFeed      kind = "slow link of the trainer"
	slowPolicy    kind = "slow links to the policy"
	fullNode      kind = "disk of a NATS server full"
	fullBlob      kind = "disk of blobs and archive full"
	clockWorker   kind = "clock of a worker jumps"
	clockLeader   kind = "clock of the leader jumps"
	clockNode     kind = "clock of a NATS server jumps"
	policyDeath   kind = "one policy endpoint dead"
	policiesDeath kind = "all policy endpoints dead"
	judgeDeath    kind = "judge endpoint dead"
	judgeErrors   kind = "judge answers errors"
)

// allKinds are injected by the schedule; poisoned prompts are part of the load.
var allKinds = []kind{
	killWorker, killLeader, killStandby, killNode, killTrainer, killZygote, killPair, killNodes,
	stopWorker, stopLeader, stopStandby, stopNode, stopTrainer, cutNode, cutWorker, cutLeader, cutTrainer,
	slowBroker, slowRoutes, slowFeed, slowPolicy, fullNode, fullBlob, clockWorker, clockLeader, clockNode,
	policyDeath, policiesDeath, judgeDeath, judgeErrors,
}

// fault is one entry of the schedule.
type fault struct {
	At   time.Duration // from the start of the faults
	For  time.Duration // 0 for what is over at once
	Kind kind
	// Target is a number from which the victim is chosen, Silent that a link swallows instead of refusing, and
	// Jump how far a clock goes.
	Target int
	Silent bool
	Jump   time.Duration
}

func (f fault) String() string {
	s := fmt.Sprintf("%6s %s", f.At.Round(time.Second), f.Kind)
	if f.For > 0 {
		s += " for " + f.For.Round(100*time.Millisecond).String()
	}
	return s
}

func (k kind) lasts(r *rand.Rand) time.Duration {
	between := func(low, high time.Duration) time.Duration { return low + time.Duration(r.Int64N(int64(high-low))) }
	switch k {
	case killWorker, killLeader, killStandby, killNode, killTrainer, killZygote, killPair, killNodes:
		return 0
	case fullNode, fullBlob:
		return between(5*time.Second, 15*time.Second)
	case policiesDeath, judgeDeath, judgeErrors:
		return between(10*time.Second, 45*time.Second)
	}
	return between(3*time.Second, 30*time.Second)
}

var jumps = []time.Duration{-24 * time.Hour, -time.Hour, -10 * time.Second, 10 * time.Second, time.Hour, 24 * time.Hour}

// plan is the schedule of a seed: every kind comes once before any comes again, and now and then two at once.
func plan(seed uint64, length, gap time.Duration, kinds []kind) []fault {
	r := rand.New(rand.NewPCG(seed, 1))
	var out []fault
	var deck []kind
	for at := time.Duration(0); ; {
		if len(deck) == 0 {
			deck = slices.Clone(kinds)
			r.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
		}
		f := fault{At: at, Kind: deck[0], Target: r.IntN(1 << 16), Silent: r.IntN(2) == 0, Jump: jumps[r.IntN(len(jumps))]}
		deck = deck[1:]
		f.For = f.Kind.lasts(r)
		wait := gap/2 + time.Duration(r.Int64N(int64(gap)))
		if r.IntN(6) > 0 {
			wait += f.For
		}
		if at+f.For > length {
			return out
		}
		out = append(out, f)
		at += wait
	}
}

func TestScheduleIsTheSameForASeedAndHoldsEveryKindOfFault(t *testing.T) {
	t.Parallel()
	a := plan(7, time.Hour, 12*time.Second, allKinds)
	require.Equal(t, a, plan(7, time.Hour, 12*time.Second, allKinds))
	require.NotEqual(t, a, plan(8, time.Hour, 12*time.Second, allKinds))
	seen := map[kind]int{}
	for _, f := range a {
		seen[f.Kind]++
		require.LessOrEqual(t, f.At+f.For, time.Hour, "%s", f)
	}
	for _, k := range allKinds {
		require.GreaterOrEqual(t, seen[k], 2, "%s", k)
	}
}
