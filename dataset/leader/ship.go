package leader

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"go.uber.org/zap"

	"github.com/verigraph/verigraph/dataset"
)

// sweep drops the good groups that are too old even for the next batch.
func (l *Leader) sweep(ctx context.Context) error {
	now := read(l, (*books).now)
	for i := 0; i < len(l.buffer); {
		s := l.buffer[i]
		d := read(l, func(b *books) *entry { return b.open[s.id] })
		rolledBack := s.newest > d.bound
		if s.kind.validate || !rolledBack && !l.cfg.stale(s.oldest, now) {
			i++
			continue
		}
		why := "too old"
		if rolledBack {
			why = "of a policy that was rolled back"
		}
		if err := l.closeStale(ctx, s, why); err != nil {
			return err
		}
		l.buffer = slices.Delete(l.buffer, i, i+1)
	}
	return nil
}

// ship writes one batch if there is one to write.
func (l *Leader) ship(ctx context.Context) (bool, error) {
	if l.deps.Now().Before(l.retryAt) {
		return false, nil
	}
	batch := l.nextBatch()
	if len(batch) == 0 {
		return l.usedUp(ctx)
	}
	record, err := l.write(ctx, batch)
	if err != nil || record == nil {
		return false, err
	}
	l.buffer = slices.DeleteFunc(l.buffer, func(s scored) bool {
		return slices.ContainsFunc(batch, func(b scored) bool { return b.id == s.id })
	})
	l.looked()
	return true, nil
}

// nextBatch chooses the groups of the next batch: of one kind, oldest policy version first, then in
// order of dispatch. A batch is full, or partial where nothing could ever fill it.
func (l *Leader) nextBatch() []scored {
	slices.SortStableFunc(l.buffer, func(a, b scored) int {
		return cmp.Or(cmp.Compare(a.oldest, b.oldest), cmp.Compare(a.index, b.index))
	})
	alike := map[kind][]scored{}
	var order []kind
	for _, s := range l.buffer {
		if len(alike[s.kind]) == 0 {
			order = append(order, s.kind)
		}
		alike[s.kind] = append(alike[s.kind], s)
	}
	l.hold = ""
	for _, k := range order {
		if len(alike[k]) < l.cfg.BatchGroups {
			continue
		}
		if batch := alike[k][:l.cfg.BatchGroups]; k.validate || l.mayNumber(batch) {
			return batch
		}
	}
	for _, k := range order {
		if k.validate && l.noMoreValidation() || !k.validate && l.nothingToWaitFor() && l.mayNumber(alike[k]) {
			return alike[k]
		}
	}
	return nil
}

// mayNumber: the trainer wants it, and no running group would grow too old by it.
func (l *Leader) mayNumber(batch []scored) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.books.now()
	if !l.cfg.mayNumber(now) {
		return false
	}
	var hold bool
	l.hold, hold = l.cfg.straggler(l.others(batch), now)
	return !hold
}

// others are the training groups that are open and not in a batch. The caller holds mu.
func (l *Leader) others(batch []scored) (out []waiter) {
	good := map[string]int64{}
	for _, s := range l.buffer {
		good[s.id] = s.oldest
	}
	for _, d := range l.books.open {
		if d.validate || d.request || slices.ContainsFunc(batch, func(s scored) bool { return s.id == d.id }) {
			continue
		}
		oldest, scored := good[d.id]
		if !scored {
			oldest = d.version
		}
		out = append(out, waiter{d.id, oldest, !scored})
	}
	return out
}

// nothingToWaitFor: no group is running, and none can be dispatched, now or after the trainer's
// next version.
func (l *Leader) nothingToWaitFor() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	load := l.books.load(l.goodGroups())
	if load.open > len(l.buffer) {
		return false
	}
	if l.books.ended && l.pool.count == 0 && len(l.books.again) == 0 {
		return true
	}
	waitsForTrainer := l.cfg.MaxStaleness != NoStaleness && load.pending > 0
	return l.cfg.capacity(load) == 0 && !waitsForTrainer && !l.books.policy.Paused
}

