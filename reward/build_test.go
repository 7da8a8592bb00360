package reward_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/reward"
	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

// rollout builds a trajectory by hand, as the graph would export it.
type rollout struct{ trajectory.Trajectory }

func newRollout(cells ...trajectory.CellStatus) *rollout {
	r := &rollout{trajectory.Trajectory{
		PromptID: "p", Termination: trajectory.NoSubmission,
		Graph:    evidence.Export{Schema: 1, SubmitTurn: -1, Nodes: []evidence.Node{{ID: "file:t.csv", Kind: evidence.NodeSource, Name: "t.csv", Turn: -1, Statement: -1}}},
		Segments: []trajectory.Segment{{PromptIDs: []int32{1}, ResponseIDs: []int32{2, 3}, ResponseMask: []int8{1, 1}, LogProbs: []float32{-1, -1}}},
	}}
	for _, c := range cells {
		r.Turns = append(r.Turns, trajectory.Turn{HasCode: c != "", Status: c})
	}
	return r
}

func (r *rollout) node(n evidence.Node) { r.Graph.Nodes = append(r.Graph.Nodes, n) }

func (r *rollout) edge(from, to string, kind evidence.EdgeKind) {
	e := evidence.Edge{From: from, To: to, Kind: kind}
	if kind == evidence.EdgeGround {
		e.Role = "m"
	}
	r.Graph.Edges = append(r.Graph.Edges, e)
}

// data adds a variable read from the file.
func (r *rollout) data(id string, turn int) *rollout {
	r.node(evidence.Node{ID: id, Kind: evidence.NodeVariable, Turn: turn, Name: id})
	r.edge("file:t.csv", id, evidence.EdgeCompute)
	return r
}

// atomic adds a claim whose text comes from one placeholder over a variable; "" is a constant.
func (r *rollout) atomic(id string, turn int, from, text string) *rollout {
	if from == "" {
		from = "k_" + id
		r.node(evidence.Node{ID: from, Kind: evidence.NodeVariable, Turn: turn, Name: from})
	}
	r.node(evidence.Node{ID: id, Kind: evidence.NodeAtomic, Turn: turn, Text: text, Fields: []evidence.Field{{Name: "m", Text: text}}})
	r.edge(from, id, evidence.EdgeGround)
	return r
}

func (r *rollout) derived(id string, turn int, text string, premises ...string) *rollout {
	r.node(evidence.Node{ID: id, Kind: evidence.NodeDerived, Turn: turn, Text: text, Reasoning: "as the premises say"})
	for _, p := range premises {
		r.edge(p, id, evidence.EdgeDerive)
	}
	return r
}

func (r *rollout) restated(id string, turn int, text, premise string) *rollout {
	r.derived(id, turn, text, premise)
	r.Graph.Nodes[len(r.Graph.Nodes)-1].Restates = premise
	return r
}

// submit submits grounded claims; an id that starts with "!" is not structurally grounded.
func (r *rollout) submit(turn int, ids ...string) *rollout {
	yes := true
	r.Termination, r.Graph.SubmitTurn = trajectory.Submitted, turn
	for _, id := range ids {
		grounded := !strings.HasPrefix(id, "!")
		id = strings.TrimPrefix(id, "!")
		r.Graph.Submitted = append(r.Graph.Submitted, id)
		r.Graph.Grounding = append(r.Graph.Grounding, evidence.ClaimGrounding{Claim: id, Structural: &grounded, Lexical: &yes})
	}
	return r
}

const (
	ok   = trajectory.CellOK
	fail = trajectory.CellException
	none = trajectory.CellStatus("")
)

// scripted is a judge that answers by conclusion: "+" entailed, "-" not, "?" abstains, "!" fails.
type scripted struct {
	mu    sync.Mutex
	calls []string
}

func (*scripted) Name() string { return "scripted" }

func (s *scripted) Entails(_ context.Context, step reward.Step) (trajectory.Verdict, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, step.Conclusion)
	v := trajectory.Verdict{Judge: "scripted", Reason: "scripted"}
	switch {
	case strings.Contains(step.Conclusion, "+"):
		v.Kind = trajectory.Entailed
	case strings.Contains(step.Conclusion, "-"):
		v.Kind = trajectory.NotEntailed
	case strings.Contains(step.Conclusion, "?"):
		v.Kind = trajectory.Abstained
	default:
		return v, fmt.Errorf("judge is down: %w", reward.ErrNoVerdict)
	}
	return v, nil
}

func scorer(t *testing.T, preset string, judge reward.Judge) *reward.Scorer {
	t.Helper()
	p, err := reward.LoadPreset(preset)
	require.NoError(t, err)
	s, err := reward.New(reward.Config{Preset: p, Judge: judge})
	require.NoError(t, err)
	return s
}

var (
	prompt    = task.Prompt{ID: "p", Question: "What is the mean?"}
	reference = task.Reference{PromptID: "p", Answers: []task.NamedAnswer{{Name: "mean", Value: "34.65"}}}
	two       = task.Reference{PromptID: "p", Answers: []task.NamedAnswer{{Name: "mean", Value: "34.65"}, {Name: "max", Value: "9"}}}
)

func sum(v []float64) float64 {
	s := 0.0
	for _, x := range v {
		s += x
	}
	return s
}

func valueOf(name, text string) evidence.Value {
	return evidence.Value{Name: name, Kind: evidence.KindNumber, Repr: text}
}
