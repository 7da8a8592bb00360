// Package sandbox runs a trajectory's cells in a persistent, isolated Python session.
//
// Nothing that comes out of a session is trusted: frames are bounded and parsed strictly, the
// outcome of a cell is a status and never a Go error, and an error means that we failed.
package sandbox

import (
	"context"
	"time"

	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/trajectory"
)

// Host answers a running cell. Calls come one at a time, in the order in which the cell makes
// them; a Completed for statement i precedes every call made by statement i+1.
type Host interface {
	// Completed reports that a top-level statement ended without an exception.
	Completed(evidence.Report)
	// Bind, Infer and Submit return the claim id, or a refusal that the cell sees as ValueError.
	Bind(evidence.BindRequest) (claimID, text string, refusal *evidence.Refusal)
	Infer(evidence.InferRequest) (claimID, text string, refusal *evidence.Refusal)
	Submit(evidence.SubmitRequest) *evidence.Refusal
	// Taint reports a denied construct that the session noticed at run time.
	Taint(statement int, construct string)
}

// Result is the outcome of one cell.
type Result struct {
	Status trajectory.CellStatus
	// Output is stdout and stderr as the model sees it: capped (head and tail, total stated),
	// valid UTF-8, without ANSI sequences, carriage returns collapsed.
	Output string
	// Traceback shows the cell's own lines only, or says what ended the session; empty unless the
	// cell raised or the session ended.
	Traceback string
	// Exception is the exception's type name, e.g. KeyError.
	Exception string
	// Environment lists the names that the model made, sorted by name.
	Environment []Variable
	// Statements and Completed count top-level statements.
	Statements, Completed int
	// NamespaceLost: the session is gone; the next cell would need a new one.
	NamespaceLost bool
	// LateBytes counts what threads and tasks of earlier cells printed during this one; it is dropped.
	LateBytes int64
	// WallS and CPUS are the cell's own seconds.
	WallS, CPUS float64
}

// Variable describes one name of the namespace.
type Variable struct {
	Name string `json:"name"`
	Type string `json:"type"`
	// Shape is e.g. "(715, 12)" for arrays and frames, or the length of a container.
	Shape string `json:"shape,omitempty"`
	// Value is a short repr (at most 80 characters) for scalars, short strings and claims.
	Value string `json:"value,omitempty"`
}

// Spec says what a session gets.
type Spec struct {
	// Files maps names in the data directory to paths on the host; mounted read-only.
	Files map[string]string
	// Seed seeds random and numpy.
	Seed int64
	// Clock is what the session's wall clock shows: it stands still but for time.sleep. The zero
	// time is Config.Clock, else the real clock. What measures time, not tells it (time.monotonic), stays real.
	Clock time.Time
}

// Session is one persistent Python namespace. It is used by one goroutine at a time.
type Session interface {
	// Run executes a cell. The error is ours (sandbox lost, canceled), never the model's.
	Run(ctx context.Context, code string, host Host) (Result, error)
	// Close kills the session and frees all it held. It is idempotent.
	Close() error
}

// Provider starts sessions.
type Provider interface {
	Start(ctx context.Context, spec Spec) (Session, error)
}
