// Package sfttest plays trajectories with the real machine of rollouts, for tests.
package sfttest

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/policy"
	"github.com/verigraph/verigraph/policy/chat"
	"github.com/verigraph/verigraph/policy/scripted"
	"github.com/verigraph/verigraph/policy/tokenizer"
	"github.com/verigraph/verigraph/rollout"
	"github.com/verigraph/verigraph/sft"
	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

// Turn is what the policy says, and what comes back.
type Turn struct {
	Text, Observation string
	Status            trajectory.CellStatus // empty is ok
	// Ends: the policy samples the end-of-turn token itself.
	Ends bool
}

// Said is a turn with reasoning and a cell.
func Said(code string) string {
	return "<think>\nI look at it.\n</think>\n\n<code_interpreter>\n" + code + "\n</code_interpreter>"
}

// Seen is an observation.
func Seen(output string) string {
	return "<tool_response>\nstatus: ok\noutput:\n" + output + "\n</tool_response>"
}

// Game is a trajectory to play.
type Game struct {
	ID, System, User string
	Turns            []Turn
	Config           rollout.Config
	Tokenizer        *tokenizer.Tokenizer // nil is the scripted server's
	// Binds, Infers are turns that make a claim; the last turn submits.
	Binds, Infers []int
	// Sample, when set, gives the ids that the engine sampled in place of the canonical ones.
	Sample func([]int32) []int32
}

// Tiny is the scripted server's tokenizer.
func Tiny(t testing.TB) *tokenizer.Tokenizer {
	t.Helper()
	tok, err := tokenizer.Parse(scripted.TokenizerJSON())
	require.NoError(t, err)
	return tok
}

// Play gives the record, and the ids that the policy was sent in each turn.
func Play(t testing.TB, g Game) (sft.Record, [][]int32) {
	t.Helper()
	tok := g.Tokenizer
	if tok == nil {
		tok = Tiny(t)
	}
	ml, err := chat.New(tok, chat.Thinking(g.Config.Thinking))
	require.NoError(t, err)
	m := rollout.NewMachine(g.Config, tok, ml, ml.Prompt(g.System, g.User))
	out := trajectory.Trajectory{
		ID: task.RolloutID{Run: "r", Dispatch: g.ID + "-0"}, PromptID: g.ID, DataSource: "test", Termination: trajectory.Submitted,
		Messages: []trajectory.Message{{Role: "system", Content: g.System}, {Role: "user", Content: g.User}},
		Graph:    evidence.Export{Schema: evidence.Schema, SubmitTurn: len(g.Turns) - 1, Submitted: []string{"c1"}},
	}
	var prompts [][]int32
	for i, turn := range g.Turns {
		ask, more := m.Next().(rollout.Generate)
		require.True(t, more, "turn %d: %v", i, m.Next())
		prompts = append(prompts, slices.Clone(ask.Prompt))
		ids := tok.EncodeSpecial(turn.Text) // an engine samples the tags of reasoning as added tokens
		if g.Sample != nil {
			ids = g.Sample(ids)
		}
		c := policy.Completion{IDs: ids, Finish: "stop", StopString: "</code_interpreter>"}
		if turn.Ends {
			c.IDs, c.StopString = append(c.IDs, ml.EndOfTurn()), ""
		}
		c.LogProbs = slices.Repeat([]float32{-1}, len(c.IDs))
		m.Sampled(c, 1, 1)
		_, runs := m.Next().(rollout.RunCell)
		require.True(t, runs, "turn %d runs no cell", i)
		m.Observed(turn.Observation, i == len(g.Turns)-1)
		status := turn.Status
		if status == "" {
			status = trajectory.CellOK
		}
		out.Turns = append(out.Turns, trajectory.Turn{Text: turn.Text, HasCode: true, Code: "x", Status: status, Observation: turn.Observation, FinishReason: "stop"})
		out.Messages = append(out.Messages, trajectory.Message{Role: "assistant", Content: turn.Text})
		if i < len(g.Turns)-1 {
			out.Messages = append(out.Messages, trajectory.Message{Role: "user", Content: turn.Observation})
		}
	}
	out.Segments = m.Segments()
	require.NoError(t, m.Check(out.Segments))
	for _, k := range g.Binds {
		out.Graph.Nodes = append(out.Graph.Nodes, evidence.Node{ID: "c1", Kind: evidence.NodeAtomic, Turn: k})
	}
	for _, k := range g.Infers {
		out.Graph.Nodes = append(out.Graph.Nodes, evidence.Node{ID: "c2", Kind: evidence.NodeDerived, Turn: k})
	}
	s := &trajectory.Scored{Trajectory: out, Score: trajectory.Score{Status: trajectory.ScoreOK, Reward: 1, Accuracy: 1}}
	return sft.Record{ID: out.ID.String(), PromptID: g.ID, DataSource: "test", Licence: "MIT", Scored: s, Verdicts: true}, prompts
}
