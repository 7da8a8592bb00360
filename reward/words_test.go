package reward_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/reward"
	"github.com/verigraph/verigraph/task"
)

// bound adds an atomic claim: the number of rows in {n}, and a word in {x} whose value comes from the node
// that is named; "" is a constant and "-" a word that stands in the template.
func (r *rollout) bound(id, text, word, from string, kind evidence.EdgeKind) *rollout {
	r.node(evidence.Node{ID: "k_" + id, Kind: evidence.NodeVariable, Name: "k"})
	n := evidence.Node{ID: id, Kind: evidence.NodeAtomic, Text: text, Fields: []evidence.Field{{Name: "n", Text: "715"}}}
	r.Graph.Edges = append(r.Graph.Edges, evidence.Edge{From: "df@1", To: id, Kind: evidence.EdgeGround, Role: "n"})
	if from != "-" {
		n.Fields = append(n.Fields, evidence.Field{Name: "x", Text: word})
		r.Graph.Edges = append(r.Graph.Edges, evidence.Edge{From: "k_" + id, To: id, Kind: evidence.EdgeGround, Role: "x"})
	}
	if from != "" && from != "-" {
		r.edge(from, "k_"+id, kind)
	}
	r.node(n)
	return r
}

func TestAWordPaysOnlyWithDataOrAVerdictBehindIt(t *testing.T) {
	t.Parallel()
	const said = "715 rows, @differs[True]"
	start := func() *rollout { return newRollout(ok).data("df@1", 0) }
	for name, c := range map[string]struct {
		r    *rollout
		want float64
	}{
		"a judge abstains":             {asserting("?"), 0},
		"a judge entails":              {asserting("+"), 1},
		"computed from the data":       {start().bound("c1", said, "True", "df@1", evidence.EdgeCompute).submit(0, "c1"), 1},
		"chosen by a test on the data": {start().bound("c1", said, "True", "df@1", evidence.EdgeControl).submit(0, "c1"), 1},
		"a constant beside a number":   {start().bound("c1", said, "True", "", "").submit(0, "c1"), 0},
		"typed into the template":      {start().bound("c1", said, "", "-", "").submit(0, "c1"), 0},
		"a premise says it from the data": {
			start().bound("c1", said, "True", "df@1", evidence.EdgeControl).derived("c2", 0, "So @differs[true] ?", "c1").submit(0, "c2"), 1,
		},
		"a premise says it by a constant": {
			start().bound("c1", said, "True", "", "").derived("c2", 0, "So @differs[TRUE] +", "c1").submit(0, "c2"), 0,
		},
		"it repeats a constant": {
			start().bound("c1", said, "True", "", "").restated("c2", 0, said, "c1").submit(0, "c2"), 0,
		},
		"it rests on what a judge abstained from": {
			start().atomic("c1", 0, "df@1", "715 rows").derived("c2", 0, "They differ ?", "c1").derived("c3", 0, "So @differs[True] +", "c2").submit(0, "c3"), 0,
		},
	} {
		preset := reward.Defaults()
		preset.Infer.AnswerNeeds = reward.NeedsSupport
		s, err := reward.New(reward.Config{Preset: preset, Judge: &scripted{}})
		require.NoError(t, err)
		right := differs
		right.Answers = []task.NamedAnswer{{Name: "differs", Value: "True"}}
		if name == "a premise says it from the data" {
			right.Answers[0].Value = "true"
		}
		if name == "a premise says it by a constant" {
			right.Answers[0].Value = "TRUE"
		}
		got := s.Score(t.Context(), c.r.Trajectory, prompt, right)
		require.InDelta(t, c.want, got.Outcome, 0, name)
		require.True(t, *got.Correct, "%s: accuracy stays the benchmark's own figure", name)
	}
}

func TestANumberNeedsNoVerdictSinceAPremiseHoldsIt(t *testing.T) {
	t.Parallel()
	r := newRollout(ok).data("df@1", 0).atomic("c1", 0, "df@1", "The mean is 34.65").derived("c2", 0, "So @mean[34.65] ?", "c1").submit(0, "c2")
	p := reward.Defaults()
	p.Infer.AnswerNeeds = reward.NeedsSupport
	s, err := reward.New(reward.Config{Preset: p, Judge: &scripted{}})
	require.NoError(t, err)
	require.InDelta(t, 1, s.Score(t.Context(), r.Trajectory, prompt, reference).Outcome, 0)
}
