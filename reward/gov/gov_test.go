package gov_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/internal/patience"
	"github.com/verigraph/verigraph/reward/gov"
)

func TestMain(m *testing.M) { patience.Main(m) }

// judge says which nodes are false (no) and open (maybe), and keeps its calls.
type judge struct {
	mu        sync.Mutex
	no, maybe []int
	calls     []gov.Request
	err       error
}

func (j *judge) ask(_ context.Context, r gov.Request) (gov.Answer, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.calls = append(j.calls, gov.Request{Unit: slices.Clone(r.Unit), Context: slices.Clone(r.Context)})
	if j.err != nil {
		return gov.Answer{}, j.err
	}
	a := gov.Answer{Wrong: -1}
	for at, i := range r.Unit {
		if slices.Contains(j.no, i) {
			a.Wrong = at
			return a, nil
		}
		if slices.Contains(j.maybe, i) {
			a.Open = append(a.Open, at)
		}
	}
	return a, nil
}

// Two atomic claims 0 (true) and 1 (false); 2 rests on 0; 3 on 1; 4 on 2; 5 on 2 and 3.
func sample() []gov.Node {
	return []gov.Node{
		{Base: true, Holds: true},
		{Base: true},
		{Premises: []int{0}, Cell: 1},
		{Premises: []int{1}, Cell: 1},
		{Premises: []int{2}, Cell: 2},
		{Premises: []int{2, 3}, Cell: 2},
	}
}

func verify(t *testing.T, nodes []gov.Node, terminals []int, j *judge, change func(*gov.Config)) gov.Result {
	t.Helper()
	cfg := gov.Defaults()
	if change != nil {
		change(&cfg)
	}
	g, err := gov.New(nodes, terminals, cfg)
	require.NoError(t, err)
	r, err := g.Verify(t.Context(), j.ask, 2)
	require.NoError(t, err)
	return r
}

func TestFalsePremiseMakesItsBranchFalseWithoutACall(t *testing.T) {
	t.Parallel()
	j := &judge{}
	r := verify(t, sample(), nil, j, nil)
	require.Equal(t, []gov.State{gov.True, gov.False, gov.True, gov.Implied, gov.True, gov.Implied}, r.States)
	require.Equal(t, 2, r.Calls)
	require.Equal(t, 2, r.Saved)
	require.Equal(t, 1, r.First)
	require.False(t, r.Valid)
	require.ElementsMatch(t, []gov.Request{{Unit: []int{2}, Context: []int{0}}, {Unit: []int{4}, Context: []int{2}}}, j.calls)
}

func TestGlobalStopLeavesTheRestUnjudged(t *testing.T) {
	t.Parallel()
	nodes := sample()
	nodes[1].Holds = true
	j := &judge{no: []int{2}}
	r := verify(t, nodes, nil, j, func(c *gov.Config) { c.Stop = gov.StopGlobal })
	require.Equal(t, []gov.State{gov.True, gov.True, gov.False, gov.Unjudged, gov.Unjudged, gov.Unjudged}, r.States)
	require.Equal(t, 1, r.Calls)
	require.Equal(t, 3, r.Saved)
	require.Equal(t, 2, r.First)
}

func TestDeadBranchesOutsideTheTerminalsAreNotJudged(t *testing.T) {
	t.Parallel()
	j := &judge{no: []int{3}}
	r := verify(t, sample(), []int{4}, j, nil)
	require.True(t, r.Valid, "the bad branch is no ancestor of the terminal")
	require.Equal(t, -1, r.First)
	require.Equal(t, gov.Unjudged, r.States[5])
	require.Equal(t, 2, r.Calls)
}

func TestInclusiveContextHoldsEveryEarlierTrueNode(t *testing.T) {
	t.Parallel()
	j := &judge{}
	verify(t, sample(), nil, j, func(c *gov.Config) { c.Context = gov.Inclusive })
	require.Equal(t, []gov.Request{{Unit: []int{2}, Context: []int{0}}, {Unit: []int{4}, Context: []int{0, 2}}}, j.calls)
}

func TestBlockIsOneCallAndAfterAFalseNodeTheRestIsAskedAgain(t *testing.T) {
	t.Parallel()
	nodes := []gov.Node{{Base: true, Holds: true}, {Premises: []int{0}, Cell: 1}, {Premises: []int{1}, Cell: 1}, {Premises: []int{0}, Cell: 1}}
	block := func(c *gov.Config) { c.Granularity = gov.Block }
	j := &judge{}
	r := verify(t, nodes, nil, j, block)
	require.True(t, r.Valid)
	require.Equal(t, []gov.Request{{Unit: []int{1, 2, 3}, Context: []int{0}}}, j.calls)
	j = &judge{no: []int{1}}
	r = verify(t, nodes, nil, j, block)
	require.Equal(t, []gov.State{gov.True, gov.False, gov.Implied, gov.True}, r.States)
	require.Equal(t, []gov.Request{{Unit: []int{1, 2, 3}, Context: []int{0}}, {Unit: []int{3}, Context: []int{0}}}, j.calls)
	j = &judge{no: []int{1}}
	r = verify(t, nodes, nil, j, func(c *gov.Config) { c.Granularity, c.Stop = gov.Block, gov.StopGlobal })
	require.Equal(t, []gov.State{gov.True, gov.False, gov.Unjudged, gov.Unjudged}, r.States)
	require.Equal(t, 1, r.Calls)
}

