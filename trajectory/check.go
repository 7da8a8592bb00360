package trajectory

import (
	"fmt"
	"math"
)

// Check returns the first broken token invariant of a trajectory's segments, or nil.
func (t *Trajectory) Check() error {
	for i := range t.Segments {
		if err := t.Segments[i].Check(); err != nil {
			return fmt.Errorf("rollout %s: %w", t.ID, err)
		}
	}
	return nil
}

// CutTail drops ids after the last sampled one.
func (s *Segment) CutTail() {
	n := len(s.ResponseMask)
	for n > 0 && s.ResponseMask[n-1] == 0 {
		n--
	}
	s.ResponseIDs, s.ResponseMask, s.LogProbs = s.ResponseIDs[:n], s.ResponseMask[:n], s.LogProbs[:n]
	for len(s.Spans) > 0 && s.Spans[len(s.Spans)-1].Start >= n {
		s.Spans = s.Spans[:len(s.Spans)-1]
	}
}

// Check returns the first broken token invariant of a segment, or nil.
func (s *Segment) Check() error {
	n := len(s.ResponseIDs)
	if len(s.ResponseMask) != n || len(s.LogProbs) != n {
		return fmt.Errorf("segment: %d response ids, %d mask values, %d log-probs", n, len(s.ResponseMask), len(s.LogProbs))
	}
	if len(s.PromptIDs) == 0 {
		return fmt.Errorf("segment: no prompt ids")
	}
	if n == 0 || s.ResponseMask[n-1] != 1 {
		return fmt.Errorf("segment: does not end with a sampled token")
	}
	for i, m := range s.ResponseMask {
		lp := float64(s.LogProbs[i])
		switch {
		case m == 0 && lp != 0:
			return fmt.Errorf("segment: log-prob %g at position %d, which has mask 0", lp, i)
		case m == 1 && (math.IsNaN(lp) || math.IsInf(lp, 0) || lp <= -9999):
			return fmt.Errorf("segment: log-prob %g at position %d", lp, i)
		case m != 0 && m != 1:
			return fmt.Errorf("segment: mask %d at position %d", m, i)
		}
	}
	return s.checkSpans()
}

func (s *Segment) checkSpans() error {
	at := 0
	for i, sp := range s.Spans {
		if sp.Start != at || sp.End <= sp.Start || sp.End > len(s.ResponseIDs) {
			return fmt.Errorf("segment: span %d covers [%d,%d), want a non-empty one from %d", i, sp.Start, sp.End, at)
		}
		want := int8(0)
		if sp.Kind == SpanSampled {
			want = 1
		}
		for j := sp.Start; j < sp.End; j++ {
			if s.ResponseMask[j] != want {
				return fmt.Errorf("segment: span %d is %s, mask at %d is %d", i, sp.Kind, j, s.ResponseMask[j])
			}
		}
		at = sp.End
	}
	if at != len(s.ResponseIDs) {
		return fmt.Errorf("segment: spans cover %d of %d response ids", at, len(s.ResponseIDs))
	}
	return nil
}
