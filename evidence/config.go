package evidence

import (
	"errors"
	"fmt"
)

// NumberRule says what happens to a conclusion that states a number which neither its premises nor
// the question hold. On an accepted claim the number is recorded in every case, and N is then false.
// A number in a template is never refused, only recorded: reject and flag both flag it.
type NumberRule string

// Number rules.
const (
	// NumberReject refuses the inference.
	NumberReject NumberRule = "reject"
	// NumberFlag accepts it and adds a flag to the export.
	NumberFlag NumberRule = "flag"
	// NumberAllow accepts it.
	NumberAllow NumberRule = "allow"
)

// Config bounds what a policy can put into a graph. Lengths are in bytes of UTF-8.
type Config struct {
	// NumberRule is what happens to a conclusion with a number that no premise holds: reject, flag or allow.
	NumberRule NumberRule `yaml:"number_rule"`
	// MaxClaimBytes caps a claim's text, so that no text can be too long to judge.
	MaxClaimBytes int `yaml:"max_claim_bytes"`
	// MinReasoningBytes and MaxReasoningBytes bound the reasoning that infer takes.
	MinReasoningBytes int `yaml:"min_reasoning_bytes"`
	MaxReasoningBytes int `yaml:"max_reasoning_bytes"`
	// MaxPremises bounds the premises of one infer, MaxClaims the claims of one graph.
	MaxPremises int `yaml:"max_premises"`
	MaxClaims   int `yaml:"max_claims"`
	// MaxNodes caps all nodes but the sources, claims included.
	MaxNodes int `yaml:"max_nodes"`
}

// Defaults are limits that no honest trajectory of the shipped benchmarks comes near.
func Defaults() Config {
	return Config{
		NumberRule:        NumberReject,
		MaxClaimBytes:     2000,
		MinReasoningBytes: 16,
		MaxReasoningBytes: 2000,
		MaxPremises:       32,
		MaxClaims:         1000,
		MaxNodes:          20000,
	}
}

// Validate reports every problem at once.
func (c Config) Validate() error {
	var problems []error
	switch c.NumberRule {
	case NumberReject, NumberFlag, NumberAllow:
	default:
		problems = append(problems, fmt.Errorf("number_rule: %q is not reject, flag or allow", c.NumberRule))
	}
	for _, limit := range []struct {
		key   string
		value int
	}{
		{"max_claim_bytes", c.MaxClaimBytes},
		{"max_reasoning_bytes", c.MaxReasoningBytes},
		{"max_premises", c.MaxPremises},
		{"max_claims", c.MaxClaims},
		{"max_nodes", c.MaxNodes},
	} {
		if limit.value < 1 {
			problems = append(problems, fmt.Errorf("%s: %d is less than 1", limit.key, limit.value))
		}
	}
	if c.MinReasoningBytes < 0 {
		problems = append(problems, fmt.Errorf("min_reasoning_bytes: %d is negative", c.MinReasoningBytes))
	}
	if c.MinReasoningBytes > c.MaxReasoningBytes {
		problems = append(problems, fmt.Errorf("min_reasoning_bytes: %d exceeds max_reasoning_bytes %d",
			c.MinReasoningBytes, c.MaxReasoningBytes))
	}
	return errors.Join(problems...)
}
