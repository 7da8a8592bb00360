package feed

import (
	"context"
	"fmt"
	"regexp"

	pb "github.com/verigraph/verigraph/proto/verigraph/v1"
)

// cursorPattern keeps names usable as keys of any store.
var cursorPattern = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func cursorName(name string) (string, error) {
	if name == "" {
		return TrainerCursor, nil
	}
	if !cursorPattern.MatchString(name) {
		return "", fmt.Errorf("%w: cursor %q: want up to 64 letters, digits, - and _", ErrInvalid, name)
	}
	return name, nil
}

// Ack implements RolloutService.
func (s *service) Ack(ctx context.Context, req *pb.AckRequest) (*pb.AckResponse, error) {
	cursor, err := cursorName(req.GetCursor())
	if err != nil {
		return nil, err
	}
	seq, step := req.GetSequence(), req.GetTrainerStep()
	if seq < 1 || step < 0 {
		return nil, fmt.Errorf("%w: sequence %d, trainer_step %d", ErrInvalid, seq, step)
	}
	last, err := s.source.Batches.Last(ctx)
	if err != nil {
		return nil, fmt.Errorf("last batch: %w", err)
	}
	if seq > last {
		return nil, fmt.Errorf("%w: batch %d does not exist; the newest is %d", ErrInvalid, seq, last)
	}
	at, err := s.source.Cursors.Acknowledged(ctx, cursor)
	if err == nil && seq > at {
		at, err = s.source.Cursors.Acknowledge(ctx, cursor, seq, step)
	}
	if err != nil {
		return nil, fmt.Errorf("cursor %s: %w", cursor, err)
	}
	return &pb.AckResponse{Acknowledged: at}, nil
}

// GetStatus implements RolloutService.
func (s *service) GetStatus(ctx context.Context, _ *pb.GetStatusRequest) (*pb.GetStatusResponse, error) {
	st, err := s.source.Status(ctx)
	if err != nil {
		return nil, fmt.Errorf("status: %w", err)
	}
	l := st.Ledger
	return &pb.GetStatusResponse{
		Run: clean(st.Run), Prompts: st.Prompts, Backlog: st.Backlog,
		Ledger: &pb.Ledger{
			Dispatched: l.Dispatched, Delivered: l.Delivered, Filtered: l.Filtered, Stale: l.Stale,
			Unscored: l.Unscored, Failed: l.Failed, SetAside: l.SetAside, InFlight: l.InFlight,
		},
		BatchesWritten: st.BatchesWritten, BatchesAcknowledged: st.BatchesAcknowledged, Complete: st.Complete,
		PolicyVersion: st.Policy.Version, PolicyIncarnation: clean(st.Policy.Incarnation), CommittedStep: st.CommittedStep,
		ClosedByReason: cleanKeys(st.ClosedByReason), FilteredByValue: cleanKeys(st.FilteredByValue),
	}, nil
}

func cleanKeys(m map[string]int64) map[string]int64 {
	out := make(map[string]int64, len(m))
	for k, n := range m {
		out[clean(k)] += n
	}
	return out
}
