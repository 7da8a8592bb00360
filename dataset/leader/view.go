package leader

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"
)

// loopView is what the loop holds, copied for those who look from outside.
type loopView struct {
	pool     int
	buffered []bufferedView
	stalled  string
	hold     string // the straggler that a batch is held back for
}

type bufferedView struct {
	oldest   int64
	validate bool
}

// looked renews the view.
func (l *Leader) looked() {
	v := loopView{pool: l.pool.count, hold: l.hold}
	for _, s := range l.buffer {
		v.buffered = append(v.buffered, bufferedView{s.oldest, s.kind.validate})
	}
	if l.stalled != nil {
		v.stalled = l.stalled.Error()
	}
	l.update(func(*books) { l.view = v })
}

// Waiting is one kind of thing that waits, how many there are, and what for.
type Waiting struct {
	What  string `json:"what"`
	Count int    `json:"count"`
	For   string `json:"for"`
}

// Length counts rollouts by outcome whose group's longest response fits into UpTo tokens.
type Length struct {
	UpTo     int      `json:"up_to"`
	Outcomes Outcomes `json:"outcomes"`
}

// Progress is a snapshot of a run.
type Progress struct {
	Run            string
	Prompts        int
	Groups         int
	BatchesWritten int
	Complete       bool
	Ledger         Ledger
	Policy         Policy
	// Reasons counts rollouts that were not delivered, by reason and by the value that did not vary.
	Reasons map[string]int
	Lengths []Length
	// Ages counts training batches by their age in versions: the version that they are trained at less
	// their oldest.
	Ages map[int64]int
	// RoundsUsedUp counts how often max_rounds went by without a full batch.
	RoundsUsedUp int
	// PerSecond is the rate of delivered rollouts over the last minute.
	PerSecond float64
	// Unscored is the share of rollouts that left without a verdict, among those that were looked at.
	UnscoredShare float64
	Waiting       []Waiting
	Committed     int64
	// Dropped counts batches that a restore took back.
	Dropped int
}

// Progress takes a snapshot; the leases are asked for now.
func (l *Leader) Progress(ctx context.Context) (Progress, error) {
	// Leases first: a group that leaves in between is then known as closed and not counted twice.
	leases, err := l.deps.Streams.OpenLeases(ctx)
	if err != nil {
		return Progress{}, err
	}
	now := l.deps.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.books
	p := Progress{
		Run: l.cfg.Run, Prompts: len(b.latest), Groups: len(b.all),
		BatchesWritten: len(b.batches), Complete: b.complete(), Ledger: b.ledger(leases), Policy: b.policy,
		Reasons: maps.Clone(b.reasons), RoundsUsedUp: b.usedUp, PerSecond: l.rates.perSecond(now),
		Committed: b.committed, Dropped: len(b.dropped), Ages: map[int64]int{}, Waiting: l.waiting(now),
	}
	if seen := b.total[Delivered] + b.total[Filtered] + b.total[Stale] + b.total[Unscored]; seen > 0 {
		p.UnscoredShare = float64(b.total[Unscored]) / float64(seen)
	}
	for _, r := range b.batches {
		if !r.Validate && !b.dropped[r.Sequence] {
			p.Ages[r.PolicyVersion-r.PolicyVersionMin]++
		}
	}
	for up, o := range b.lengths {
		p.Lengths = append(p.Lengths, Length{up, maps.Clone(o)})
	}
	slices.SortFunc(p.Lengths, func(a, b Length) int { return cmp.Compare(a.UpTo, b.UpTo) })
	return p, nil
}

