// Package feed serves batches to trainers over gRPC (RolloutService).
//
// Invariants. A cursor gets every batch after its acknowledged one, in sequence order, byte for byte as
// stored. A batch is served again until it is acknowledged and never after. Whatever interrupts a
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
	// Epoch is the epoch of the leader that wrote it.
	Epoch int64
}

// Batches is the log of batches. Safe for concurrent use.
type Batches interface {
	// Next returns batch seq (at least 1). It waits until the batch exists; ok is false when the run is
	// complete without it. It returns the context's error when the context ends first.
	Next(ctx context.Context, seq int64) (b Batch, ok bool, err error)
	// Last is the newest sequence number, 0 before the first batch.
	Last(ctx context.Context) (int64, error)
}

// Objects opens stored objects. *blob.Store is one. Safe for concurrent use.
type Objects interface {
	// ReadRange opens length bytes from offset. The caller closes it. A missing object is
	// blob.ErrNotFound; any other error counts as passing.
	ReadRange(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error)
}

// Cursors stores how far each consumer is. Safe for concurrent use.
type Cursors interface {
	// Acknowledged is the last acknowledged sequence number, 0 for a cursor that is not known.
	Acknowledged(ctx context.Context, cursor string) (int64, error)
	// Acknowledge moves a cursor forward, creating it if needed, and returns where it stands then.
	// It never moves a cursor back, also when two calls race.
	Acknowledge(ctx context.Context, cursor string, seq, trainerStep int64) (int64, error)
}

// Ledger counts rollouts by where they went.
type Ledger struct {
	Dispatched, Delivered, Filtered, Stale, Unscored, Failed, SetAside, InFlight int64
}

// Status is the progress of a run.
type Status struct {
	Run string
	// Prompts counts all prompts, Backlog those that are not dispatched yet.
	Prompts, Backlog                    int64
	Ledger                              Ledger
	BatchesWritten, BatchesAcknowledged int64
	// Complete: no batch will follow.
	Complete bool
	Policy   Policy
	// CommittedStep is the newest checkpoint step that the trainer committed.
	CommittedStep int64
	// ClosedByReason counts groups that left undelivered, FilteredByValue filtered ones by value.
	ClosedByReason, FilteredByValue map[string]int64
}

// Submission is one prompt that a trainer hands over, with its reference answer if it has one.
type Submission struct {
	Prompt    task.Prompt
	Reference *task.Reference
	Validate  bool
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
	// Control takes orders; nil means that this run takes none.
	Control Control
}