// noMoreValidation: every validation group that is known stands in the buffer.
func (l *Leader) noMoreValidation() bool {
	if len(l.pool.valid) > 0 {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, d := range l.books.open {
		if d.validate && !d.request && !l.buffered(d.id) {
			return false
		}
	}
	return true
}

// usedUp applies the stated outcome once max_rounds went by without a full batch.
func (l *Leader) usedUp(ctx context.Context) (bool, error) {
	good := l.goodGroups()
	if !l.cfg.usedUp(read(l, func(b *books) int { return b.endedFor[b.next()] })+good, good) {
		return false, nil
	}
	if l.cfg.Filter.Exhausted == ExhaustedPartial && good > 0 {
		batch := slices.DeleteFunc(slices.Clone(l.buffer), func(s scored) bool { return s.kind.validate })
		oldest := batch[0].kind
		batch = slices.DeleteFunc(batch, func(s scored) bool { return s.kind != oldest })
		if !l.mayNumber(batch) {
			return false, nil
		}
		record, err := l.write(ctx, batch)
		if err != nil || record == nil {
			return false, err
		}
		l.buffer = slices.DeleteFunc(l.buffer, func(s scored) bool {
			return slices.ContainsFunc(batch, func(b scored) bool { return b.id == s.id })
		})
		l.looked()
		return true, nil
	}
	l.deps.Log.Warn("rounds used up", zap.Int("good_groups", good), zap.String("then", string(l.cfg.Filter.Exhausted)))
	if err := l.record(ctx, Event{Kind: RoundsUsedUp, Reason: string(l.cfg.Filter.Exhausted)}); err != nil {
		return false, err
	}
	if l.cfg.Filter.Exhausted == ExhaustedStop {
		return false, fmt.Errorf("%w: %d batches' worth of groups ended, %d of %d are good",
			ErrExhausted, l.cfg.Filter.MaxRounds, good, l.cfg.BatchGroups)
	}
	return true, nil
}

// write stores a batch, then its record, then acknowledges its groups. A nil record without an error
// means that the store refused it: it is tried again.
func (l *Leader) write(ctx context.Context, batch []scored) (*BatchRecord, error) {
	record, data, err := l.encode(batch)
	if err != nil {
		return nil, err
	}
	if err := l.deps.Objects.Put(ctx, record.Object, data); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		l.stall(toStore, err)
		return nil, nil
	}
	l.stored(toStore)
	if err := l.deps.Batches.Append(ctx, record); err != nil {
		return nil, err
	}
	if l.deps.Wrote != nil {
		l.deps.Wrote(record)
	}
	l.update(func(b *books) { b.batch(record); l.rates.add(l.deps.Now(), record.Rollouts()) })
	l.deps.Log.Info("batch written", zap.Int64("sequence", record.Sequence), zap.Int("groups", len(batch)),
		zap.Int("rows", record.Rows), zap.Int64("bytes", record.Size))
	var errs []error
	for _, s := range batch { // all of them: each ack also ends the hold on its message
		errs = append(errs, s.held.Ack(ctx))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	l.dropUnrecorded(ctx, record)
	return &record, nil
}

func (l *Leader) encode(batch []scored) (BatchRecord, []byte, error) {
	l.mu.Lock()
	r := BatchRecord{Sequence: l.books.next(), Epoch: l.deps.Epoch, PolicyVersion: l.books.now().trainedAt()}
	l.mu.Unlock()
	r.Object = l.objectName(r.Epoch, r.Sequence)
	r.Validate, r.At = batch[0].kind.validate, l.deps.Now().UTC()
	var rows []dataset.Row
	for i, s := range batch {
		// row_idx is the rollout's position in the run, whichever batch it lands in.
		d := s.held.Value.Group.Dispatch
		g, err := dataset.Rows(s.held.Value, int(d.Index)*d.GroupSize, l.rowOptions())
		if err != nil {
			return r, nil, err
		}
		rows = append(rows, g...)
		r.Groups = append(r.Groups, BatchGroup{Dispatch: s.id, Outcomes: outcomesOf(s.held.Value.Scores), Tokens: s.tokens, Trace: s.held.Trace})
		if i == 0 {
			r.PolicyVersionMin, r.PolicyVersionMax = s.oldest, s.newest
		}
		r.PolicyVersionMin, r.PolicyVersionMax = min(r.PolicyVersionMin, s.oldest), max(r.PolicyVersionMax, s.newest)
	}
	r.Rows = len(rows)
	var buf bytes.Buffer
	if err := l.deps.Encode(&buf, batch[0].kind.meta, rows); err != nil {
		return r, nil, err
	}
	sum := sha256.Sum256(buf.Bytes())
	r.Size, r.SHA256 = int64(buf.Len()), hex.EncodeToString(sum[:])
	return r, buf.Bytes(), nil
}
