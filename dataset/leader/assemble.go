package leader

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"go.uber.org/zap"

	"github.com/verigraph/verigraph/dataset"
	"github.com/verigraph/verigraph/dataset/dispatch"
	"github.com/verigraph/verigraph/trajectory"
)

// take archives a scored group and buffers it, or closes it when it cannot be delivered.
func (l *Leader) take(ctx context.Context, h Held[trajectory.ScoredGroup]) error {
	id := h.Value.Group.Dispatch.ID
	l.mu.Lock()
	_, left := l.books.closed[id]
	_, admitted := l.books.sizes[id]
	l.mu.Unlock()
	if left || !admitted || l.buffered(id) {
		return h.Ack(ctx) // a repeat: our record decides, not the broker's window
	}
	if err := l.deps.Archive(h.Value); err != nil {
		return err
	}
	_, err := dataset.Rows(h.Value, 0, l.rowOptions())
	var few *dataset.TooFewValidError
	var row *dataset.RowError
	outcomes := outcomesOf(h.Value.Scores)
	switch {
	case errors.As(err, &few), errors.As(err, &row):
		l.deps.Log.Warn("group failed", zap.String("dispatch", id), zap.Error(err))
		return l.drop(ctx, h, Event{Outcomes: undelivered(outcomes, Failed), Reason: err.Error()})
	case err != nil:
		return err
	}
	if l.cfg.Filter.Enabled && !h.Value.Group.Dispatch.Validate {
		if value, same := l.cfg.Filter.Same(h.Value.Scores); same {
			return l.drop(ctx, h, Event{Outcomes: undelivered(outcomes, Filtered), Reason: "no variance", Value: value})
		}
	}
	l.buffer = append(l.buffer, h)
	return nil
}

// drop closes a group that is not delivered.
func (l *Leader) drop(ctx context.Context, h Held[trajectory.ScoredGroup], e Event) error {
	e.Kind, e.Dispatch = Closed, h.Value.Group.Dispatch.ID
	if err := l.record(ctx, e); err != nil {
		return err
	}
	return h.Ack(ctx)
}

func (l *Leader) buffered(id string) bool {
	return slices.ContainsFunc(l.buffer, func(h Held[trajectory.ScoredGroup]) bool { return h.Value.Group.Dispatch.ID == id })
}

func (l *Leader) rowOptions() dataset.RowOptions {
	return dataset.RowOptions{Limits: l.cfg.Limits, MinValid: l.cfg.MinValid, FillLost: l.cfg.FillLost}
}

// ship sweeps groups that became too old, then writes full batches, oldest groups first, and partial
// ones when nothing else can arrive or the filter's rounds are used up.
func (l *Leader) ship(ctx context.Context) error {
	if err := l.sweep(ctx); err != nil {
		return err
	}
	for {
		batch := l.nextBatch()
		if len(batch) == 0 {
			return l.roundsSpent(ctx)
		}
		if err := l.write(ctx, batch); err != nil {
			return err
		}
	}
}

// sweep closes buffered groups that the trainer has left behind.
func (l *Leader) sweep(ctx context.Context) error {
	current := l.Policy().Version
	var kept []Held[trajectory.ScoredGroup]
	for i, h := range l.buffer {
		if h.Value.Group.Dispatch.Validate || !l.cfg.TooOld(oldestVersion(h.Value.Group), current) {
			kept = append(kept, h)
			continue
		}
		e := Event{Outcomes: undelivered(outcomesOf(h.Value.Scores), Stale), Reason: "stale"}
		if err := l.drop(ctx, h, e); err != nil {
			l.buffer = append(kept, l.buffer[i:]...)
			return err
		}
	}
	l.buffer = kept
	return nil
}

// oldestVersion is the oldest version under which a token of the group was sampled.
func oldestVersion(g trajectory.Group) int64 {
	oldest := int64(-1)
	for _, t := range g.Trajectories {
		for _, seg := range t.Segments {
			for _, sp := range seg.Spans {
				if sp.Kind == trajectory.SpanSampled && (oldest < 0 || sp.PolicyVersion < oldest) {
					oldest = sp.PolicyVersion
				}
			}
		}
	}
	return max(oldest, 0)
}

// kind is what all groups of a batch share.
type kind struct {
	meta     dataset.Meta
	validate bool
}

// nextBatch chooses the groups of the next batch, or none. What holds for a whole batch (model,
// tokenizer, reward preset) is equal in all its groups, and validation stays apart.
func (l *Leader) nextBatch() []Held[trajectory.ScoredGroup] {
	alike := map[kind][]Held[trajectory.ScoredGroup]{}
	var order []kind
	for _, h := range l.buffer {
		k := kind{l.meta(h), h.Value.Group.Dispatch.Validate}
		if len(alike[k]) == 0 {
			order = append(order, k)
		}
		if alike[k] = append(alike[k], h); len(alike[k]) == l.cfg.BatchGroups {
			return alike[k]
		}
	}
	for _, k := range order {
		if l.nothingElse(k) {
			return alike[k]
		}
	}
	return nil
}

