package generate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/internal/patience"
	"github.com/verigraph/verigraph/sft"
	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

func TestMain(m *testing.M) { patience.Main(m) }

func prompts(name string, n int) []task.Prompt {
	out := make([]task.Prompt, n)
	for i := range out {
		out[i] = task.Prompt{ID: fmt.Sprintf("%s%02d", name, i), DataSource: name}
	}
	return out
}

func twoSources() Config {
	return Config{
		Run: "r", Seed: 1, Samples: 2, Rounds: 2, Parallel: 1,
		Sources: []Source{{Name: "a", Prompts: "p", Format: "f", Weight: 3, Want: 100}, {Name: "b", Prompts: "p", Format: "f", Weight: 1, Want: 100}},
	}
}

func TestDispatchesAreMixedByWeightAndGivenOutOnce(t *testing.T) {
	t.Parallel()
	s := newSchedule(twoSources(), [][]task.Prompt{prompts("a", 30), prompts("b", 10)})
	seen := map[string]bool{}
	counts := [2]int{}
	for {
		d, i, more := s.take()
		if !more {
			break
		}
		require.False(t, seen[d.ID], d.ID)
		seen[d.ID] = true
		counts[i]++
		s.back(i)
		require.InDelta(t, 3*float64(counts[1]), float64(counts[0]), 3.01, "after %d dispatches", len(seen))
	}
	require.Equal(t, [2]int{60, 20}, counts, "every prompt in every round")
}

func TestTheOrderDependsOnTheSeedAlone(t *testing.T) {
	t.Parallel()
	order := func(seed int64) (out []string) {
		c := twoSources()
		c.Seed = seed
		s := newSchedule(c, [][]task.Prompt{prompts("a", 30), prompts("b", 10)})
		for d, _, more := s.take(); more; d, _, more = s.take() {
			out = append(out, fmt.Sprint(d.ID, d.Seed))
			s.back(0)
			s.back(1)
		}
		return out
	}
	require.Equal(t, order(1), order(1))
	require.NotEqual(t, order(1), order(2))
}

func TestASourceThatHasWhatItWantsGetsNoMore(t *testing.T) {
	t.Parallel()
	s := newSchedule(twoSources(), [][]task.Prompt{prompts("a", 30), prompts("b", 10)})
	s.sources[0].accepted = 100
	for d, i, more := s.take(); more; d, i, more = s.take() {
		require.Equal(t, 1, i, d.ID)
		s.back(i)
	}
}

func TestNoMoreIsGivenOutThanMayStillBeNeeded(t *testing.T) {
	t.Parallel()
	c := twoSources()
	c.Sources[0].Want, c.Sources[1].Want = 5, 1
	s := newSchedule(c, [][]task.Prompt{prompts("a", 30), prompts("b", 10)})
	counts := [2]int{}
	for _, i, more := s.take(); more; _, i, more = s.take() {
		counts[i]++
	}
	require.Equal(t, [2]int{3, 1}, counts, "groups of two, for five and for one")
	s.back(0)
	s.sources[0].accepted = 1
	_, _, more := s.take()
	require.False(t, more, "four may still come of the two that are out")
	s.back(0)
	_, i, more := s.take()
	require.True(t, more && i == 0)
}

// player gives submitted rollouts that are right where their number is even, or loses whole groups.
type player struct {
	mu     sync.Mutex
	played []string
	lose   func(n int) bool
	stop   func(n int)
}

func (p *player) Play(ctx context.Context, d task.Dispatch, _ task.Reference) (trajectory.ScoredGroup, error) {
	p.mu.Lock()
	p.played = append(p.played, d.ID)
	n := len(p.played)
	p.mu.Unlock()
	if p.stop != nil {
		p.stop(n)
	}
	g := trajectory.ScoredGroup{Group: trajectory.Group{Dispatch: d}}
	for k := range d.GroupSize {
		t := trajectory.Trajectory{
			ID: task.RolloutID{Run: d.Run, Dispatch: d.ID, Sample: k}, PromptID: d.Prompt.ID, DataSource: d.Prompt.DataSource, Termination: trajectory.Submitted,
			Turns: []trajectory.Turn{{Text: "12345678"}}, TextOnly: true,
			Messages: []trajectory.Message{{Role: "user", Content: "1234"}, {Role: "assistant", Content: "12345678"}},
		}
		s := trajectory.Score{Status: trajectory.ScoreOK, Accuracy: float64(k % 2)}
		if p.lose != nil && p.lose(n) {
			t.Termination, t.Error, s.Status = trajectory.PolicyUnavailable, "no route", trajectory.ScoreLost
		}
		g.Group.Trajectories, g.Scores = append(g.Group.Trajectories, t), append(g.Scores, s)
	}
	return g, ctx.Err()
}

