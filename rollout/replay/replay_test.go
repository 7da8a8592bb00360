package replay_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/rollout/replay"
	"github.com/verigraph/verigraph/sandbox"
)

func TestAnHonestTrajectoryReplaysToTheSameTextsAndItsNumbersMoveWithTheData(t *testing.T) {
	t.Parallel()
	g, p := play(t, read+"m = statistics.mean(fares)",
		"a = bind('Mean fare {m:.2f} over {n} rows.', m=m, n=len(fares))\nb = bind('Share below {limit} is {s:.1%}.', limit=0.05, s=sum(f < 20 for f in fares) / len(fares))",
		"c = infer([a, b], 'With a mean of ' + format(m, '.2f') + ' the fares lie far above the limit.', 'Premise c1 states the mean fare.')\nsubmit_answer([a, b, c])")
	require.Len(t, g.Submitted, 3)
	results := check(t, &g, p, true)
	require.Len(t, results, 3)
	for _, r := range results {
		require.Equal(t, evidence.ReplayResult{Claim: r.Claim, Outcome: evidence.ReplaySame}, r)
	}
	require.Empty(t, g.Flags)
	for _, c := range g.Grounding {
		require.True(t, *c.Replayed, c.Why)
		require.True(t, *c.Structural, c.Why)
	}
}

func TestAnEditedClaimIsFoundAndDeniesGroundToWhatIsDerivedFromIt(t *testing.T) {
	t.Parallel()
	g, p := play(t, read+"a = bind('Mean fare {m:.2f}', m=statistics.mean(fares))\n"+
		"b = infer(a, 'The mean fare is known.', 'Premise c1 states the mean fare.')\nsubmit_answer([a, b])")
	c1, _ := g.Node("c1")
	for i := range g.Nodes {
		if g.Nodes[i].ID == "c1" {
			g.Nodes[i].Text = "Mean fare 99.99"
		}
	}
	results := check(t, &g, p, false)
	require.Equal(t, evidence.ReplayTampered, results[0].Outcome)
	require.Contains(t, results[0].Detail, c1.Text)
	require.Equal(t, evidence.ReplaySame, results[1].Outcome)
	require.Equal(t, []string{"tampered:c1"}, g.Flags)
	for _, c := range g.Grounding {
		require.False(t, *c.Replayed)
		require.False(t, *c.Structural)
		require.Contains(t, c.Why, "c1")
	}
}

func TestNondeterminismIsToldFromTampering(t *testing.T) {
	t.Parallel()
	g, p := play(t, read+"import os\na = bind('Mean {m:.2f} plus noise {r}', m=statistics.mean(fares), r=len(fares) + int.from_bytes(os.urandom(6)))\nsubmit_answer(a)")
	results := check(t, &g, p, true)
	require.Equal(t, evidence.ReplayNondeterministic, results[0].Outcome)
	require.Contains(t, results[0].Detail, "two replays give")
	require.Equal(t, []string{"nondeterministic:c1"}, g.Flags)
	require.False(t, *g.Grounding[0].Replayed)
	require.True(t, *g.Grounding[0].Structural, "nothing was proven against the policy")
}

func TestSeededRandomNumbersReplay(t *testing.T) {
	t.Parallel()
	g, p := play(t, read+"import random\na = bind('A bootstrap mean is {m:.3f}', m=statistics.mean(random.choices(fares, k=5)))\nsubmit_answer(a)")
	require.Equal(t, evidence.ReplaySame, check(t, &g, p, false)[0].Outcome)
}

func TestClocksAddressesAndPathsAreNoDifference(t *testing.T) {
	t.Parallel()
	g, p := play(t, read+`import datetime, os, tempfile
class Thing: pass
a = bind('{m:.2f} at {now} on {day}, {o}, {d}', m=statistics.mean(fares), now=str(datetime.datetime.now()),
         day=str(datetime.date.today()), o=repr(Thing()), d=tempfile.mkdtemp())
submit_answer(a)`)
	require.Equal(t, evidence.ReplaySame, check(t, &g, p, false)[0].Outcome)
}

func TestCellsAreReplayedAsTheyRan(t *testing.T) {
	t.Parallel()
	g, p := play(t,
		read+"m = statistics.mean(fares)",
		"x = (", // never ran
		"k = 2\nraise ValueError('half way')",
		"bind('no placeholder')", // refused
		"a = bind('Twice the mean is {d:.2f}', d=k * m)\nsubmit_answer(a)")
	require.Equal(t, []string{"c1"}, g.Submitted)
	require.Equal(t, evidence.ReplaySame, check(t, &g, p, false)[0].Outcome)
}

func TestALostNamespaceIsReplayedAsTwoSessions(t *testing.T) {
	t.Parallel()
	g, p := play(t,
		read+"a = bind('First mean {m:.2f}', m=statistics.mean(fares))",
		"import os\nos._exit(3)",
		read+"b = bind('Second mean {m:.2f}', m=statistics.mean(fares))",
		"import os\nb2 = bind('Third mean {m:.2f}', m=statistics.mean(fares))\nsubmit_answer([b, b2])")
	require.Equal(t, []string{"c2", "c3"}, g.Submitted)
	for _, r := range check(t, &g, p, false) {
		require.Equal(t, evidence.ReplaySame, r.Outcome, r.Detail)
	}
}

func TestWithoutASubmissionThereIsNothingToReplay(t *testing.T) {
	t.Parallel()
	g, p := play(t, "x = 1")
	require.Empty(t, check(t, &g, p, true))
	require.Empty(t, g.Grounding)
}

func TestASessionThatCannotStartIsAnErrorAndStoresNothing(t *testing.T) {
	t.Parallel()
	g, p := play(t, read+"a = bind('Mean fare {m:.2f}', m=statistics.mean(fares))\nsubmit_answer(a)")
	before, err := json.Marshal(g)
	require.NoError(t, err)
	r := &replay.Replayer{Sandbox: stage.Sandbox, Sensitivity: true}
	require.Error(t, r.Check(t.Context(), &g, question, sandbox.Spec{Files: map[string]string{"fares.csv": "/nowhere/at/all"}}))
	after, err := json.Marshal(g)
	require.NoError(t, err)
	require.Equal(t, string(before), string(after))
	require.NoError(t, r.Check(t.Context(), &g, question, p.Spec()))
	require.True(t, *g.Grounding[0].Replayed)
}
