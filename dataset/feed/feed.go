// Package feed serves batches to trainers over gRPC (RolloutService).
//
// Invariants. A cursor gets every batch of a kind after its acknowledged one, in sequence order, byte for
// byte as stored, but for those that a restore took back. A batch is served again until it is acknowledged and never
// after, unless the trainer restores an earlier checkpoint. A reader that takes nothing holds one chunk and
// is dropped after a while; others do not wait for it. Whatever interrupts a
// stream, the client goes on from the offset that it reached. When the server stops, open streams end
// with UNAVAILABLE and not with a clean end, which means that the run is complete.
package feed

import (
	"context"
	"io"

	"github.com/verigraph/verigraph/task"
)

// TrainerCursor is the cursor of a request that names none. It drives the ledger.
const TrainerCursor = "trainer"

// Batch is the record of one written batch.
type Batch struct {
	// Sequence counts from 1 without gaps.
	Sequence int64
	// Object names the Parquet object, Size is its bytes and SHA256 its lower-case hex digest.
	Object           string
	Size             int64
	SHA256           string
	Groups           int
	Rollouts         int
	Rows             int
	PolicyVersionMin int64
	PolicyVersionMax int64
	// PolicyVersion is the one that it is trained at if every batch before it makes one.
	PolicyVersion int64
	Validate      bool
	// Epoch is the epoch of the leader that wrote it.
	Epoch int64
}

// Kind selects batches.
type Kind int

// Kinds.
const (
	Train Kind = iota
	Validate
	All
)

// Takes reports whether a batch is of the kind.
func (k Kind) Takes(validate bool) bool { return k == All || validate == (k == Validate) }

// Batches is the log of batches. Safe for concurrent use.
type Batches interface {
	// Next returns the first batch of a kind from seq (at least 1) on that no restore took back. It waits
	// until there is one; ok is false when the run is complete without it. It returns the context's error
	// when the context ends first.
	Next(ctx context.Context, seq int64, kind Kind) (b Batch, ok bool, err error)
	// Last is the newest sequence number, 0 before the first batch.
	Last(ctx context.Context) (int64, error)
	// Freed is the last batch whose object a commit may have deleted.
	Freed(ctx context.Context) (int64, error)
}

// Objects opens stored objects. *blob.Store is one. Safe for concurrent use.
type Objects interface {
	// ReadRange opens length bytes from offset. The caller closes it. A missing object is
	// blob.ErrNotFound; any other error counts as passing.
	ReadRange(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error)
}

// Cursors stores where each consumer stands. Safe for concurrent use.
type Cursors interface {
	// Position is where a cursor stands now, whoever moved it; one that is not known stands at the beginning.
	Position(ctx context.Context, cursor string) (Position, error)
	// Change replaces a position by what f makes of it, also when two calls race (f is then called again),
	// and returns what stands afterwards. An error of f changes nothing.
	Change(ctx context.Context, cursor string, f func(Position) (Position, error)) (Position, error)
}

// Policy is what a trainer says about its policy.
type Policy struct {
	Version, Incarnation int64
	Endpoints            []string
	Paused               bool
}

// Asked is one group of a request.
type Asked struct {
	// UID is the trainer's name of the group.
	UID        string
	Submission Submission
	Rollouts   int
}

// Group is how a requested group ended. Object is empty when it has no rows.
type Group struct {
	Object   string
	Size     int64
	SHA256   string
	Rows     int
	Reason   string
	Replaced bool
}

// Aside is a group that was set aside.
type Aside struct {
	Dispatch, Stage, Reason string
	Deliveries              int
}

// Control is the trainer's control over a run. Safe for concurrent use. Refusals wrap ErrInvalid,
// ErrIncarnation or ErrNotLeading.
type Control interface {
	// Commit frees what a checkpoint that holds every batch up to sequence no longer needs.
	Commit(ctx context.Context, step, sequence int64) (freed int, err error)
	// SetPolicy takes a new version; acknowledged is the last batch that it was trained on.
	SetPolicy(ctx context.Context, p Policy, acknowledged int64) error
	// Restore goes back to a checkpoint that holds every batch up to base. mode is regenerate, replay or
	// empty for the run's own; it returns the batches that were taken back.
	Restore(ctx context.Context, step, base int64, p Policy, mode string) (dropped []int64, err error)
	// Request dispatches groups at once and returns their dispatches.
	Request(ctx context.Context, asked []Asked) (dispatches []string, err error)
	// Ended waits until one of the dispatches has ended, and returns its index and how.
	Ended(ctx context.Context, dispatches []string) (int, Group, error)
	// Sent says that a group's rows have arrived.
	Sent(ctx context.Context, dispatch string)
	SetAside(ctx context.Context) ([]Aside, error)
	Requeue(ctx context.Context, dispatch string) error
}

// Ledger counts rollouts by where they went.
type Ledger struct {
	Dispatched, Delivered, Filtered, Stale, Unscored, Failed, SetAside, InFlight int64
}

// Status is the progress of a run.
type Status struct {
	Run string
	// Prompts counts all prompts, Backlog those that are not dispatched yet.
	// Groups counts dispatches.
	Prompts, Backlog, Groups            int64
	Ledger                              Ledger
	BatchesWritten, BatchesAcknowledged int64
	// BatchesCommitted is the last batch of a committed checkpoint, BatchesDropped counts those that a
	// restore took back.
	BatchesCommitted, BatchesDropped int64
	Policy                           Policy
	// Reasons counts rollouts that were not delivered; Ages training batches by age in versions.
	Reasons            map[string]int64
	Lengths            []LengthClass
	Ages               map[int64]int64
	DeliveredPerSecond float64
	UnscoredShare      float64
	RoundsUsedUp       int64
	Waiting            []Waiting
	// Unaccounted is what the ledger cannot explain.
	Unaccounted int64
	// Complete: no batch will follow.
	Complete bool
}

// LengthClass counts rollouts whose group's longest response fits into UpTo tokens.
type LengthClass struct {
	UpTo     int64
	Outcomes map[string]int64
}

// Waiting is one kind of thing that waits.
type Waiting struct {
	What   string
	Count  int64
	Reason string
}

// Submission is one prompt that a trainer hands over, with its reference answer if it has one.
type Submission struct {
	Prompt    task.Prompt
	Reference *task.Reference
	Validate  bool
	Priority  int
}

// Source is what a Server serves. Status and Submit are safe for concurrent use.
type Source struct {
	Batches Batches
	Objects Objects
	Cursors Cursors
	Status  func(ctx context.Context) (Status, error)
	// Submit queues prompts and returns how many were new; final says that no more will come. nil means
	// that this run takes no prompts from a trainer. ErrFull and ErrClosed are its typed refusals.
	Submit func(ctx context.Context, prompts []Submission, final bool) (accepted int, err error)
	// Control may be nil: the run then serves batches and takes no orders.
	Control Control
}
