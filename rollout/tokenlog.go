package rollout

import (
	"slices"

	"github.com/verigraph/verigraph/trajectory"
)

// tokenLog is the append-only token sequence of one segment. Invariant: response ids, mask and
// log-probs grow together, and every id belongs to exactly one span.
type tokenLog struct {
	seg trajectory.Segment
}

func newTokenLog(prompt []int32) *tokenLog {
	return &tokenLog{seg: trajectory.Segment{PromptIDs: prompt}}
}

// context is prompt plus response, a fresh slice.
func (l *tokenLog) context() []int32 {
	return slices.Concat(l.seg.PromptIDs, l.seg.ResponseIDs)
}

func (l *tokenLog) responseLen() int { return len(l.seg.ResponseIDs) }

// appendSampled adds ids that the engine sampled.
func (l *tokenLog) appendSampled(turn int, piece sampled) {
	l.span(trajectory.SpanSampled, turn, len(piece.ids), piece.version, piece.versionEnd)
	l.seg.ResponseIDs = append(l.seg.ResponseIDs, piece.ids...)
	l.seg.LogProbs = append(l.seg.LogProbs, piece.logProbs...)
	l.seg.ResponseMask = append(l.seg.ResponseMask, slices.Repeat([]int8{1}, len(piece.ids))...)
}

// appendMasked adds ids that the policy did not sample.
func (l *tokenLog) appendMasked(kind trajectory.SpanKind, turn int, ids []int32) {
	l.span(kind, turn, len(ids), -1, -1)
	l.seg.ResponseIDs = append(l.seg.ResponseIDs, ids...)
	l.seg.LogProbs = append(l.seg.LogProbs, make([]float32, len(ids))...)
	l.seg.ResponseMask = append(l.seg.ResponseMask, make([]int8, len(ids))...)
}

func (l *tokenLog) span(kind trajectory.SpanKind, turn, n int, version, versionEnd int64) {
	if n == 0 {
		return
	}
	at := len(l.seg.ResponseIDs)
	l.seg.Spans = append(l.seg.Spans, trajectory.Span{
		Start: at, End: at + n, Kind: kind, Turn: turn, PolicyVersion: version, PolicyVersionEnd: versionEnd,
	})
}

// sampled is what one policy call added to a turn, under one pair of versions.
type sampled struct {
	ids                 []int32
	logProbs            []float32
	version, versionEnd int64
}

// turnTokens are the pieces of one turn before they enter the log.
type turnTokens struct {
	pieces []sampled
}

func (t *turnTokens) add(p sampled) {
	if len(p.ids) > 0 {
		t.pieces = append(t.pieces, p)
	}
}

func (t *turnTokens) ids() []int32 {
	var out []int32
	for _, p := range t.pieces {
		out = append(out, p.ids...)
	}
	return out
}

func (t *turnTokens) len() int {
	n := 0
	for _, p := range t.pieces {
		n += len(p.ids)
	}
	return n
}

// trim keeps the first n ids.
func (t *turnTokens) trim(n int) {
	for i := range t.pieces {
		p := &t.pieces[i]
		if n >= len(p.ids) {
			n -= len(p.ids)
			continue
		}
		p.ids, p.logProbs = p.ids[:n], p.logProbs[:n]
		t.pieces = t.pieces[:i]
		if n > 0 {
			t.pieces = t.pieces[:i+1]
		}
		return
	}
}