// nothingElse: no open group can still join the buffered ones of a kind, or none may.
func (l *Leader) nothingElse(k kind) bool {
	training, validation := 0, 0
	for _, h := range l.buffer {
		if h.Value.Group.Dispatch.Validate {
			validation++
		} else {
			training++
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if k.validate {
		return l.books.openValidation() == validation
	}
	if l.books.ended && l.books.openTraining() == training {
		return true
	}
	return l.cfg.Filter.RoundsUsed(l.books.filtered, l.cfg.BatchGroups) && l.cfg.Filter.Exhausted == dispatch.ExhaustedPartial
}

// roundsSpent applies the chosen outcome when the filter used up its rounds and no batch came of it.
func (l *Leader) roundsSpent(ctx context.Context) error {
	l.mu.Lock()
	used := l.cfg.Filter.RoundsUsed(l.books.filtered, l.cfg.BatchGroups)
	filtered := l.books.filtered
	l.mu.Unlock()
	if !used {
		return nil
	}
	l.deps.Log.Warn("filter rounds used up", zap.Int("filtered_groups", filtered), zap.String("outcome", string(l.cfg.Filter.Exhausted)))
	if l.cfg.Filter.Exhausted == dispatch.ExhaustedStop {
		return fmt.Errorf("%w: %d groups without variance since the last batch", ErrStopped, filtered)
	}
	return l.record(ctx, Event{Kind: RoundsSpent})
}

func (l *Leader) meta(h Held[trajectory.ScoredGroup]) dataset.Meta {
	return dataset.MetaOf(h.Value, l.cfg.Limits, l.cfg.Overlong)
}

// write makes a batch exist: first the object, then the record, then the acks.
func (l *Leader) write(ctx context.Context, held []Held[trajectory.ScoredGroup]) error {
	record, data, err := l.encode(held)
	if err != nil {
		return err
	}
	if err := l.deps.Objects.Put(ctx, record.Object, data); err != nil {
		return err
	}
	if err := l.deps.Batches.Append(ctx, record); err != nil {
		return err
	}
	if l.deps.Wrote != nil {
		l.deps.Wrote(record)
	}
	l.update(func(b *books) { b.batch(record) })
	l.deps.Log.Info("batch written", zap.Int64("sequence", record.Sequence), zap.Int("groups", len(held)),
		zap.Int("rows", record.Rows), zap.Int64("bytes", record.Size))
	l.buffer = slices.DeleteFunc(l.buffer, func(h Held[trajectory.ScoredGroup]) bool {
		return slices.ContainsFunc(record.Groups, func(g BatchGroup) bool { return g.Dispatch == h.Value.Group.Dispatch.ID })
	})
	var errs []error
	for _, h := range held { // all of them: each ack also ends the hold on its message
		errs = append(errs, h.Ack(ctx))
	}
	return errors.Join(errs...)
}

func (l *Leader) encode(held []Held[trajectory.ScoredGroup]) (BatchRecord, []byte, error) {
	r := BatchRecord{Epoch: l.deps.Epoch, Policy: l.Policy(), Validate: held[0].Value.Group.Dispatch.Validate}
	l.mu.Lock()
	r.Sequence = int64(len(l.books.batches)) + 1
	l.mu.Unlock()
	r.Object = fmt.Sprintf("batches/%s-e%d-%06d.parquet", l.cfg.Run, r.Epoch, r.Sequence)
	var rows []dataset.Row
	for _, h := range held {
		// row_idx is the rollout's position in the run, whichever batch it lands in.
		d := h.Value.Group.Dispatch
		g, err := dataset.Rows(h.Value, int(d.Index)*d.GroupSize, l.rowOptions())
		if err != nil {
			return r, nil, err
		}
		rows = append(rows, g...)
		r.Groups = append(r.Groups, BatchGroup{Dispatch: d.ID, Outcomes: outcomesOf(h.Value.Scores)})
	}
	r.Rows = len(rows)
	r.PolicyVersionMin, r.PolicyVersionMax = versionRange(rows)
	var buf bytes.Buffer
	if err := l.deps.Encode(&buf, l.meta(held[0]), rows); err != nil {
		return r, nil, err
	}
	sum := sha256.Sum256(buf.Bytes())
	r.Size, r.SHA256 = int64(buf.Len()), hex.EncodeToString(sum[:])
	return r, buf.Bytes(), nil
}

func versionRange(rows []dataset.Row) (low, high int64) {
	for i, row := range rows {
		if i == 0 {
			low, high = row.PolicyVersionMin, row.PolicyVersionMax
		}
		low, high = min(low, row.PolicyVersionMin), max(high, row.PolicyVersionMax)
	}
	return low, high
}

// closeSetAside closes the groups that were set aside since the last look.
func (l *Leader) closeSetAside(ctx context.Context) error {
	aside, err := l.deps.Streams.SetAside(ctx)
	if err != nil {
		return err
	}
	for id := range aside {
		l.mu.Lock()
		n, admitted := l.books.sizes[id]
		_, left := l.books.closed[id]
		l.mu.Unlock()
		if !admitted || left {
			continue
		}
		e := Event{Kind: Closed, Dispatch: id, Outcomes: Outcomes{SetAside: n}, Reason: "set aside"}
		if err := l.record(ctx, e); err != nil {
			return err
		}
	}
	return nil
}
