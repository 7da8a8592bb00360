package leader

import (
	"context"
	"maps"
	"slices"
)

// Progress is a snapshot of a run.
type Progress struct {
	Run            string
	Prompts        int
	Groups         int
	BatchesWritten int
	Complete       bool
	Ledger         Ledger
	Policy         PolicyState
	// FilteredByValue counts filtered groups by the metric's one value, ClosedByReason all groups
	// that left undelivered.
	FilteredByValue map[string]int
	ClosedByReason  map[string]int
	CommittedStep   int64
}

// Progress takes a snapshot; the leases are asked for now.
func (l *Leader) Progress(ctx context.Context) (Progress, error) {
	// Leases first: a group that leaves in between is then known as closed and not counted twice.
	leases, err := l.deps.Streams.OpenLeases(ctx)
	if err != nil {
		return Progress{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return Progress{
		Run: l.cfg.Run, Prompts: len(l.books.prompts), Groups: len(l.books.sizes),
		BatchesWritten: len(l.books.batches), Complete: l.books.complete(), Ledger: l.books.ledger(leases),
		Policy: l.books.policy, FilteredByValue: maps.Clone(l.books.byValue), ClosedByReason: maps.Clone(l.books.byReason),
		CommittedStep: l.books.commit,
	}, nil
}

// Batch returns the record of a sequence number, counted from 1.
func (l *Leader) Batch(sequence int64) (BatchRecord, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if sequence < 1 || sequence > int64(len(l.books.batches)) {
		return BatchRecord{}, false
	}
	return l.books.batches[sequence-1], true
}

// Batches returns all records.
func (l *Leader) Batches() []BatchRecord {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.books.batches)
}

// Changed returns a channel that is closed at the next change. Take it before looking.
func (l *Leader) Changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

// Complete reports whether the input ended and every dispatched rollout has left.
func (l *Leader) Complete() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.books.complete()
}

// Knows reports whether a prompt was admitted already.
func (l *Leader) Knows(promptID string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.books.prompts[promptID]
}
