package trajectory

// Score is the reward of one rollout with all its parts. It is a pure function of the stored
// trajectory, the reference answer, the preset and the verdicts in it. No field is ever NaN.
type Score struct {
	Status ScoreStatus `json:"status"`
	// Reason says why there is no reward when Status is not ok.
	Reason string `json:"reason,omitempty"`
	// Preset and PresetHash name the reward configuration.
	Preset     string `json:"preset"`
	PresetHash string `json:"preset_hash"`

	// Process, Infer, Outcome are the terms before weights: [0,1], [-0.5,1], [0,1].
	Process float64 `json:"process"`
	Infer   float64 `json:"infer"`
	Outcome float64 `json:"outcome"`
	// Penalty is what was added for a missing or worthless submission (<= 0).
	Penalty float64 `json:"penalty"`
	// Total is the sum before the clip (verl: score); Clipped after it (seq_reward); Overlong
	// the soft punishment (<= 0); Reward what the trainer gets (seq_final_reward).
	Total    float64 `json:"total"`
	Clipped  float64 `json:"clipped"`
	Overlong float64 `json:"overlong"`
	Reward   float64 `json:"reward"`
	// Correct is the rule's verdict on the whole answer; nil where no rule exists.
	Correct *bool `json:"correct"`
	// Accuracy is 1 or 0 by the rule, else Outcome (verl: acc).
	Accuracy float64 `json:"accuracy"`

	Parts []Part `json:"parts"`
	// TurnRewards places each part on the turn that earned it; the sum is Total.
	TurnRewards []float64 `json:"turn_rewards"`
	// Verdicts are per derive edge group (one per judged derived claim).
	Verdicts []Verdict `json:"verdicts"`
	// Method names the rule, judge or scorer that gave Outcome.
	Method string `json:"method,omitempty"`
	// Edges is the number of derive edges in scope, also of an unscored rollout.
	Edges int `json:"edges"`
	// Gov reports a verification by graph, where one ran.
	Gov *GovResult `json:"gov,omitempty"`
	// Grounding is the per-claim grounding with the judge's part filled in where it ran.
	ScoreS float64 `json:"score_s"`
}

// ScoreStatus is ok, unscored, unjudgeable or lost.
type ScoreStatus string

// Score statuses.
const (
	ScoreOK          ScoreStatus = "ok"
	ScoreUnscored    ScoreStatus = "unscored"    // the judge gave no verdict
	ScoreUnjudgeable ScoreStatus = "unjudgeable" // this text breaks a healthy judge
	ScoreLost        ScoreStatus = "lost"        // the rollout itself failed for our reasons
)

// GovResult is the course of a Graph-of-Verification run over a rollout's claims.
type GovResult struct {
	// Valid: every unit in scope is true. FirstFailing is the first claim that is not, if any.
	Valid        bool   `json:"valid"`
	FirstFailing string `json:"first_failing,omitempty"`
	Units        int    `json:"units"`
	Calls        int    `json:"calls"`
	// CallsSaved counts the derived claims that no call decided.
	CallsSaved int `json:"calls_saved"`
}

// Part is one named contribution to Total: Weight * Value, placed on Turn.
type Part struct {
	Term   string  `json:"term"` // process, infer, outcome, penalty
	Name   string  `json:"name"` // e.g. the claim id, the sub-answer's name, cell
	Turn   int     `json:"turn"`
	Value  float64 `json:"value"`
	Weight float64 `json:"weight"`
	Reason string  `json:"reason,omitempty"`
}

// Verdict is a judge's word on one derived claim.
type Verdict struct {
	Claim    string   `json:"claim"`
	Premises []string `json:"premises"`
	// Kind is entailed, not_entailed or abstained; no_verdict only on unscored rollouts.
	Kind       VerdictKind `json:"kind"`
	Reason     string      `json:"reason"`
	Judge      string      `json:"judge"` // model name, or "rules"
	PromptHash string      `json:"prompt_hash,omitempty"`
	Cached     bool        `json:"cached,omitempty"`
	Repaired   bool        `json:"repaired,omitempty"`
	// Split: the judges of a vote did not all say the same.
	Split bool `json:"split,omitempty"`
}

// VerdictKind is what a judge said.
type VerdictKind string

// Verdict kinds. Abstained verdicts are left out of the mean.
const (
	Entailed    VerdictKind = "entailed"
	NotEntailed VerdictKind = "not_entailed"
	Abstained   VerdictKind = "abstained"
	NoVerdict   VerdictKind = "no_verdict"
)

// Scored is a trajectory with its score.
type Scored struct {
	Trajectory Trajectory `json:"trajectory"`
	Score      Score      `json:"score"`
}
