package jetstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/verigraph/verigraph/blob"
)

// Journal is the log of one rollout, on a subject of its own. It has one writer at a time: opening
// appends an entry, so that the writer before finds another last sequence at its next write.
//
// It is read by subject alone (a direct read of the last entry, a consumer with the subject as filter),
// so that a user's permissions can keep it to one run.
type Journal[T any] struct {
	bus    *Bus
	subj   string
	writer string
	n      int
	last   uint64
}

// journalEntry numbers entries from 0 without a gap, so that a log that lost its beginning is found.
type journalEntry[T any] struct {
	Writer string `json:"writer"`
	N      int    `json:"n"`
	Value  *T     `json:"value,omitempty"` // none: a writer took over
}

const (
	// appendWait is when an append that was not answered is sent again.
	appendWait = 5 * time.Second
	// journalPatience is longer than a cluster takes to find a new leader; then the group is given back.
	journalPatience = 2 * time.Minute
	retryEvery      = 200 * time.Millisecond
	// freedFor is how long a freed journal refuses a writer that slept through it.
	freedFor    = time.Hour
	freedHeader = "Verigraph-Freed"
)

// OpenJournal takes the journal of a rollout over and gives its entries. It waits a while for a broker
// that is away.
func OpenJournal[T any](ctx context.Context, b *Bus, run, dispatch string, sample int) (*Journal[T], []T, error) {
	j := &Journal[T]{bus: b, subj: subject(run, JournalStream, dispatch+"."+strconv.Itoa(sample)), writer: nuid.Next()}
	for begun := time.Now(); ; {
		values, err := j.load(ctx)
		if err == nil {
			err = j.append(ctx, nil)
		}
		if err == nil {
			return j, values, nil
		}
		if ctx.Err() != nil || time.Since(begun) > journalPatience {
			return nil, nil, fmt.Errorf("nats: open %s: %w", j.subj, err)
		}
		// Another writer was faster, or a copy was behind: read again.
		if err := wait(ctx, retryEvery/4); err != nil {
			return nil, nil, fmt.Errorf("nats: open %s: %w", j.subj, err)
		}
	}
}

// ReadJournal reads the journal of a rollout without taking it over.
func ReadJournal[T any](ctx context.Context, b *Bus, run, dispatch string, sample int) ([]T, error) {
	j := &Journal[T]{bus: b, subj: subject(run, JournalStream, dispatch+"."+strconv.Itoa(sample))}
	return j.load(ctx)
}

// Append adds a value durably. It fails with ErrFenced when another writer took over, and waits a while
// for a broker that is away.
func (j *Journal[T]) Append(ctx context.Context, v T) error { return j.append(ctx, &v) }

func (j *Journal[T]) append(ctx context.Context, v *T) error {
	for begun := time.Now(); ; {
		err := j.try(ctx, v)
		switch {
		case err == nil || errors.Is(err, ErrFenced):
			return err
		case ctx.Err() != nil || time.Since(begun) > journalPatience:
			return fmt.Errorf("nats: append %s: %w", j.subj, err)
		}
		if err := wait(ctx, retryEvery); err != nil {
			return fmt.Errorf("nats: append %s: %w", j.subj, err)
		}
	}
}

func (j *Journal[T]) try(ctx context.Context, v *T) error {
	msg, err := j.bus.message(ctx, j.subj, journalEntry[T]{j.writer, j.n, v})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, appendWait)
	defer cancel()
	ack, err := j.bus.js.PublishMsg(ctx, msg, jetstream.WithExpectLastSequencePerSubject(j.last))
	switch {
	case err == nil:
		j.last, j.n = ack.Sequence, j.n+1
		return nil
	case !isWrongSequence(err):
		return err
	}
	// Perhaps it is this very entry, whose answer was lost, or another one on its way that came to nothing.
	m, seq, err := j.bus.lastOf(ctx, JournalStream, j.subj)
	if err != nil {
		return err
	}
	if seq <= j.last && !(m == nil && j.last > 0) {
		return fmt.Errorf("nats: %s: sequence %d is not the last one yet", j.subj, j.last)
	}
	if m != nil && m.Header.Get(freedHeader) == "" {
		var e journalEntry[T]
		if err := j.bus.decode(ctx, m.Header, m.Data, &e); err != nil {
			return err
		}
		if e.Writer == j.writer && e.N == j.n {
			j.last, j.n = seq, j.n+1
			return nil
		}
	}
	return fmt.Errorf("nats: %s: %w", j.subj, ErrFenced)
}

// load reads the journal. One that lost its beginning, or a part of it, is begun anew.
func (j *Journal[T]) load(ctx context.Context) ([]T, error) {
	m, last, err := j.bus.lastOf(ctx, JournalStream, j.subj)
	if err != nil {
		return nil, err
	}
	j.last, j.n = last, 0
	if m == nil || m.Header.Get(freedHeader) != "" {
		return nil, nil
	}
	msgs, err := j.bus.all(ctx, JournalStream, j.subj, last)
	if err != nil {
		return nil, err
	}
	var values []T
	for _, m := range msgs {
		if m.Headers().Get(freedHeader) != "" { // it stands before what was written since
			continue
		}
		var e journalEntry[T]
		err := j.bus.decode(ctx, m.Headers(), m.Data(), &e)
		if errors.Is(err, blob.ErrNotFound) || err == nil && e.N != j.n {
			if j.writer == "" {
				return values, nil
			}
			return nil, j.bus.free(ctx, j.subj) // and read again
		}
		if err != nil {
			return nil, err
		}
		if e.Value != nil {
			values = append(values, *e.Value)
		}
		j.n++
	}
	return values, nil
}

