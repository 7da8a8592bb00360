package reward

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/verigraph/verigraph/reward/gov"
)

// Preset is one reward configuration. Its hash goes into every score and every batch's metadata.
type Preset struct {
	Name    string  `json:"name" yaml:"name"`
	Weights Weights `json:"weights" yaml:"weights"`
	Infer   Infer   `json:"infer" yaml:"infer"`
	// GateOnSubmission lets process and infer count only after a submission of which a claim is
	// structurally grounded and speaks to the question (see standing).
	GateOnSubmission bool `json:"gate_on_submission" yaml:"gate_on_submission"`
	// The submission penalties are <= 0 and at most one of them applies.
	MissingSubmissionPenalty    float64 `json:"missing_submission_penalty" yaml:"missing_submission_penalty"`
	UngroundedSubmissionPenalty float64 `json:"ungrounded_submission_penalty" yaml:"ungrounded_submission_penalty"`
	EmptySubmissionPenalty      float64 `json:"empty_submission_penalty" yaml:"empty_submission_penalty"`
	// RestatedPenalty is multiplied by the share of derived claims in scope that repeat a premise.
	RestatedPenalty float64 `json:"restated_penalty" yaml:"restated_penalty"`
	// ProgressRelief is the most that the work done (0 to 1) takes off a submission penalty.
	ProgressRelief float64 `json:"progress_relief" yaml:"progress_relief"`
	// Faithful demands that a right sub-answer stands in a submitted claim with S and N, its
	// numbers coming from placeholders. Off only for official scores.
	Faithful bool `json:"faithful" yaml:"faithful"`
	// OutcomeRule is fixed (benchmarks' faults mended) or official (their figures, and no faithfulness).
	OutcomeRule OutcomeRule `json:"outcome_rule" yaml:"outcome_rule"`
	Clip        *Clip       `json:"clip" yaml:"clip"`
	Overlong    Overlong    `json:"overlong" yaml:"overlong"`
}

// Weights multiply the three terms.
type Weights struct {
	Process float64 `json:"process" yaml:"process"`
	Infer   float64 `json:"infer" yaml:"infer"`
	Outcome float64 `json:"outcome" yaml:"outcome"`
}

// Infer says which derived claims count and how.
type Infer struct {
	Scope      Scope    `json:"scope" yaml:"scope"`
	Restated   Handling `json:"restated" yaml:"restated"`
	Ungrounded Handling `json:"ungrounded" yaml:"ungrounded"`
	// Beside handles entailed conclusions that no value of a required name rests on, where a rule says what is
	// required: trivial truths beside the answer are else the cheapest reward there is.
	Beside Handling `json:"beside" yaml:"beside"`
	// AnswerNeeds is what a sub-answer in a derived claim needs of the judge to be worth anything.
	AnswerNeeds AnswerNeeds `json:"answer_needs" yaml:"answer_needs"`
	// Strategy is edges (each derived claim on its own) or gov (Graph of Verification, by Gov).
	Strategy Strategy   `json:"strategy" yaml:"strategy"`
	Gov      gov.Config `json:"gov" yaml:"gov"`
}

// Strategy of R_infer.
type Strategy string

// Strategies.
const (
	StrategyEdges Strategy = "edges"
	StrategyGov   Strategy = "gov"
)

// AnswerNeeds says what the judge must have said of a derived claim that carries a sub-answer, and of
// the derived claims that it rests on.
type AnswerNeeds string

// What a derived sub-answer needs: nothing (DESIGN's formula), that no verdict refutes it (an
// abstention is no refutation), that and something behind every sub-answer in words, bound ones too (see
// words.supported), or that every verdict is entailed.
const (
	NeedsNothing    AnswerNeeds = "nothing"
	NeedsNotRefuted AnswerNeeds = "not_refuted"
	NeedsSupport    AnswerNeeds = "support"
	NeedsEntailed   AnswerNeeds = "entailed"
)

// OutcomeRule is which of a benchmark's comparisons counts.
type OutcomeRule string

// Outcome rules.
const (
	OutcomeFixed    OutcomeRule = "fixed"
	OutcomeOfficial OutcomeRule = "official"
)

// Scope is all (every derived claim made) or submitted (those the submission rests on).
type Scope string

// Scopes of R_infer.
const (
	ScopeAll       Scope = "all"
	ScopeSubmitted Scope = "submitted"
)

// Handling is count (as judged) or zero (worth 0, yet part of the mean).
type Handling string

// Handlings of restated conclusions, and of ungrounded ones and those beside the answer.
const (
	HandleCount Handling = "count"
	HandleZero  Handling = "zero"
)

// Clip bounds the total.
type Clip struct {
	Min float64 `json:"min" yaml:"min"`
	Max float64 `json:"max" yaml:"max"`
}

