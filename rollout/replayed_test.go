package rollout

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/sandbox"
	"github.com/verigraph/verigraph/trajectory"
)

// fakeReplayer denies the submission, or fails.
type fakeReplayer struct {
	err   error
	calls int
	spec  sandbox.Spec
}

func (f *fakeReplayer) Check(_ context.Context, g *evidence.Export, question string, spec sandbox.Spec) error {
	f.calls++
	f.spec = spec
	if f.err != nil || question != "Q?" {
		return f.err
	}
	g.ApplyReplay([]evidence.ReplayResult{{Claim: "c1", Outcome: evidence.ReplayTampered, Detail: "x"}})
	return nil
}

func TestSubmissionIsReplayedAndWhatWasFoundIsStored(t *testing.T) {
	t.Parallel()
	r := newRig(t, cellReply("submit"))
	f := &fakeReplayer{}
	r.runner.Replay = f
	got := r.run(t)
	require.Equal(t, trajectory.Submitted, got.Termination)
	require.Equal(t, 1, f.calls)
	require.Equal(t, got.Seed, f.spec.Seed)
	require.False(t, *got.Graph.Grounding[0].Replayed)
	require.Contains(t, got.Flags, "tampered:c1")
}

func TestReplayThatCannotRunEndsTheAttemptForOurReasons(t *testing.T) {
	t.Parallel()
	r := newRig(t, cellReply("submit"))
	r.runner.Replay = &fakeReplayer{err: errors.New("no capacity")}
	got := r.run(t)
	require.Equal(t, trajectory.SandboxLost, got.Termination)
	require.Equal(t, "replay: no capacity", got.Error)
	require.Nil(t, got.Graph.Grounding[0].Replayed)
}

func TestOnlySubmissionsAreReplayed(t *testing.T) {
	t.Parallel()
	r := newRig(t, cellReply("x"), reply{text: "Done."})
	f := &fakeReplayer{}
	r.runner.Replay = f
	require.Equal(t, trajectory.NoSubmission, r.run(t).Termination)
	require.Zero(t, f.calls)
}
