package rollout

import (
	"context"
	"errors"
	"fmt"

	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/sandbox"
	"github.com/verigraph/verigraph/trajectory"
)

// ReplayMode says which trajectories are run again before they are published.
type ReplayMode string

// Replay modes. A replay costs a session that runs the cells again; with the runs on changed data it
// takes about six times as long as the cells themselves.
const (
	ReplayOff       ReplayMode = "off"
	ReplaySubmitted ReplayMode = "submitted"
)

// Replayer runs the cells of a submitted trajectory again and stores what it finds in the graph. An
// error is ours, and nothing is stored then. Safe for concurrent use.
type Replayer interface {
	Check(ctx context.Context, g *evidence.Export, question string, spec sandbox.Spec) error
}

// replayed is the trajectory after its replay. A replay that could not run ends the attempt for our
// reasons: a cheat must not get around it by breaking it, and nothing is made up in its place.
func (r *run) replayed(ctx context.Context, t trajectory.Trajectory) trajectory.Trajectory {
	if r.Replay == nil || r.Config.Agent != AgentVeriGraph || t.Termination != trajectory.Submitted {
		return t
	}
	limited, cancel := context.WithTimeout(ctx, r.Config.TrajectoryTimeout)
	defer cancel()
	err := r.Replay.Check(limited, &t.Graph, r.dispatch.Prompt.Question, sandbox.Spec{Files: r.files, Seed: r.seed})
	switch {
	case errors.Is(context.Cause(ctx), errStale):
		t.Termination, t.Error = trajectory.Stale, errStale.Error()
	case ctx.Err() != nil:
		t.Termination, t.Error = trajectory.Canceled, ctx.Err().Error()
	case err != nil:
		t.Termination, t.Error = trajectory.SandboxLost, fmt.Sprintf("replay: %v", err)
	}
	t.Flags = flags(&t)
	return t
}
