package policy_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/policy"
	"github.com/verigraph/verigraph/trajectory"
)

func TestSamplingThatLeavesTheTrainedPolicyIsWarnedOf(t *testing.T) {
	t.Parallel()
	exact := trajectory.Sampling{Temperature: 1, TopP: 1, TopK: -1, RepetitionPenalty: 1}
	require.Empty(t, policy.SamplingWarnings(exact))
	off := exact
	off.TopK = 0
	require.Empty(t, policy.SamplingWarnings(off), "0 turns top_k off as well")
	for key, change := range map[string]func(*trajectory.Sampling){
		"top_p": func(s *trajectory.Sampling) { s.TopP = 0.95 }, "top_k": func(s *trajectory.Sampling) { s.TopK = 20 },
		"min_p": func(s *trajectory.Sampling) { s.MinP = 0.1 }, "repetition_penalty": func(s *trajectory.Sampling) { s.RepetitionPenalty = 1.05 },
		"temperature 0": func(s *trajectory.Sampling) { s.Temperature = 0 }, "temperature 0.6": func(s *trajectory.Sampling) { s.Temperature = 0.6 },
	} {
		s := exact
		change(&s)
		got := policy.SamplingWarnings(s)
		require.Len(t, got, 1, key)
		require.True(t, strings.HasPrefix(got[0], key), got[0])
	}
}