func TestAbstentionIsNeitherTrueNorFalse(t *testing.T) {
	t.Parallel()
	nodes := []gov.Node{{Base: true, Holds: true}, {Premises: []int{0}}, {Premises: []int{1}}, {Premises: []int{1}, Inherit: true}}
	r := verify(t, nodes, nil, &judge{maybe: []int{1}}, nil)
	require.Equal(t, []gov.State{gov.True, gov.Abstained, gov.True, gov.Abstained}, r.States)
	require.False(t, r.Valid)
	require.Equal(t, -1, r.First)
}

func TestJudgeFailureIsAnErrorAndNoVerdict(t *testing.T) {
	t.Parallel()
	down := errors.New("judge is down")
	for _, granularity := range []gov.Granularity{gov.Atomic, gov.Block} {
		cfg := gov.Defaults()
		cfg.Granularity = granularity
		g, err := gov.New(sample(), nil, cfg)
		require.NoError(t, err)
		_, err = g.Verify(t.Context(), (&judge{err: down}).ask, 2)
		require.ErrorIs(t, err, down)
	}
}

func TestBrokenGraphsAreRefused(t *testing.T) {
	t.Parallel()
	for name, nodes := range map[string][]gov.Node{
		"a cycle":      {{Premises: []int{1}}, {Premises: []int{0}}},
		"itself":       {{Premises: []int{0}}},
		"unknown node": {{Premises: []int{7}}},
		"a later cell": {{Cell: 2, Base: true}, {Premises: []int{0}, Cell: 1}},
	} {
		_, err := gov.New(nodes, nil, gov.Defaults())
		require.Error(t, err, name)
	}
	require.ErrorContains(t, gov.Config{}.Validate(), "granularity")
}

// TestNoUnitRestsOnALaterOne is the package's invariant over random graphs, terminals and settings.
func TestNoUnitRestsOnALaterOne(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 4))
	for range 1500 {
		n := 1 + rng.IntN(25)
		nodes := make([]gov.Node, n)
		cell := 0
		for i := range nodes {
			cell += rng.IntN(2)
			nodes[i].Cell = cell
			for p := range i {
				if rng.IntN(4) == 0 {
					nodes[i].Premises = append(nodes[i].Premises, p)
				}
			}
			nodes[i].Base = len(nodes[i].Premises) == 0
			nodes[i].Holds = rng.IntN(5) > 0
			nodes[i].Inherit = !nodes[i].Base && rng.IntN(6) == 0
		}
		var terminals, no []int
		for i := range nodes {
			if rng.IntN(4) == 0 {
				terminals = append(terminals, i)
			}
			if rng.IntN(5) == 0 {
				no = append(no, i)
			}
		}
		cfg := gov.Config{
			Granularity: []gov.Granularity{gov.Atomic, gov.Block}[rng.IntN(2)], Context: []gov.Context{gov.Minimal, gov.Inclusive}[rng.IntN(2)],
			Stop: []gov.Stop{gov.StopBranch, gov.StopGlobal}[rng.IntN(2)], Blocks: []gov.Blocks{gov.BlocksCells, gov.BlocksClosures}[rng.IntN(2)],
		}
		g, err := gov.New(nodes, terminals, cfg)
		require.NoError(t, err)
		unit := map[int]int{}
		for u, members := range g.Units() {
			for _, i := range members {
				_, twice := unit[i]
				require.False(t, twice, "a node stands in one unit")
				unit[i] = u
			}
		}
		for i, u := range unit {
			for _, p := range nodes[i].Premises {
				at, in := unit[p]
				require.True(t, in, "all premises of an ordered node are ordered")
				require.LessOrEqual(t, at, u)
			}
		}
		j := &judge{no: no}
		r, err := g.Verify(t.Context(), j.ask, 3)
		require.NoError(t, err)
		asked := map[int]bool{}
		for _, c := range j.calls {
			for _, i := range c.Unit {
				asked[i] = true
				for _, p := range nodes[i].Premises {
					require.False(t, r.States[p] == gov.False && !slices.Contains(c.Unit, p), "asked over a false premise")
				}
			}
			for _, i := range c.Context {
				require.Equal(t, gov.True, r.States[i], "only true nodes are shown")
			}
		}
		require.Len(t, j.calls, r.Calls)
		// The oracle: false is a bad base node or one the judge refuses; truth is inherited downwards.
		for _, i := range g.Order() {
			falseBelow := slices.ContainsFunc(nodes[i].Premises, func(p int) bool { return r.States[p] == gov.False || r.States[p] == gov.Implied })
			want := gov.True
			switch {
			case nodes[i].Base && !nodes[i].Holds:
				want = gov.False
			case nodes[i].Base:
			case falseBelow:
				want = gov.Implied
			case !nodes[i].Inherit && slices.Contains(no, i):
				want = gov.False
			}
			if cfg.Stop == gov.StopBranch {
				require.Equal(t, want, r.States[i])
			} else if r.States[i] != gov.Unjudged {
				require.Equal(t, want, r.States[i])
			}
		}
	}
}
