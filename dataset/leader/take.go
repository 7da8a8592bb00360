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
	"github.com/verigraph/verigraph/trajectory"
)

// kind is what all groups of a batch have in common.
type kind struct {
	meta     dataset.Meta
	validate bool
}

// scored is a good group that waits for its batch; its message stays in the queue.
type scored struct {
	held   Held[trajectory.ScoredGroup]
	id     string
	kind   kind
	oldest int64 // policy version
	newest int64
	index  int64
	tokens int
}

// maxAgain bounds how often one prompt is dispatched again because its groups grew stale.
const maxAgain = 3

// take archives a scored group and keeps it for a batch, or closes it when it cannot be delivered.
func (l *Leader) take(ctx context.Context, h Held[trajectory.ScoredGroup]) error {
	id := h.Value.Group.Dispatch.ID
	d := read(l, func(b *books) *entry { return b.open[id] })
	if d == nil {
		return h.Ack(ctx) // a repeat: our record decides, not the broker's window
	}
	for i, s := range l.buffer {
		if s.id == id { // the message came again while it is held, and stays in its queue until its batch is there
			s.held.Drop()
			l.buffer[i].held = h
			return nil
		}
	}
	if err := l.deps.Archive(h.Value); err != nil {
		l.stall(toArchive, err)
		h.Release()
		return nil
	}
	l.stored(toArchive)
	var rows []dataset.Row
	var err error
	h.Value, rows, err = l.rows(h.Value)
	s := scored{held: h, id: id, index: d.index, tokens: longest(rows)}
	s.kind = kind{dataset.MetaOf(h.Value, l.cfg.Limits, l.cfg.Overlong), d.validate}
	var few *dataset.TooFewValidError
	var row *dataset.RowError
	switch {
	case errors.As(err, &few), errors.As(err, &row):
		l.deps.Log.Warn("group failed", zap.String("dispatch", id), zap.Error(err))
		return l.close(ctx, s, Event{Outcomes: outcomesOf(h.Value.Scores).instead(Failed), Reason: err.Error()})
	case err != nil:
		return err
	}
	s.oldest, s.newest = ages(rows, d.version)
	if s.newest > d.bound {
		return l.closeStale(ctx, s, "of a policy that was rolled back")
	}
	if d.request {
		return l.answer(ctx, s, d)
	}
	if l.cfg.Filter.Enabled && !d.validate {
		if varies, value := l.cfg.Filter.varies(h.Value.Scores); !varies {
			return l.close(ctx, s, Event{Outcomes: outcomesOf(h.Value.Scores).instead(Filtered), Reason: "does not vary", Value: value})
		}
	}
	l.buffer = append(l.buffer, s)
	l.looked()
	return nil
}

// rows converts a group. A member that cannot become a row (no tokens, a reward that is no number) is
// lost like one whose sandbox died: it leaves its group, and takes no part in any statistic.
func (l *Leader) rows(g trajectory.ScoredGroup) (trajectory.ScoredGroup, []dataset.Row, error) {
	g.Scores = slices.Clone(g.Scores)
	var broken error
	for {
		rows, err := dataset.Rows(g, 0, l.rowOptions())
		var row *dataset.RowError
		if !errors.As(err, &row) || row.Sample < 0 {
			if err != nil && broken != nil {
				err = fmt.Errorf("%w; %w", err, broken)
			}
			return g, rows, err
		}
		broken = errors.Join(broken, row)
		g.Scores[row.Sample].Status, g.Scores[row.Sample].Reason = trajectory.ScoreLost, row.Error()
	}
}

// ages are the oldest and newest policy version of a group. No token is older than the dispatch, which
// also dates the groups of an engine that states no versions.
func ages(rows []dataset.Row, dispatched int64) (oldest, newest int64) {
	for i, r := range rows {
		if i == 0 {
			oldest, newest = r.PolicyVersionMin, r.PolicyVersionMax
		}
		oldest, newest = min(oldest, r.PolicyVersionMin), max(newest, r.PolicyVersionMax)
	}
	return max(oldest, dispatched), max(newest, dispatched)
}

// longest is the longest response of the valid rows.
func longest(rows []dataset.Row) int {
	n := 0
	for _, r := range rows {
		if r.LossValid {
			n = max(n, len(r.ResponseIDs))
		}
	}
	return n
}

func (l *Leader) closeStale(ctx context.Context, s scored, why string) error {
	d := read(l, func(b *books) *entry { return b.open[s.id] })
	again := !d.request && d.count < maxAgain
	return l.close(ctx, s, Event{Outcomes: outcomesOf(s.held.Value.Scores).instead(Stale), Reason: why, Again: again})
}

// close books how a group left, then acknowledges its message.
func (l *Leader) close(ctx context.Context, s scored, e Event) error {
	e.Kind, e.Dispatch, e.Tokens = Closed, s.id, s.tokens
	if err := l.record(ctx, e); err != nil {
		return err
	}
	return s.held.Ack(ctx)
}

// answer stores the rows of a request's group: they leave as soon as the group has ended.
func (l *Leader) answer(ctx context.Context, s scored, d *entry) error {
	rows, err := dataset.Rows(s.held.Value, int(d.index)*d.size, l.rowOptions())
	if err != nil {
		return err
	}
	var buf bytes.Buffer
	if err := l.deps.Encode(&buf, s.kind.meta, rows); err != nil {
		return err
	}
	sum := sha256.Sum256(buf.Bytes())
	result := Result{
		Object: fmt.Sprintf("requests/%s-e%d-%s.parquet", l.cfg.Run, l.deps.Epoch, s.id),
		Size:   int64(buf.Len()), SHA256: hex.EncodeToString(sum[:]), Rows: len(rows), Trace: s.held.Trace,
	}
	if err := l.deps.Objects.Put(ctx, result.Object, buf.Bytes()); err != nil {
		l.stall(toStore, err)
		s.held.Release()
		return nil
	}
	l.stored(toStore)
	return l.close(ctx, s, Event{Outcomes: outcomesOf(s.held.Value.Scores), Result: &result})
}

func (l *Leader) buffered(id string) bool {
	for _, s := range l.buffer {
		if s.id == id {
			return true
		}
	}
	return false
}

// goodGroups counts the buffered training groups.
func (l *Leader) goodGroups() int {
	n := 0
	for _, s := range l.buffer {
		if !s.kind.validate {
			n++
		}
	}
	return n
}

func (l *Leader) rowOptions() dataset.RowOptions {
	return dataset.RowOptions{Limits: l.cfg.Limits, MinValid: l.cfg.MinValid, FillLost: l.cfg.FillLost, OneRow: l.cfg.OneRow}
}

// What has to be stored, and may be refused.
const (
	toArchive = "archive"
	toStore   = "store"
)

// stall pauses everything that has to be stored; the groups concerned wait where they are.
func (l *Leader) stall(what string, err error) {
	l.stalled, l.stalledBy = fmt.Errorf("%s: %w", what, err), what
	l.retryAt = l.deps.Now().Add(storeRetry)
	l.deps.Log.Error("cannot store, will try again", zap.Error(l.stalled))
	l.looked()
}

// stored is the end of what stalled it.
func (l *Leader) stored(what string) {
	if l.stalledBy == what {
		l.stalled, l.stalledBy = nil, ""
		l.looked()
	}
}
