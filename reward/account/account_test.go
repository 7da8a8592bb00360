package account_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/internal/patience"
	"github.com/verigraph/verigraph/reward/account"
	"github.com/verigraph/verigraph/trajectory"
)

func TestMain(m *testing.M) { patience.Main(m) }

func TestUnscoredRolloutsEnterNoMeanAndAreCountedByEdges(t *testing.T) {
	t.Parallel()
	yes := true
	var b account.Book
	require.Zero(t, b.Snapshot().UnscoredShare())
	require.Nil(t, b.Snapshot().Accuracy())
	for _, s := range []trajectory.Score{
		{Status: trajectory.ScoreOK, Correct: &yes, Edges: 1, Method: "dabench fixed", Verdicts: []trajectory.Verdict{{Kind: trajectory.Entailed, Cached: true}}},
		{Status: trajectory.ScoreOK, Correct: &yes, Edges: 2, Method: "dabench fixed", Verdicts: []trajectory.Verdict{{Kind: trajectory.Abstained, Repaired: true}}},
		{Status: trajectory.ScoreUnscored, Edges: 8, Verdicts: []trajectory.Verdict{{Kind: trajectory.NoVerdict}}},
		{Status: trajectory.ScoreUnjudgeable, Edges: 30},
		{Status: trajectory.ScoreLost},
	} {
		b.Add(s)
	}
	s := b.Snapshot()
	require.InDelta(t, 1, *s.Accuracy(), 0, "two of two scored, whatever was not scored")
	require.InDelta(t, 0.5, s.UnscoredShare(), 0, "two of the four that came to the judge")
	require.Equal(t, 1, s.Status[trajectory.ScoreLost])
	require.Equal(t, []account.ByEdges{{UpTo: 0}, {UpTo: 2, Rollouts: 2}, {UpTo: 5}, {UpTo: 10, Rollouts: 1, Unscored: 1}, {UpTo: 20}, {UpTo: -1, Rollouts: 1, Unjudgeable: 1}}, s.Edges)
	require.Equal(t, map[string]int{"dabench fixed": 2}, s.Methods)
	require.Equal(t, []int{1, 1}, []int{s.Cached, s.Repaired})
	require.Equal(t, 1, s.Verdicts[trajectory.NoVerdict])
	require.Contains(t, s.EdgesTable(), "edges 6-10")
	require.Contains(t, s.EdgesTable(), "edges 21+")
}
