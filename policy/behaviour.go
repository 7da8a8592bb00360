package policy

import (
	"fmt"

	"github.com/verigraph/verigraph/trajectory"
)

// SamplingWarnings lists what makes the distribution that tokens are drawn from (the behaviour
// policy) another one than the trainer's model at temperature 1: the stored log-probs are then those
// of neither, or of a truncated one, and importance ratios are biased.
func SamplingWarnings(s trajectory.Sampling) []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if s.TopP < 1 {
		add("top_p %g cuts the tail off: cut tokens have probability 0 under the behaviour policy; set 1", s.TopP)
	}
	if s.TopK > 0 {
		add("top_k %d cuts the tail off: cut tokens have probability 0 under the behaviour policy; set -1", s.TopK)
	}
	if s.MinP > 0 {
		add("min_p %g cuts the tail off: cut tokens have probability 0 under the behaviour policy; set 0", s.MinP)
	}
	if s.RepetitionPenalty != 1 && s.RepetitionPenalty != 0 {
		add("repetition_penalty %g makes a token's probability depend on the context's tokens in a way the trainer does not know; set 1", s.RepetitionPenalty)
	}
	switch {
	case s.Temperature == 0:
		add("temperature 0 always takes the likeliest token: no exploration, and log-probs of no distribution; set 1 for training")
	case s.Temperature != 1:
		add("temperature %g: log-probs are the sampler's own only with --logprobs-mode processed_logprobs, and the trainer must divide its logits by the same temperature", s.Temperature)
	}
	return out
}
