package line

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/verigraph/verigraph/blob"
	"github.com/verigraph/verigraph/cmd/internal/config"
	"github.com/verigraph/verigraph/dataset/leader"
	"github.com/verigraph/verigraph/internal/patience"
	"github.com/verigraph/verigraph/jetstream"
	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

// sharedRun is one of several runs on a broker, led by a leader of its own.
type sharedRun struct {
	name string
	bus  *jetstream.Bus
	lead *Lead

	finished int
}

// inWork is what its queue holds.
func (r *sharedRun) inWork(t *testing.T) int {
	t.Helper()
	keys, err := r.bus.Keys(t.Context(), jetstream.Prompts, r.name)
	require.NoError(t, err)
	return len(keys)
}

// TestRunsOnOneBrokerShareTheWorkersAsTheirWeightsSay: two leaders, each with more prompts than there is room
// for; then one of them has no more.
func TestRunsOnOneBrokerShareTheWorkersAsTheirWeightsSay(t *testing.T) {
	t.Parallel()
	const capacity, prompts = 8, 40
	runs := startShared(t, prompts, map[string]leader.Share{"small": {Capacity: capacity, Weight: 1}, "large": {Capacity: capacity, Weight: 3}})
	for range 4 { // what ends makes room in the same proportion while both want more
		patience.Until(t, "two and six groups are in work", func() bool {
			small, large := runs["small"].inWork(t), runs["large"].inWork(t)
			// A run that knew few of its prompts left places to the other: those come back as groups end.
			runs["small"].finish(t, max(small-2, 0))
			runs["large"].finish(t, max(large-6, 0))
			return small == 2 && large == 6
		})
		runs["small"].finish(t, 2)
		runs["large"].finish(t, 6)
	}
	// The large run comes to its end: the small one gets the places that it leaves.
	patience.Until(t, "the large run is through", func() bool {
		runs["large"].finish(t, runs["large"].inWork(t))
		return runs["large"].finished == prompts
	})
	patience.Until(t, "the small run has all places", func() bool { return runs["small"].inWork(t) == capacity })
}

// startShared starts a leader for each run on one broker, all with so many prompts.
func startShared(t *testing.T, prompts int, shares map[string]leader.Share) map[string]*sharedRun {
	t.Helper()
	dir := t.TempDir()
	server, err := jetstream.StartServer(jetstream.ServerConfig{Dir: filepath.Join(dir, "nats")})
	require.NoError(t, err)
	t.Cleanup(server.Stop)
	store, err := blob.OpenDir(dir)
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	runs := map[string]*sharedRun{}
	for name, share := range shares {
		nc, err := server.Connect()
		require.NoError(t, err)
		cfg := config.Defaults()
		cfg.Run = name
		cfg.NATS.AckWait = time.Second
		cfg.Leader.BatchGroups, cfg.Leader.Share = 2, share
		cfg.Resolve()
		bus, err := jetstream.New(t.Context(), nc, store, cfg.NATS.Config)
		require.NoError(t, err)
		t.Cleanup(bus.Close)
		// The claims stand before anybody dispatches.
		require.NoError(t, bus.PutState(t.Context(), claimPrefix+name, leader.Claim{Run: name, Share: share, Wants: prompts}))
		var list []task.Prompt
		for i := range prompts {
			list = append(list, task.Prompt{ID: fmt.Sprint(i), Question: "Q?"})
		}
		require.NoError(t, NewSubmitter(bus, store, name).Submit(t.Context(), list, nil, nil, false))
		runs[name] = &sharedRun{name: name, bus: bus, lead: newLead(cfg, bus, store, func(trajectory.ScoredGroup) error { return nil }, zap.NewNop())}
	}
	for _, r := range runs {
		r.lead.shares.own.Wants = prompts
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- r.lead.Run(ctx) }()
		t.Cleanup(func() {
			stop()
			require.NoError(t, patience.Receive(t, done, "its end"))
		})
	}
	return runs
}