// FreeJournals frees the journals of a group of so many rollouts.
func (b *Bus) FreeJournals(ctx context.Context, run, dispatch string, rollouts int) error {
	for sample := range rollouts {
		if err := b.free(ctx, subject(run, JournalStream, dispatch+"."+strconv.Itoa(sample))); err != nil {
			return err
		}
	}
	return b.blobs.DeleteAll(ctx, journalPartsOf(run, dispatch))
}

// free takes the place of all entries of a journal, for a while.
func (b *Bus) free(ctx context.Context, subj string) error {
	msg := nats.NewMsg(subj)
	msg.Header.Set(freedHeader, "1")
	msg.Header.Set(jetstream.MsgRollup, jetstream.MsgRollupSubject)
	if _, err := b.js.PublishMsg(ctx, msg, jetstream.WithMsgTTL(freedFor)); err != nil {
		return fmt.Errorf("nats: free %s: %w", subj, err)
	}
	return nil
}

// PurgeJournals removes what workers that died left of a group's journals.
func (b *Bus) PurgeJournals(ctx context.Context, run, dispatch string) error {
	return b.purge(ctx, JournalStream, subject(run, JournalStream, dispatch+".*"))
}

// Holds reports whether a queue still holds a message: one that was acked is gone. It waits a while for a broker that
// is away: who just took the message has no other way on.
func (b *Bus) Holds(ctx context.Context, stream, run, key string) (bool, error) {
	for begun := time.Now(); ; {
		m, _, err := b.lastOf(ctx, stream, subject(run, stream, key))
		if err == nil || ctx.Err() != nil || time.Since(begun) > journalPatience {
			return m != nil, err
		}
		if err := wait(ctx, retryEvery); err != nil {
			return false, fmt.Errorf("nats: read %s %s: %w", stream, key, err)
		}
	}
}

// lastOf reads the last message of a subject directly, nil where there is none.
func (b *Bus) lastOf(ctx context.Context, stream, subj string) (*nats.Msg, uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, appendWait)
	defer cancel()
	m, err := b.nc.RequestWithContext(ctx, "$JS.API.DIRECT.GET."+stream+"."+subj, nil)
	if err != nil {
		return nil, 0, fmt.Errorf("nats: read %s: %w", subj, err)
	}
	switch status := m.Header.Get("Status"); {
	case status == "404":
		return nil, 0, nil
	case status != "":
		return nil, 0, fmt.Errorf("nats: read %s: %s %s", subj, status, m.Header.Get("Description"))
	}
	seq, err := strconv.ParseUint(m.Header.Get(jetstream.SequenceHeader), 10, 64)
	if err != nil {
		return nil, 0, fmt.Errorf("nats: read %s: %w", subj, err)
	}
	return m, seq, nil
}

// all reads a subject's messages up to a sequence.
func (b *Bus) all(ctx context.Context, stream, subj string, upTo uint64) (out []jetstream.Msg, err error) {
	c, err := b.js.CreateConsumer(ctx, stream, jetstream.ConsumerConfig{
		Name: nuid.Next(), FilterSubject: subj, AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, Replicas: 1,
		InactiveThreshold: 5 * time.Second, // it goes by itself: one right less for the worker
	})
	if err != nil {
		return nil, fmt.Errorf("nats: read %s: %w", subj, err)
	}
	for {
		batch, err := c.Fetch(max(1, int(c.CachedInfo().NumPending)-len(out)), jetstream.FetchMaxWait(appendWait))
		if err != nil {
			return nil, fmt.Errorf("nats: read %s: %w", subj, err)
		}
		got := slices.Collect(chanSeq(batch.Messages()))
		out = append(out, got...)
		if len(got) == 0 {
			return nil, fmt.Errorf("nats: read %s: %d messages came, not up to sequence %d", subj, len(out), upTo)
		}
		meta, err := got[len(got)-1].Metadata()
		if err != nil {
			return nil, fmt.Errorf("nats: read %s: %w", subj, err)
		}
		if meta.Sequence.Stream >= upTo {
			return out, nil
		}
	}
}

func chanSeq[T any](c <-chan T) func(yield func(T) bool) {
	return func(yield func(T) bool) {
		for v := range c {
			if !yield(v) {
				return
			}
		}
	}
}

// journalPartsOf is where the parts of a group's journals lie.
func journalPartsOf(run, dispatch string) string { return partsOf(run, dispatch) + "journal/" }

// partsOfSubject is where the parts of a message lie.
func partsOfSubject(subj string) string {
	tokens := strings.SplitN(subj, ".", 4)
	if tokens[2] == stages[JournalStream] {
		dispatch, _, _ := strings.Cut(tokens[3], ".")
		return journalPartsOf(tokens[1], dispatch)
	}
	return partsOf(tokens[1], tokens[3])
}
