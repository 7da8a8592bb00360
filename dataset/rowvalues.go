package dataset

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/trajectory"
)

// setScore fills the reward columns. Every one is finite as a float32.
func (r *Row) setScore(s *trajectory.Score) error {
	for _, f := range []struct {
		name string
		to   *float32
		from float64
	}{
		{"reward", &r.Reward, s.Reward},
		{"score", &r.Score, s.Total},
		{"acc", &r.Acc, s.Accuracy},
		{"seq_reward", &r.SeqReward, s.Clipped},
		{"seq_final_reward", &r.SeqFinalReward, s.Reward},
		{"overlong_reward", &r.OverlongReward, s.Overlong},
		{"r_process", &r.RProcess, s.Process},
		{"r_infer", &r.RInfer, s.Infer},
		{"r_outcome", &r.ROutcome, s.Outcome},
		{"r_penalty", &r.RPenalty, s.Penalty},
		{"t_score_s", &r.TScoreS, s.ScoreS},
	} {
		if err := setFinite(f.to, f.from, f.name); err != nil {
			return err
		}
	}
	r.TurnRewards = make([]float32, len(s.TurnRewards))
	for i, v := range s.TurnRewards {
		if err := setFinite(&r.TurnRewards[i], v, fmt.Sprintf("turn_rewards[%d]", i)); err != nil {
			return err
		}
	}
	return nil
}

func setFinite(to *float32, from float64, name string) error {
	v := float32(from)
	if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
		return fmt.Errorf("%w: %s is %g", ErrNotFinite, name, from)
	}
	*to = v
	return nil
}

// setTrajectory fills the columns about the whole rollout.
func (r *Row) setTrajectory(t *trajectory.Trajectory) error {
	r.NumTurns = int32(len(t.Turns))
	for _, turn := range t.Turns {
		if !turn.HasCode {
			continue
		}
		r.ToolCalls++
		if turn.Status != trajectory.CellOK {
			r.ToolErrors++
		}
	}
	r.NumPreempted = preempted(t.Segments)
	r.PolicyVersionMin, r.PolicyVersionMax = versions(t.Segments)
	err := errors.Join(
		setFinite(&r.TGenerateS, t.Timing.GenerateS, "t_generate_s"),
		setFinite(&r.TToolS, t.Timing.ToolS, "t_tool_s"),
	)
	grounding := t.Graph.Grounding
	r.GroundingStructural = share(grounding, func(c evidence.ClaimGrounding) *bool { return c.Structural })
	r.GroundingReplayed = share(grounding, func(c evidence.ClaimGrounding) *bool { return c.Replayed })
	r.GroundingLexical = share(grounding, func(c evidence.ClaimGrounding) *bool { return c.Lexical })
	r.GroundingSupported = share(grounding, func(c evidence.ClaimGrounding) *bool { return c.Supported })
	return errors.Join(err, setJSON(&r.MessagesJSON, t.Messages, "[]"), setJSON(&r.GraphJSON, t.Graph, "{}"))
}

// share is the share of submitted claims for which a part holds; nil where it did not run on all.
func share(claims []evidence.ClaimGrounding, part func(evidence.ClaimGrounding) *bool) *float32 {
	if len(claims) == 0 {
		return nil
	}
	held := 0
	for _, c := range claims {
		v := part(c)
		if v == nil {
			return nil
		}
		if *v {
			held++
		}
	}
	s := float32(held) / float32(len(claims))
	return &s
}

// versions returns the oldest and newest policy version that sampled a token.
func versions(segments []trajectory.Segment) (oldest, newest int64) {
	first := true
	for _, s := range segments {
		for _, sp := range s.Spans {
			if sp.Kind != trajectory.SpanSampled {
				continue
			}
			if first {
				oldest, newest, first = sp.PolicyVersion, sp.PolicyVersion, false
			}
			oldest = min(oldest, sp.PolicyVersion, sp.PolicyVersionEnd)
			newest = max(newest, sp.PolicyVersion, sp.PolicyVersionEnd)
		}
	}
	return oldest, newest
}

// preempted counts weight updates inside a turn: mixed spans, and version changes between neighbouring
// sampled spans of one turn. Only the last segment that holds a turn shows it sampled.
func preempted(segments []trajectory.Segment) int32 {
	var n int32
	for _, s := range segments {
		for i, sp := range s.Spans {
			if sp.Kind != trajectory.SpanSampled {
				continue
			}
			if sp.PolicyVersion != sp.PolicyVersionEnd {
				n++
			}
			if i > 0 && s.Spans[i-1].Kind == trajectory.SpanSampled && s.Spans[i-1].Turn == sp.Turn &&
				s.Spans[i-1].PolicyVersionEnd != sp.PolicyVersion {
				n++
			}
		}
	}
	return n
}

// setJSON renders v as one line of JSON; encoding/json replaces invalid UTF-8 itself.
func setJSON(to *string, v any, empty string) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("json: %w", err)
	}
	*to = strings.TrimSuffix(b.String(), "\n")
	if *to == "null" {
		*to = empty
	}
	return nil
}

// filled makes the row of a member without a reward: the siblings' prompt, one padding id of mask 0,
// and their means, so that the group's baseline does not move and nothing of it is trained on.
func (c converter) filled(i int, valid []Row) Row {
	r := c.identity(i)
	sibling := valid[0]
	r.PromptIDs = sibling.PromptIDs
	r.ResponseIDs, r.ResponseMask, r.RolloutLogProbs = []int32{c.group.Group.PadTokenID}, []int8{0}, []float32{0}
	r.PolicyVersionMin, r.PolicyVersionMax = sibling.PolicyVersionMin, sibling.PolicyVersionMax
	for _, v := range valid {
		r.PolicyVersionMin = min(r.PolicyVersionMin, v.PolicyVersionMin)
		r.PolicyVersionMax = max(r.PolicyVersionMax, v.PolicyVersionMax)
	}
	r.Spans = []Span{{
		End: 1, Kind: string(trajectory.SpanTemplate),
		PolicyVersion: r.PolicyVersionMin, PolicyVersionEnd: r.PolicyVersionMin,
	}}
	r.MessagesJSON, r.GraphJSON = "[]", "{}"
	for _, column := range []func(*Row) *float32{
		func(r *Row) *float32 { return &r.Reward },
		func(r *Row) *float32 { return &r.Score },
		func(r *Row) *float32 { return &r.Acc },
		func(r *Row) *float32 { return &r.SeqReward },
		func(r *Row) *float32 { return &r.SeqFinalReward },
		func(r *Row) *float32 { return &r.OverlongReward },
		func(r *Row) *float32 { return &r.RProcess },
		func(r *Row) *float32 { return &r.RInfer },
		func(r *Row) *float32 { return &r.ROutcome },
		func(r *Row) *float32 { return &r.RPenalty },
	} {
		var sum float64
		for k := range valid {
			sum += float64(*column(&valid[k]))
		}
		*column(&r) = float32(sum / float64(len(valid)))
	}
	return r
}