func session(t *testing.T, out string, p Player, want int) *Session {
	t.Helper()
	one := 1.0
	accept := sft.Defaults()
	accept.Select.Unlicensed, accept.Select.MinAccuracy = true, &one
	c := twoSources()
	c.Sources[0].Want, c.Sources[1].Want, c.Price = want, want, Price{Input: 1e6, Output: 2e6}
	return &Session{Config: c, Accept: &accept, Input: Input{Prompts: [][]task.Prompt{prompts("a", 30), prompts("b", 10)}}, Player: p, Out: out}
}

func TestASessionStopsAtTheWantedNumbersAndCountsTokensAndCost(t *testing.T) {
	t.Parallel()
	r, err := session(t, t.TempDir(), &player{}, 5).Run(t.Context())
	require.NoError(t, err)
	for _, s := range r.Sources {
		require.Equal(t, 5, s.Accepted)
		require.Equal(t, 10, s.Rollouts)
	}
	require.Equal(t, 20, r.Rollouts)
	require.Equal(t, 20*1, r.InputTokens)
	require.Equal(t, 20*2, r.OutputTokens)
	require.InDelta(t, 20*1+40*2, r.Cost, 1e-9)
}

// TestASessionThatWasStoppedGoesOnWithoutAskingAgain: what came back before the stop is kept.
func TestASessionThatWasStoppedGoesOnWithoutAskingAgain(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	first := &player{stop: func(n int) {
		if n == 4 {
			cancel()
		}
	}}
	_, err := session(t, out, first, 5).Run(ctx)
	require.ErrorIs(t, err, context.Canceled)
	second := &player{}
	r, err := session(t, out, second, 5).Run(t.Context())
	require.NoError(t, err)
	for _, id := range first.played[:3] {
		require.NotContains(t, second.played, id)
	}
	require.Len(t, second.played, 10-3)
	require.Equal(t, 5, r.Sources[0].Accepted)
}

func TestGroupsLostForReasonsOfOursAreNeitherArchivedNorCountedAndSeveralInARowEndTheSession(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	p := &player{lose: func(n int) bool { return n == 2 || n > 5 }}
	r, err := session(t, out, p, 50).Run(t.Context())
	require.ErrorContains(t, err, "4 groups in a row were lost for reasons of ours; the last: policy_unavailable: no route")
	require.Len(t, p.played, 9)
	require.Equal(t, 8, r.Rollouts, "the groups 1, 3, 4 and 5")
	files, err := filepath.Glob(filepath.Join(out, "trajectories", "*", "*.json"))
	require.NoError(t, err)
	require.Len(t, files, 8)
}

func TestARolloutOfAnotherPlanIsRefused(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	_, err := session(t, out, &player{}, 1).Run(t.Context())
	require.NoError(t, err)
	s := session(t, out, &player{}, 1)
	s.Input.Prompts[0], s.Input.Prompts[1] = prompts("c", 3), prompts("d", 3)
	_, err = s.Run(t.Context())
	require.ErrorContains(t, err, "whose prompt is in no source")
	s = session(t, t.TempDir(), &player{}, 1)
	s.Input.Prompts[1] = prompts("a", 3)
	_, err = s.Run(t.Context())
	require.ErrorContains(t, err, `both hold a prompt "a00"`)
}

func TestAPlanReportsEveryProblemAtOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "plan.yaml")
	require.NoError(t, os.WriteFile(path, []byte("samples: 0\nprice: {input: -1}\nsources:\n- {name: a}\n- {name: a, prompts: p, format: f, weight: 1, want: 1}\n"), 0o644))
	_, err := Load(path)
	for _, want := range []string{
		path, "samples: 0", "price: negative", "sources[0]: name, prompts and format", "sources[0].weight", "sources[0].want", `sources[1].name: "a" stands there twice`,
	} {
		require.ErrorContains(t, errors.Join(errors.New("loaded"), err), want)
	}
}
