package eval

import "github.com/verigraph/verigraph/trajectory"

// State is what became of one sample of one item.
type State string

// States. Only a scored sample has a value; a policy that answers nothing is scored, with 0.
const (
	Scored   State = "scored"
	Unscored State = "unscored" // the judge gave no verdict, or none is configured
	Lost     State = "lost"     // the rollout failed for our reasons
	Missing  State = "missing"  // no rollout is stored (yet)
	Hidden   State = "hidden"   // the benchmark keeps the answer to itself
)

// Record is one sample of one item, measured.
type Record struct {
	Benchmark string              `json:"benchmark"`
	Item      string              `json:"item"`
	Sample    int                 `json:"sample"`
	Types     map[string][]string `json:"types,omitempty"`
	State     State               `json:"state"`
	Reason    string              `json:"reason,omitempty"`
	// Value is the headline score in [0, 1] by the benchmark's own rule; Fixed the same by the mended rule,
	// null where there is no other rule.
	Value *float64 `json:"value"`
	Fixed *float64 `json:"fixed"`
	// Binary: the value is a verdict on the whole answer, 0 or 1.
	Binary bool `json:"binary,omitempty"`
	// Right and Parts are the right and all required sub-answers.
	Right int `json:"right,omitempty"`
	Parts int `json:"parts,omitempty"`
	// Content and Format are a report's grades, 1 to 5.
	Content float64 `json:"content,omitempty"`
	Format  float64 `json:"format,omitempty"`

	Termination trajectory.Termination `json:"termination,omitempty"`
	Submitted   bool                   `json:"submitted"`
	Answer      string                 `json:"answer,omitempty"`
	Method      string                 `json:"method,omitempty"`
	Claims      []Claim                `json:"claims,omitempty"`
	// ClaimsUnsplit: the answer's claims are not known, since the judge gave no usable list.
	ClaimsUnsplit string `json:"claims_unsplit,omitempty"`

	Turns   int `json:"turns"`
	Cells   int `json:"cells"`
	CellsOK int `json:"cells_ok"`
	// PromptTokens are those that every call sent, the same ones again in each turn; SampledTokens are the
	// policy's. Estimated where the endpoint gives text only.
	PromptTokens  int     `json:"prompt_tokens"`
	SampledTokens int     `json:"sampled_tokens"`
	Estimated     bool    `json:"estimated,omitempty"`
	PolicyS       float64 `json:"policy_s"`
	SandboxS      float64 `json:"sandbox_s"`
	QueueS        float64 `json:"queue_s"`
}

// Claim is the grounding of one submitted claim (DESIGN section 7). A part that did not run is null.
type Claim struct {
	ID         string `json:"id"`
	Structural *bool  `json:"structural"`
	Replayed   *bool  `json:"replayed"`
	Lexical    *bool  `json:"lexical"`
	Supported  *bool  `json:"supported"`
	// Why is the reason of a part that is false, or of a verdict that is missing.
	Why string `json:"why,omitempty"`
}

// Grounded is S, R, N and J together; for an answer in words, which has no graph, J alone. Null where a part
// that counts did not run.
func (c Claim) Grounded(words bool) *bool {
	parts := []*bool{c.Structural, c.Replayed, c.Lexical, c.Supported}
	if words {
		parts = parts[3:]
	}
	all := true
	for _, p := range parts {
		if p == nil {
			return nil
		}
		all = all && *p
	}
	return &all
}
