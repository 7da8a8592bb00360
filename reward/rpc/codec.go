package rpc

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/verigraph/verigraph/evidence"
	pb "github.com/verigraph/verigraph/proto/verigraph/v1"
	"github.com/verigraph/verigraph/trajectory"
)

// trajectory reads a rollout in either form.
func (s *Server) trajectory(promptID string, r *pb.Rollout) (trajectory.Trajectory, error) {
	switch form := r.GetForm().(type) {
	case *pb.Rollout_TrajectoryJson:
		var t trajectory.Trajectory
		if err := json.Unmarshal(form.TrajectoryJson, &t); err != nil {
			return t, fmt.Errorf("%w: trajectory_json: %w", errInvalid, err)
		}
		if !t.Termination.Valid() {
			return t, fmt.Errorf("%w: trajectory_json: termination %q is unknown", errInvalid, t.Termination)
		}
		if t.PromptID != "" && t.PromptID != promptID {
			return t, fmt.Errorf("%w: trajectory_json: it answers prompt %q, not %q", errInvalid, t.PromptID, promptID)
		}
		if t.Graph.Schema != 0 || len(t.Graph.Nodes) > 0 {
			if err := t.Graph.Validate(); err != nil {
				return t, fmt.Errorf("%w: trajectory_json: graph: %w", errInvalid, err)
			}
			// What a caller says about grounding counts for nothing: it follows from nodes and edges.
			t.Graph.Grounding = t.Graph.ComputeGrounding()
		}
		t.PromptID = promptID
		return t, nil
	case *pb.Rollout_Answer:
		return s.answerOnly(promptID, form.Answer, int(r.GetResponseTokens()))
	}
	return trajectory.Trajectory{}, fmt.Errorf("%w: neither trajectory_json nor answer is set", errInvalid)
}

// answerOnly is a rollout that consists of its answer. It has no evidence, so a preset that looks at
// evidence would read its absence as the policy's fault.
func (s *Server) answerOnly(promptID, answer string, tokens int) (trajectory.Trajectory, error) {
	if p := s.scorer.Preset(); p.Faithful || p.GateOnSubmission || p.UngroundedSubmissionPenalty != 0 {
		return trajectory.Trajectory{}, fmt.Errorf("%w: preset %s looks at evidence, which an answer alone has none of; use one such as official", errPrecondition, p.Name)
	}
	t := trajectory.Trajectory{
		PromptID: promptID, Termination: trajectory.NoSubmission, TextOnly: true, Answer: answer,
		Graph:    evidence.Export{Schema: evidence.Schema, SubmitTurn: -1},
		Turns:    []trajectory.Turn{{Text: answer}},
		Segments: []trajectory.Segment{{ResponseIDs: make([]int32, max(tokens, 0))}},
	}
	if strings.TrimSpace(answer) != "" {
		t.Termination, t.Graph.SubmitTurn, t.Graph.Submitted = trajectory.Submitted, 0, []string{"c1"}
		t.Graph.Nodes = []evidence.Node{{ID: "c1", Kind: evidence.NodeAtomic, Text: answer}}
		t.Graph.Grounding = t.Graph.ComputeGrounding()
	}
	return t, nil
}

// encode leaves out every number of a rollout without a reward.
func encode(s trajectory.Score) *pb.RolloutScore {
	out := &pb.RolloutScore{
		Status: string(s.Status), Reason: clean(s.Reason), Preset: s.Preset, PresetHash: s.PresetHash,
		Method: clean(s.Method), Edges: int32(min(s.Edges, 1<<30)),
	}
	for _, v := range s.Verdicts {
		out.Verdicts = append(out.Verdicts, &pb.RewardVerdict{
			Claim: clean(v.Claim), Premises: v.Premises, Kind: string(v.Kind), Reason: clean(v.Reason), Judge: clean(v.Judge),
			PromptHash: v.PromptHash, Cached: v.Cached, Repaired: v.Repaired,
		})
	}
	if s.Status != trajectory.ScoreOK {
		return out
	}
	out.Process, out.Infer, out.Outcome, out.Penalty = &s.Process, &s.Infer, &s.Outcome, &s.Penalty
	out.Score, out.SeqReward, out.OverlongReward, out.Reward = &s.Total, &s.Clipped, &s.Overlong, &s.Reward
	out.Acc, out.Correct, out.TurnRewards = &s.Accuracy, s.Correct, s.TurnRewards
	for _, p := range s.Parts {
		out.Parts = append(out.Parts, &pb.RewardPart{
			Term: p.Term, Name: clean(p.Name), Turn: int32(p.Turn), Value: p.Value, Weight: p.Weight, Reason: clean(p.Reason),
		})
	}
	return out
}

// clean makes text fit for a proto string, which otherwise makes the whole message fail.
func clean(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
