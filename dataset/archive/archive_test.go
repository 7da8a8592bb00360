package archive_test

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/dataset/archive"
	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

func yes(b bool) *bool { return &b }

func group() trajectory.ScoredGroup {
	d := task.Dispatch{ID: "p-0", Run: "r", GroupSize: 2}
	good := trajectory.Trajectory{
		ID: task.RolloutID{Run: "r", Dispatch: "p-0", Sample: 0}, PromptID: "p", Termination: trajectory.Submitted,
		Answer: "@x[1]\n@y[2]",
		Turns: []trajectory.Turn{
			{HasCode: true, Status: trajectory.CellOK}, {HasCode: true, Status: trajectory.CellException}, {},
		},
		Graph: evidence.Export{Submitted: []string{"c1", "c2"}, Grounding: []evidence.ClaimGrounding{
			{Claim: "c1", Structural: yes(true), Lexical: yes(true)}, {Claim: "c2", Structural: yes(false), Lexical: yes(true)},
		}},
	}
	lost := trajectory.Trajectory{
		ID: task.RolloutID{Run: "r", Dispatch: "p-0", Sample: 1}, PromptID: "p",
		Termination: trajectory.SandboxLost, Error: "no capacity",
	}
	return trajectory.ScoredGroup{
		Group: trajectory.Group{Dispatch: d, Trajectories: []trajectory.Trajectory{good, lost}},
		Scores: []trajectory.Score{
			{Status: trajectory.ScoreOK, Process: 0.5, Outcome: 1, Reward: 0.8, Total: 0.9, Correct: yes(true)},
			{Status: trajectory.ScoreLost, Reason: "sandbox_lost"},
		},
	}
}

func TestIndexStatesRewardsAndGroundingAndNullWhereNothingRan(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a, err := archive.Open(dir)
	require.NoError(t, err)
	require.NoError(t, a.Add(group()))
	require.NoError(t, a.Close())
	entries, err := archive.ReadIndex(dir)
	require.NoError(t, err)
	require.Len(t, entries, 2)

	good := entries[0]
	require.Equal(t, "r/p-0/0", good.RolloutID)
	require.True(t, good.Submitted)
	require.Equal(t, 0.5, *good.Grounding.Structural)
	require.Equal(t, 1.0, *good.Grounding.Lexical)
	require.Nil(t, good.Grounding.Replayed)
	require.Nil(t, good.Grounding.Supported)
	require.Equal(t, 0.8, *good.Rewards.Total, "total is what the trainer gets")
	require.Equal(t, []int{1, 2}, []int{good.CellsOK, good.Cells})

	lost := entries[1]
	require.Nil(t, lost.Rewards.Total, "infrastructure trouble is no number")
	require.Nil(t, lost.Correct)
	require.Equal(t, "no capacity", lost.Error)

	s, err := archive.Read(dir, "r/p-0/0")
	require.NoError(t, err)
	require.Equal(t, group().Group.Trajectories[0].Answer, s.Trajectory.Answer)
	_, err = archive.Read(dir, "r/p-0/9")
	require.ErrorContains(t, err, "r/p-0/9")
}

func TestReopenedArchiveHoldsEachRolloutOnceAlsoAfterATornLine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a, err := archive.Open(dir)
	require.NoError(t, err)
	require.NoError(t, a.Add(group()))
	require.NoError(t, a.Close())
	index := filepath.Join(dir, "trajectories", "index.jsonl")
	data, err := os.ReadFile(index)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(index, data[:len(data)-10], 0o644)) // killed while writing

	a, err = archive.Open(dir)
	require.NoError(t, err)
	require.NoError(t, a.Add(group()))
	require.NoError(t, a.Add(group()))
	require.NoError(t, a.Close())
	entries, err := archive.ReadIndex(dir)
	require.NoError(t, err)
	require.Len(t, entries, 2)
}

// The other server took the lead after this one had opened the index.
func TestTwoServersThatShareAnArchiveWriteEachRolloutOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, err := archive.Open(dir)
	require.NoError(t, err)
	second, err := archive.Open(dir)
	require.NoError(t, err)
	var wg sync.WaitGroup
	for i := range 40 {
		g := group()
		dispatch := fmt.Sprintf("p-%d", i/2)
		g.Group.Dispatch.ID = dispatch
		for k := range g.Group.Trajectories {
			g.Group.Trajectories[k].ID.Dispatch = dispatch
		}
		for _, a := range []*archive.Archive{first, second} {
			wg.Go(func() { require.NoError(t, a.Add(g)) })
		}
	}
	wg.Wait()

	index := filepath.Join(dir, "trajectories", "index.jsonl")
	file, err := os.OpenFile(index, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = file.WriteString(`{"rollout_id":"r/p-9`) // a third one was killed while writing
	require.NoError(t, err)
	require.NoError(t, file.Close())
	last := group()
	last.Group.Trajectories[0].ID.Dispatch, last.Group.Trajectories[1].ID.Dispatch = "last", "last"
	require.NoError(t, first.Add(last))
	require.NoError(t, second.Add(last))
	require.NoError(t, first.Close())
	require.NoError(t, second.Close())

	entries, err := archive.ReadIndex(dir)
	require.NoError(t, err)
	times := map[string]int{}
	for _, e := range entries {
		times[e.RolloutID]++
		require.Equal(t, 1, times[e.RolloutID], e.RolloutID)
	}
	require.Len(t, times, 42)
}
