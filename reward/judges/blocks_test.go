package judges_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/reward"
	"github.com/verigraph/verigraph/reward/judges"
	"github.com/verigraph/verigraph/trajectory"
)

// reader finds wrong the steps whose conclusions it lists, also in blocks, and fails while down.
type reader struct {
	fixed
	wrong map[string]bool
	down  bool
	seen  *[]reward.Block
	calls *atomic.Int32
}

func (r reader) EntailsBlock(_ context.Context, b reward.Block) (int, trajectory.Verdict, error) {
	if r.calls != nil {
		r.calls.Add(1)
	}
	if r.seen != nil {
		*r.seen = append(*r.seen, b)
	}
	if r.down {
		return -1, trajectory.Verdict{}, errDown
	}
	for at, s := range b.Steps {
		if r.wrong[s.Conclusion] {
			return at, trajectory.Verdict{Reason: "no"}, nil
		}
	}
	return -1, trajectory.Verdict{Reason: "yes"}, nil
}

func steps(n int) reward.Block {
	b := reward.Block{Question: "q", Given: []string{"g"}}
	for i := range n {
		b.Steps = append(b.Steps, reward.Step{Conclusion: fmt.Sprint(i)})
	}
	return b
}

func blockPanel(t *testing.T, members ...reader) reward.BlockJudge {
	t.Helper()
	var all []reward.Judge
	for i, m := range members {
		m.name = fmt.Sprintf("j%d", i)
		all = append(all, m)
	}
	p, err := judges.NewPanel(all, nil)
	require.NoError(t, err)
	b, ok := p.Judge().(reward.BlockJudge)
	require.True(t, ok)
	return b
}

func finds(wrong ...string) reader {
	r := reader{wrong: map[string]bool{}}
	for _, w := range wrong {
		r.wrong[w] = true
	}
	return r
}

func TestVoteOnABlockDecidesEachStepByMoreThanHalf(t *testing.T) {
	t.Parallel()
	down := reader{down: true}
	const none = -9 // no verdict
	for name, c := range map[string]struct {
		members []reader
		want    int
	}{
		"all hold":                              {[]reader{finds(), finds(), finds()}, -1},
		"two agree on the first wrong step":     {[]reader{finds("1"), finds("1"), finds("2")}, 1},
		"one is overruled":                      {[]reader{finds("0"), finds(), finds()}, -1},
		"one is overruled and then agrees":      {[]reader{finds("0", "2"), finds("2"), finds()}, 2},
		"each finds another first, asked on":    {[]reader{finds("0", "2"), finds("1", "2"), finds("2")}, 2},
		"all overruled in turn":                 {[]reader{finds("0"), finds("1"), finds("2")}, -1},
		"one is down and two agree":             {[]reader{finds("1"), down, finds("1")}, 1},
		"one is down and two find all right":    {[]reader{finds(), down, finds()}, -1},
		"one is down and two differ":            {[]reader{finds("1"), down, finds()}, none},
		"two are down":                          {[]reader{finds("1"), down, down}, none},
		"of five, three say it and two are out": {[]reader{finds("2"), down, finds("2"), down, finds("2")}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first, v, err := blockPanel(t, c.members...).EntailsBlock(t.Context(), steps(4))
			if c.want == none {
				require.ErrorIs(t, err, reward.ErrNoVerdict)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, first)
			require.Contains(t, v.Reason, "j0: ", "each member's word is kept")
		})
	}
}

func TestOverruledMemberIsAskedAboutTheRestWithWhatWasFoundTrue(t *testing.T) {
	t.Parallel()
	var seen []reward.Block
	odd := finds("0")
	odd.seen = &seen
	first, _, err := blockPanel(t, odd, finds(), finds("2")).EntailsBlock(t.Context(), steps(3))
	require.NoError(t, err)
	require.Equal(t, -1, first)
	require.Len(t, seen, 2)
	require.Equal(t, []string{"g", "0", "1"}, seen[1].Given)
	require.Len(t, seen[1].Steps, 1)
}

// Whatever the members think, a verdict that stands while some of them are down is the one that all of
// them give.
func TestOutageOfMembersChangesNoVerdictOnABlock(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	decided := 0
	for range 3000 {
		n, size := 1+rng.IntN(5), 3+2*rng.IntN(2)
		members := make([]reader, size)
		for i := range members {
			var wrong []string
			for s := range n {
				if rng.IntN(3) == 0 {
					wrong = append(wrong, fmt.Sprint(s))
				}
			}
			members[i] = finds(wrong...)
		}
		want, _, err := blockPanel(t, members...).EntailsBlock(t.Context(), steps(n))
		require.NoError(t, err, "an odd number of members that all speak can't tie")
		for range 1 + rng.IntN(2) {
			members[rng.IntN(size)].down = true
		}
		got, _, err := blockPanel(t, members...).EntailsBlock(t.Context(), steps(n))
		if err != nil {
			require.ErrorIs(t, err, reward.ErrNoVerdict)
			continue
		}
		require.Equal(t, want, got)
		decided++
	}
	require.Greater(t, decided, 500)
}

func TestStepOutsideTheBlockIsNoVerdictOfThatMember(t *testing.T) {
	t.Parallel()
	first, v, err := blockPanel(t, finds("0"), finds("0"), finds()).EntailsBlock(t.Context(), steps(1))
	require.NoError(t, err)
	require.Zero(t, first)
	require.Contains(t, v.Reason, "j1: step 1 of 1 is wrong")
	mad := madReader{reader: finds()}
	p, err := judges.NewPanel([]reward.Judge{mad, mad, mad}, nil)
	require.NoError(t, err)
	_, _, err = p.Judge().(reward.BlockJudge).EntailsBlock(t.Context(), steps(2))
	require.ErrorIs(t, err, reward.ErrNoVerdict)
}

// madReader names a step that is not there.
type madReader struct{ reader }

func (madReader) EntailsBlock(context.Context, reward.Block) (int, trajectory.Verdict, error) {
	return 7, trajectory.Verdict{}, nil
}

func TestPanelDecidesBlocksOnlyWhereEveryMemberDoes(t *testing.T) {
	t.Parallel()
	p, err := judges.NewPanel([]reward.Judge{finds(), finds(), fixed{name: "steps only"}}, nil)
	require.NoError(t, err)
	_, ok := p.Judge().(reward.BlockJudge)
	require.False(t, ok)
	require.True(t, strings.HasPrefix(p.Judge().Name(), "vote("))
}
