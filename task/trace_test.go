package task_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/task"
)

// The first is the example of the W3C recommendation.
func TestATraceIDIsThatOfAKeptTraceparent(t *testing.T) {
	t.Parallel()
	const id = "4bf92f3577b34da6a3ce929d0e0e4736"
	for parent, want := range map[string]struct {
		id      string
		sampled bool
	}{
		"00-" + id + "-00f067aa0ba902b7-01":         {id, true},
		"00-" + id + "-00f067aa0ba902b7-00":         {id, false},
		"00-" + id + "-00f067aa0ba902b7-0b":         {id, true},
		"00-" + id + "-00f067aa0ba902b7-0a":         {id, false},
		"00-" + id + "-00f067aa0ba902b7":            {},
		"00-" + id + "-00f067aa0ba902b7-01\nx: y":   {},
		"00-4BF92F3577B34DA6A3CE929D0E0E4736-00-01": {},
		"": {},
	} {
		got, sampled := task.TraceID(parent)
		require.Equal(t, want.id, got, parent)
		require.Equal(t, want.sampled, sampled, parent)
	}
}