// TestSharesOfSeveralRunsMeasured prints what two and three runs got of the places, looked at 25 times when all
// places are taken; then all that is in work ends, as with workers that take equally long.
func TestSharesOfSeveralRunsMeasured(t *testing.T) {
	if os.Getenv("VERIGRAPH_SHARES") == "" {
		t.Skip("make shares")
	}
	const capacity, prompts, looks = 12, 300, 25
	for _, c := range []struct {
		name   string
		shares map[string]leader.Share
		want   map[string]int // places
	}{
		{"two, equal", map[string]leader.Share{"a": {Weight: 1}, "b": {Weight: 1}}, map[string]int{"a": 6, "b": 6}},
		{"two, 1 to 3", map[string]leader.Share{"a": {Weight: 1}, "b": {Weight: 3}}, map[string]int{"a": 3, "b": 9}},
		{"three, 1 to 2 to 3", map[string]leader.Share{"a": {Weight: 1}, "b": {Weight: 2}, "c": {Weight: 3}}, map[string]int{"a": 2, "b": 4, "c": 6}},
		{"three, equal, a has a quota of 2", map[string]leader.Share{"a": {Weight: 1, Quota: 2}, "b": {Weight: 1}, "c": {Weight: 1}}, map[string]int{"a": 2, "b": 5, "c": 5}},
		{"three, c first with a quota of 8", map[string]leader.Share{"a": {Weight: 1}, "b": {Weight: 1}, "c": {Weight: 1, Priority: 1, Quota: 8}}, map[string]int{"a": 2, "b": 2, "c": 8}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for name, s := range c.shares {
				s.Capacity = capacity
				c.shares[name] = s
			}
			runs := startShared(t, prompts, c.shares)
			places := map[string]float64{}
			for range looks {
				for name, r := range runs {
					patience.Until(t, name+" has its places", func() bool { return r.inWork(t) >= c.want[name] })
				}
				for name, r := range runs {
					places[name] += float64(r.inWork(t)) / looks
				}
				for _, r := range runs { // what each has ends, as with workers that take equally long
					r.finish(t, r.inWork(t))
				}
			}
			for _, name := range slices.Sorted(maps.Keys(runs)) {
				fmt.Printf("| %s | %s | %d | %.1f | %d |\n", c.name, name, c.want[name], places[name], runs[name].finished)
			}
		})
	}
}

// finish is what workers and reward servers do with n groups.
func (r *sharedRun) finish(t *testing.T, n int) {
	t.Helper()
	q, err := jetstream.NewQueue[task.Dispatch](t.Context(), r.bus, jetstream.Prompts, r.name)
	require.NoError(t, err)
	for range n {
		m, err := q.Receive(patience.Context(t))
		require.NoError(t, err)
		require.NoError(t, r.bus.PublishOnce(t.Context(), jetstream.Scored, r.name, m.Value.ID, madeUpScore(madeUp(m.Value))))
		require.NoError(t, m.Ack(t.Context()))
		r.finished++
	}
}

func TestALeadThatNobodyElseCanTakeOutlastsABusyMachine(t *testing.T) {
	t.Parallel()
	cfg := config.Defaults()
	require.Equal(t, time.Minute, leaseTime(cfg), "an embedded server")
	cfg.NATS.URL = "nats://elsewhere:4222"
	require.Equal(t, cfg.NATS.AckWait, leaseTime(cfg))
}

func TestBetweenTwoTermsThereIsStillALeaderToAskAboutTheRun(t *testing.T) {
	t.Parallel()
	cfg := config.Defaults()
	cfg.Resolve()
	l := newLead(cfg, nil, nil, nil, zap.NewNop())
	server := &RewardServer{lead: l}
	require.Nil(t, server.Leader())
	cur, err := leader.New(cfg.Leader, leader.Deps{Log: zap.NewNop()}, leader.NewHistory(nil, nil))
	require.NoError(t, err)
	l.set(cur)
	require.Same(t, cur, server.Leader())
	l.set(nil) // its lease is lost
	require.Same(t, cur, server.Leader())
}