// Defaults returns the preset named default; a file's keys override it one by one.
func Defaults() Preset {
	return Preset{
		Name:    "default",
		Weights: Weights{Process: 0.1, Infer: 0.1, Outcome: 0.8},
		Infer: Infer{
			Scope: ScopeSubmitted, Restated: HandleZero, Ungrounded: HandleZero, Beside: HandleZero,
			AnswerNeeds: NeedsNotRefuted, Strategy: StrategyEdges, Gov: gov.Defaults(),
		},
		GateOnSubmission:            true,
		MissingSubmissionPenalty:    -0.5,
		UngroundedSubmissionPenalty: -0.8,
		EmptySubmissionPenalty:      -0.4,
		RestatedPenalty:             -0.05,
		ProgressRelief:              0.3,
		Faithful:                    true,
		OutcomeRule:                 OutcomeFixed,
		Overlong:                    Overlong{Owner: OwnerNone},
	}
}

// maxMagnitude keeps every sum of weighted terms far from overflow and float32 rounding.
const maxMagnitude = 100

// Validate reports all problems at once, each naming its key.
func (p Preset) Validate() error {
	var errs []error
	bad := func(key, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: %s", key, fmt.Sprintf(format, args...)))
	}
	between := func(key string, v, lo, hi float64) {
		if math.IsNaN(v) || v < lo || v > hi {
			bad(key, "%g is not between %g and %g", v, lo, hi)
		}
	}
	if p.Name == "" {
		bad("name", "is empty")
	}
	between("weights.process", p.Weights.Process, 0, maxMagnitude)
	between("weights.infer", p.Weights.Infer, 0, maxMagnitude)
	between("weights.outcome", p.Weights.Outcome, 0, maxMagnitude)
	if p.Infer.Scope != ScopeAll && p.Infer.Scope != ScopeSubmitted {
		bad("infer.scope", "%q is neither all nor submitted", p.Infer.Scope)
	}
	for _, c := range []struct {
		key string
		h   Handling
	}{{"infer.restated", p.Infer.Restated}, {"infer.ungrounded", p.Infer.Ungrounded}, {"infer.beside", p.Infer.Beside}} {
		if c.h != HandleCount && c.h != HandleZero {
			bad(c.key, "%q is neither count nor zero", c.h)
		}
	}
	switch p.Infer.AnswerNeeds {
	case NeedsNothing, NeedsNotRefuted, NeedsSupport, NeedsEntailed:
	default:
		bad("infer.answer_needs", "%q is none of nothing, not_refuted, support, entailed", p.Infer.AnswerNeeds)
	}
	if p.Infer.Strategy != StrategyEdges && p.Infer.Strategy != StrategyGov {
		bad("infer.strategy", "%q is neither edges nor gov", p.Infer.Strategy)
	}
	if err := p.Infer.Gov.Validate(); err != nil {
		bad("infer.gov", "%v", err)
	}
	if p.OutcomeRule != OutcomeFixed && p.OutcomeRule != OutcomeOfficial {
		bad("outcome_rule", "%q is neither fixed nor official", p.OutcomeRule)
	}
	if p.OutcomeRule == OutcomeOfficial && p.Faithful {
		bad("faithful", "official scores know no faithfulness; set it to false")
	}
	between("restated_penalty", p.RestatedPenalty, -maxMagnitude, 0)
	between("progress_relief", p.ProgressRelief, 0, maxMagnitude)
	for _, c := range []struct {
		key string
		v   float64
	}{
		{"missing_submission_penalty", p.MissingSubmissionPenalty},
		{"ungrounded_submission_penalty", p.UngroundedSubmissionPenalty},
		{"empty_submission_penalty", p.EmptySubmissionPenalty},
	} {
		between(c.key, c.v, -maxMagnitude, 0)
		if c.v < 0 && p.ProgressRelief > -c.v {
			bad("progress_relief", "%g would turn %s (%g) into a reward", p.ProgressRelief, c.key, c.v)
		}
	}
	if p.Clip != nil {
		between("clip.min", p.Clip.Min, -maxMagnitude, maxMagnitude)
		between("clip.max", p.Clip.Max, -maxMagnitude, maxMagnitude)
		if p.Clip.Min >= p.Clip.Max {
			bad("clip", "min %g is not below max %g", p.Clip.Min, p.Clip.Max)
		}
	}
	p.Overlong.validate(bad)
	return errors.Join(errs...)
}

// Hash is the hex SHA-256 of the preset's canonical JSON: all fields, in declaration order.
func (p Preset) Hash() string {
	b, err := json.Marshal(p)
	if err != nil { // only a non-finite number can do this, and Validate refuses those
		return "invalid"
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
