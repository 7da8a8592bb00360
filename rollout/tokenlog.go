package rollout

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"

	"github.com/verigraph/verigraph/trajectory"
)

// tokenLog is the append-only token sequence of one segment. Invariant: response ids, mask and
// log-probs grow together, every id belongs to exactly one span, and the hash is that of all ids in
// the order in which they were appended, so that an id changed later is found.
type tokenLog struct {
	prompt   int     // number of prompt ids
	ids      []int32 // prompt and response in one piece
	mask     []int8
	logProbs []float32
	spans    []trajectory.Span

	running hash.Hash
	// sampledEnd and sampledHash are the response's length and the hash after the last sampled id.
	sampledEnd  int
	sampledHash string
}

func newTokenLog(prompt []int32) *tokenLog {
	l := &tokenLog{prompt: len(prompt), ids: append([]int32(nil), prompt...), running: sha256.New()}
	writeIDs(l.running, prompt)
	return l
}

func writeIDs(h hash.Hash, ids []int32) {
	var buf [512]byte
	for len(ids) > 0 {
		n := min(len(ids), len(buf)/4)
		for i, id := range ids[:n] {
			binary.LittleEndian.PutUint32(buf[4*i:], uint32(id))
		}
		_, _ = h.Write(buf[:4*n]) // a hash never fails
		ids = ids[n:]
	}
}

// context is prompt plus response. It shares memory with the log, which only appends behind it.
func (l *tokenLog) context() []int32 { return l.ids[:len(l.ids):len(l.ids)] }

func (l *tokenLog) responseLen() int { return len(l.ids) - l.prompt }

func (l *tokenLog) sampledAny() bool { return l.sampledEnd > 0 }

// appendSampled adds ids that the engine sampled.
func (l *tokenLog) appendSampled(turn int, piece sampled) {
	l.add(trajectory.SpanSampled, turn, piece.ids, piece.version, piece.versionEnd)
	l.logProbs = append(l.logProbs, piece.logProbs...)
	for range piece.ids {
		l.mask = append(l.mask, 1)
	}
	if len(piece.ids) > 0 {
		l.sampledEnd, l.sampledHash = l.responseLen(), hex.EncodeToString(l.running.Sum(nil))
	}
}

// appendMasked adds ids that the policy did not sample.
func (l *tokenLog) appendMasked(kind trajectory.SpanKind, turn int, ids []int32) {
	l.add(kind, turn, ids, -1, -1)
	l.logProbs = append(l.logProbs, make([]float32, len(ids))...)
	l.mask = append(l.mask, make([]int8, len(ids))...)
}

func (l *tokenLog) add(kind trajectory.SpanKind, turn int, ids []int32, version, versionEnd int64) {
	if len(ids) == 0 {
		return
	}
	at := l.responseLen()
	l.spans = append(l.spans, trajectory.Span{
		Start: at, End: at + len(ids), Kind: kind, Turn: turn, PolicyVersion: version, PolicyVersionEnd: versionEnd,
	})
	writeIDs(l.running, ids)
	l.ids = append(l.ids, ids...)
}

// segment gives the log up to its last sampled id; false if nothing was sampled.
func (l *tokenLog) segment() (trajectory.Segment, bool) {
	if l.sampledEnd == 0 {
		return trajectory.Segment{}, false
	}
	s := trajectory.Segment{
		PromptIDs: l.ids[:l.prompt:l.prompt], ResponseIDs: l.ids[l.prompt:],
		ResponseMask: l.mask, LogProbs: l.logProbs, Spans: l.spans, IDsSHA256: l.sampledHash,
	}
	s.CutTail()
	return s, true
}

// idsSHA256 is the hash that a segment's ids must have.
func idsSHA256(s *trajectory.Segment) string {
	h := sha256.New()
	writeIDs(h, s.PromptIDs)
	writeIDs(h, s.ResponseIDs)
	return hex.EncodeToString(h.Sum(nil))
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

// ids are those of all pieces; the caller must not change them.
func (t *turnTokens) ids() []int32 {
	if len(t.pieces) == 1 {
		return t.pieces[0].ids
	}
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
