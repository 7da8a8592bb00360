package archive

import (
	"time"

	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/trajectory"
)

// Entry is one line of the index.
type Entry struct {
	RolloutID         string                 `json:"rollout_id"`
	PromptID          string                 `json:"prompt_id"`
	Sample            int                    `json:"sample"`
	TerminationReason trajectory.Termination `json:"termination_reason"`
	RewardStatus      trajectory.ScoreStatus `json:"reward_status"`
	Submitted         bool                   `json:"submitted"`
	Answer            string                 `json:"answer"`
	// Correct is null where no rule exists or the rollout has no score.
	Correct   *bool     `json:"correct"`
	Rewards   Rewards   `json:"rewards"`
	Grounding Grounding `json:"grounding"`
	Flags     []string  `json:"flags"`
	CellsOK   int       `json:"cells_ok"`
	Cells     int       `json:"cells"`
	// File is relative to the output directory.
	File string `json:"file"`
	// TextOnly marks a rollout without token ids: a teacher's or a baseline's.
	TextOnly bool `json:"text_only,omitempty"`
	// Error is why the rollout was lost or not scored.
	Error string `json:"error,omitempty"`
	// Claims is the number of submitted claims, the weight of Grounding in a micro mean.
	Claims int `json:"claims"`
	// Verdicts counts the judge's words by kind.
	Verdicts map[trajectory.VerdictKind]int `json:"verdicts,omitempty"`
	Timing   trajectory.Timing              `json:"timing"`
	// Split counts the verdicts on which the judges of a vote did not all say the same.
	Split      int    `json:"split,omitempty"`
	DataSource string `json:"data_source,omitempty"`
	Turns      int    `json:"turns"`
	// Tokens are those of the longest segment, prompt and response; Sampled are the policy's of all turns.
	Tokens  int `json:"tokens"`
	Sampled int `json:"sampled"`
	// Versions are the oldest and the newest policy version of a sampled token; null without one.
	Versions *[2]int64 `json:"versions"`
	Nodes    int       `json:"nodes"`
	// ArchivedAt is when the line was written; rollouts of a group share nearly the same.
	ArchivedAt time.Time `json:"archived_at"`
}

// Rewards are the terms before weights, and the total after shaping. All null without a score.
type Rewards struct {
	Process *float64 `json:"process"`
	Infer   *float64 `json:"infer"`
	Outcome *float64 `json:"outcome"`
	Penalty *float64 `json:"penalty"`
	Total   *float64 `json:"total"`
}

// Grounding are shares over the submitted claims; null where the part did not run or nothing was submitted.
type Grounding struct {
	Structural *float64 `json:"structural"`
	Replayed   *float64 `json:"replayed"`
	Lexical    *float64 `json:"lexical"`
	Supported  *float64 `json:"supported"`
	// Rate is the share of claims for which all four hold; null unless all four ran.
	Rate *float64 `json:"rate"`
}

func entry(s trajectory.Scored) Entry {
	t := &s.Trajectory
	e := Entry{
		RolloutID: t.ID.String(), PromptID: t.PromptID, Sample: t.ID.Sample,
		TerminationReason: t.Termination, RewardStatus: s.Score.Status,
		Submitted: t.Termination == trajectory.Submitted, Answer: t.Answer, Correct: s.Score.Correct,
		Flags: append([]string{}, t.Flags...), Timing: t.Timing, Claims: len(t.Graph.Submitted),
		Grounding: grounding(&t.Graph), TextOnly: t.TextOnly, Error: t.Error, DataSource: t.DataSource, Turns: len(t.Turns), Nodes: len(t.Graph.Nodes),
	}
	e.countTokens(t)
	e.Timing.ScoreS = s.Score.ScoreS
	for _, turn := range t.Turns {
		if turn.HasCode {
			e.Cells++
			if turn.Status == trajectory.CellOK {
				e.CellsOK++
			}
		}
	}
	if s.Score.Status != trajectory.ScoreOK {
		e.Correct = nil
		if e.Error == "" {
			e.Error = s.Score.Reason
		}
		return e
	}
	sc := s.Score
	e.Rewards = Rewards{Process: &sc.Process, Infer: &sc.Infer, Outcome: &sc.Outcome, Penalty: &sc.Penalty, Total: &sc.Reward}
	for _, v := range sc.Verdicts {
		if e.Verdicts == nil {
			e.Verdicts = map[trajectory.VerdictKind]int{}
		}
		if v.Split {
			e.Split++
		}
		e.Verdicts[v.Kind]++
	}
	return e
}

func (e *Entry) countTokens(t *trajectory.Trajectory) {
	for _, turn := range t.Turns {
		e.Sampled += turn.SampledIDs
	}
	for _, seg := range t.Segments {
		e.Tokens = max(e.Tokens, len(seg.PromptIDs)+len(seg.ResponseIDs))
		for _, span := range seg.Spans {
			if span.Kind != trajectory.SpanSampled {
				continue
			}
			if e.Versions == nil {
				e.Versions = &[2]int64{span.PolicyVersion, span.PolicyVersionEnd}
			}
			e.Versions[0] = min(e.Versions[0], span.PolicyVersion)
			e.Versions[1] = max(e.Versions[1], span.PolicyVersionEnd)
		}
	}
}

func grounding(g *evidence.Export) Grounding {
	share := func(part func(evidence.ClaimGrounding) *bool) *float64 {
		n, yes := 0, 0
		for _, c := range g.Grounding {
			if p := part(c); p != nil {
				n++
				if *p {
					yes++
				}
			}
		}
		if n == 0 || n < len(g.Grounding) {
			return nil
		}
		v := float64(yes) / float64(n)
		return &v
	}
	return Grounding{
		Structural: share(func(c evidence.ClaimGrounding) *bool { return c.Structural }),
		Replayed:   share(func(c evidence.ClaimGrounding) *bool { return c.Replayed }),
		Lexical:    share(func(c evidence.ClaimGrounding) *bool { return c.Lexical }),
		Supported:  share(func(c evidence.ClaimGrounding) *bool { return c.Supported }),
		Rate:       evidence.Rate(g.Grounding),
	}
}