// waiting says what each thing waits for. The caller holds mu.
func (l *Leader) waiting(now time.Time) []Waiting {
	var out []Waiting
	add := func(n int, what, format string, args ...any) {
		if n > 0 {
			out = append(out, Waiting{what, n, fmt.Sprintf(format, args...)})
		}
	}
	b := l.books
	train, valid := 0, 0
	for _, s := range l.view.buffered {
		if s.validate {
			valid++
		} else {
			train++
		}
	}
	load, at := b.load(train), b.now()
	add(l.view.pool+len(b.again), "prompts", "%s", l.admissionWaits(load))
	add(load.running, "groups in work", "their rollouts and scores")
	switch {
	case l.view.stalled != "": // also when the first group could not be kept
		add(max(train, 1), "good groups", "the store: %s", l.view.stalled)
	case l.dry(load):
		add(1, "next batch", "prompts: %d of its %d groups are there, no prompt waits and the input has not ended", train, l.cfg.BatchGroups)
	case !l.cfg.mayNumber(at):
		add(train, "good groups", "the trainer: %d batches are ahead of its policy version %d", at.pending, at.version)
	case l.view.hold != "":
		add(train, "good groups", "dispatch %s, which would grow too old", l.view.hold)
	default:
		add(train, "good groups", "%d more for a batch of %d", max(l.cfg.BatchGroups-train%l.cfg.BatchGroups, 0), l.cfg.BatchGroups)
	}
	add(valid, "validation groups", "the other validation prompts")
	return out
}

// dry: the stream has no prompt left that could fill its next batch. A run that is only asked for groups needs none.
func (l *Leader) dry(ld load) bool {
	b := l.books
	asked := len(b.requests) > 0 && len(b.latest) == 0
	return !b.ended && !asked && ld.running == 0 && l.view.pool+len(b.again) == 0 && ld.buffered < l.cfg.BatchGroups
}

func (l *Leader) admissionWaits(ld load) string {
	switch {
	case l.books.policy.Paused:
		return "the trainer, which paused dispatching"
	case l.cfg.losing(&l.books.losses) && ld.running > 0:
		return fmt.Sprintf("the group in work: %s (max_lost %g)", &l.books.losses, l.cfg.MaxLost)
	case l.cfg.MaxGroups <= ld.open:
		return fmt.Sprintf("one of %d groups to leave (max_groups)", l.cfg.MaxGroups)
	case l.cfg.capacity(ld) == 0:
		return fmt.Sprintf("the trainer's next version (max_staleness %d: %d running, %d good, %d batches ahead of it)",
			l.cfg.MaxStaleness, ld.running, ld.buffered, ld.pending)
	}
	return "their dispatch"
}

// Batch returns the record of a sequence number, counted from 1. dropped: a restore took it back.
func (l *Leader) Batch(sequence int64) (r BatchRecord, dropped, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if sequence < 1 || sequence > int64(len(l.books.batches)) {
		return BatchRecord{}, false, false
	}
	return l.books.batches[sequence-1], l.books.dropped[sequence], true
}

// Committed is the last batch that a commit freed.
func (l *Leader) Committed() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.books.committed
}

// Batches returns all records.
func (l *Leader) Batches() []BatchRecord {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.books.batches)
}

// Last is the newest sequence number, 0 before the first batch.
func (l *Leader) Last() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return int64(len(l.books.batches))
}

// Changed returns a channel that is closed at the next change. Take it before looking.
func (l *Leader) Changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

// Stopped is closed when Run has ended.
func (l *Leader) Stopped() <-chan struct{} { return l.stopped }

// Complete reports whether the input ended and every dispatched rollout has left.
func (l *Leader) Complete() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.books.complete()
}

// Ended reports whether no more prompts will come.
func (l *Leader) Ended() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.books.ended
}

// Knows reports whether a prompt was admitted already.
func (l *Leader) Knows(promptID string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.books.latest[promptID] != nil
}

// Backlog is the number of prompts that wait for their dispatch.
func (l *Leader) Backlog() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.view.pool + len(l.books.again)
}

// MaxBacklog is the configured bound of Backlog.
func (l *Leader) MaxBacklog() int { return l.cfg.MaxBacklog }
