package trajectory

import "github.com/verigraph/verigraph/task"

// Group is the finished rollouts of one dispatch, one per sample, in sample order. It is complete:
// every member ended, with a rewarded reason or with one of ours.
type Group struct {
	Dispatch     task.Dispatch `json:"dispatch"`
	Trajectories []Trajectory  `json:"trajectories"`
	// PolicyModel and the hashes say what generated it.
	Model              string   `json:"model"`
	TokenizerSHA256    string   `json:"tokenizer_sha256"`
	ChatTemplateSHA256 string   `json:"chat_template_sha256"`
	PadTokenID         int32    `json:"pad_token_id"`
	Sampling           Sampling `json:"sampling"`
}

// Sampling is the sampling parameters that the rollouts were generated with.
type Sampling struct {
	// Temperature divides the logits; 0 is greedy.
	Temperature float64 `json:"temperature" yaml:"temperature"`
	// TopP below 1 cuts the tail off, and makes the behaviour policy differ from the trained one.
	TopP float64 `json:"top_p" yaml:"top_p"`
	// TopK keeps the likeliest tokens; 0 or -1 keeps all.
	TopK int `json:"top_k" yaml:"top_k"`
	// MinP drops tokens below this share of the likeliest one; 0 drops none.
	MinP float64 `json:"min_p" yaml:"min_p"`
	// RepetitionPenalty other than 1 makes the behaviour policy differ from the trained one.
	RepetitionPenalty float64 `json:"repetition_penalty" yaml:"repetition_penalty"`
	// MaxTokens bounds one turn: the tighter of rollout.max_turn_tokens and what the prompt asked for.
	MaxTokens int `json:"max_tokens,omitempty" yaml:"-"`
}

// ScoredGroup is a Group after the reward server.
type ScoredGroup struct {
	Group  Group   `json:"group"`
	Scores []Score `json:"scores"`
}
