package sft

import (
	"strings"

	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/trajectory"
)

// Reason is why a record is not taken.
type Reason string

// Reasons that a record shows by itself, then those that depend on other records.
const (
	NotScored      Reason = "not_scored"     // lost, unscored or unjudgeable
	NoEvidence     Reason = "no_evidence"    // a finished sample where evidence is asked for
	NoLicence      Reason = "no_licence"     // neither the record nor the configuration states one
	BadTermination Reason = "termination"    // ended for another reason than the wanted ones
	LowAccuracy    Reason = "accuracy"       // the rule's verdict or the outcome
	LowReward      Reason = "reward"         // after shaping
	LowPart        Reason = "reward_part"    // process, infer or outcome
	Structural     Reason = "structural"     // grounding, or it did not run
	Replayed       Reason = "replayed"       // grounding, or it did not run
	Lexical        Reason = "lexical"        // grounding, or it did not run
	NotEntailed    Reason = "not_entailed"   // a judge said so of a derive edge
	NoVerdicts     Reason = "no_verdicts"    // the input keeps none, and they are asked for
	Turns          Reason = "turns"          // too few or too many
	Failed         Reason = "failed_cells"   // too many cells that failed
	Flagged        Reason = "flags"          // e.g. a tainted session
	TooManyChars   Reason = "characters"     // longer than max_characters
	Language       Reason = "language"       // not a wanted one
	Contaminated   Reason = "contaminated"   // stands in a benchmark
	Secret         Reason = "secret"         // a key or password
	Personal       Reason = "personal_data"  // an address, a number
	NoSample       Reason = "no_sample"      // no turn of it can be trained
	OtherContext   Reason = "context"        // the stored ids are not those of the stored messages
	TooLong        Reason = "too_long"       // no trained turn fits max_tokens
	Duplicate      Reason = "duplicate"      // a record of this id was read before
	NearDuplicate  Reason = "near_duplicate" // of a better record
	PerPrompt      Reason = "per_prompt"     // enough of this prompt
)

// Reasons are all of them in the order in which they are looked for; the first one counts.
var Reasons = []Reason{
	NotScored, NoEvidence, NoLicence, BadTermination, LowAccuracy, LowReward, LowPart, Structural, Replayed, Lexical,
	NotEntailed, NoVerdicts, Turns, Failed, Flagged, TooManyChars, Language, Contaminated, Secret, Personal, NoSample,
	OtherContext, TooLong, Duplicate, NearDuplicate, PerPrompt,
}

// Reject gives the first reason that a record shows by its stored evidence, up to and with Language; empty
// if it is taken.
func (c *Config) Reject(r *Record) Reason {
	if r.Scored == nil {
		if !c.Select.Unverified {
			return NoEvidence
		}
	} else if r.Scored.Score.Status != trajectory.ScoreOK || !r.Scored.Trajectory.Termination.Rewarded() {
		return NotScored
	}
	if c.LicenceOf(r) == "" && !c.Select.Unlicensed {
		return NoLicence
	}
	if r.Scored != nil {
		if why := c.rejectEvidence(r); why != "" {
			return why
		}
	}
	return c.rejectText(r)
}

func below(v float64, least *float64) bool { return least != nil && v < *least }

func (c *Config) rejectEvidence(r *Record) Reason {
	s, t, sc := &c.Select, &r.Scored.Trajectory, &r.Scored.Score
	if !hasTermination(s.Terminations, t.Termination) {
		return BadTermination
	}
	switch {
	case below(sc.Accuracy, s.MinAccuracy):
		return LowAccuracy
	case below(sc.Reward, s.MinReward):
		return LowReward
	case below(sc.Process, s.MinProcess), below(sc.Infer, s.MinInfer), below(sc.Outcome, s.MinOutcome):
		return LowPart
	}
	for _, part := range []struct {
		least *float64
		value func(evidence.ClaimGrounding) *bool
		why   Reason
	}{
		{s.MinStructural, func(g evidence.ClaimGrounding) *bool { return g.Structural }, Structural},
		{s.MinReplayed, func(g evidence.ClaimGrounding) *bool { return g.Replayed }, Replayed},
		{s.MinLexical, func(g evidence.ClaimGrounding) *bool { return g.Lexical }, Lexical},
	} {
		if part.least != nil && share(t.Graph.Grounding, part.value) < *part.least {
			return part.why
		}
	}
	if s.MaxNotEntailed != nil {
		if !r.Verdicts {
			return NoVerdicts
		}
		n := 0
		for _, v := range sc.Verdicts {
			if v.Kind == trajectory.NotEntailed {
				n++
			}
		}
		if n > *s.MaxNotEntailed {
			return NotEntailed
		}
	}
	return c.rejectCourse(t)
}

func hasTermination(wanted []trajectory.Termination, got trajectory.Termination) bool {
	for _, t := range wanted {
		if t == got {
			return true
		}
	}
	return len(wanted) == 0
}

// share of the submitted claims; below every bound where the part did not run on all, or nothing was submitted.
func share(claims []evidence.ClaimGrounding, part func(evidence.ClaimGrounding) *bool) float64 {
	held := 0
	for _, c := range claims {
		v := part(c)
		if v == nil {
			return -1
		}
		if *v {
			held++
		}
	}
	if len(claims) == 0 {
		return -1
	}
	return float64(held) / float64(len(claims))
}

func (c *Config) rejectCourse(t *trajectory.Trajectory) Reason {
	s := &c.Select
	if n := len(t.Turns); n < s.MinTurns || s.MaxTurns > 0 && n > s.MaxTurns {
		return Turns
	}
	failed := 0
	for i := range t.Turns {
		if t.Turns[i].HasCode && t.Turns[i].Status != trajectory.CellOK {
			failed++
		}
	}
	if c.FailedCells == FailedReject && failed > 0 || s.MaxFailedCells != nil && failed > *s.MaxFailedCells {
		return Failed
	}
	for _, f := range t.Flags {
		for _, prefix := range s.Flags {
			if strings.HasPrefix(f, prefix) {
				return Flagged
			}
		}
	}
	return ""
}

func (c *Config) rejectText(r *Record) Reason {
	s := &c.Select
	if s.MaxCharacters == 0 && len(s.Languages) == 0 {
		return ""
	}
	n := 0
	var said strings.Builder
	for _, m := range r.Conversation() {
		n += len([]rune(m.Content))
		if m.Role == Assistant {
			said.WriteString(m.Content)
			said.WriteByte('\n')
		}
	}
	if s.MaxCharacters > 0 && n > s.MaxCharacters {
		return TooManyChars
	}
	if len(s.Languages) > 0 && !spoken(said.String(), s.Languages) {
		return Language
	}
	return ""
}
