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
	at, err := s.source.Cursors.Position(ctx, cursor)
	if err == nil && seq > at.Acknowledged {
		at, err = s.source.Cursors.Change(ctx, cursor, func(p Position) (Position, error) { return p.Ack(seq, step), nil })
	}
	if err != nil {
		return nil, fmt.Errorf("cursor %s: %w", cursor, err)
	}
	return &pb.AckResponse{Acknowledged: at.Acknowledged}, nil
}

// Commit implements RolloutService. Only the trainer's cursor frees batches; that of another consumer just
// moves on.
func (s *service) Commit(ctx context.Context, req *pb.CommitRequest) (*pb.CommitResponse, error) {
	cursor, err := cursorName(req.GetCursor())
	if err != nil {
		return nil, err
	}
	step := req.GetCheckpointStep()
	if step < 0 {
		return nil, fmt.Errorf("%w: checkpoint_step %d", ErrInvalid, step)
	}
	if cursor == TrainerCursor && s.source.Control == nil {
		return nil, fmt.Errorf("commit: %w", ErrUnsupported)
	}
	at, err := s.source.Cursors.Change(ctx, cursor, func(p Position) (Position, error) { return p.Commit(step), nil })
	if err != nil {
		return nil, fmt.Errorf("cursor %s: %w", cursor, err)
	}
	resp := &pb.CommitResponse{Sequence: at.Committed.Sequence}
	if cursor == TrainerCursor {
		freed, err := s.source.Control.Commit(ctx, at.Committed.Step, at.Committed.Sequence)
		if err != nil {
			return nil, fmt.Errorf("commit: %w", err)
		}
		resp.Freed = int32(freed)
	}
	return resp, nil
}

// SetPolicy implements RolloutService.
func (s *service) SetPolicy(ctx context.Context, req *pb.SetPolicyRequest) (*pb.SetPolicyResponse, error) {
	if err := s.setPolicy(ctx, req); err != nil {
		return nil, fmt.Errorf("set policy: %w", err)
	}
	return &pb.SetPolicyResponse{}, nil
}

func (s *service) setPolicy(ctx context.Context, req *pb.SetPolicyRequest) error {
	if s.source.Control == nil {
		return ErrUnsupported
	}
	at, err := s.source.Cursors.Position(ctx, TrainerCursor)
	if err != nil {
		return err
	}
	return s.source.Control.SetPolicy(ctx, policyOf(req), at.Acknowledged)
}

func policyOf(req *pb.SetPolicyRequest) Policy {
	return Policy{
		Version: req.GetVersion(), Incarnation: req.GetIncarnation(), Endpoints: req.GetEndpoints(), Paused: req.GetPaused(),
	}
}

// Restore implements RolloutService. The run goes back first, then the cursor: a call that is cut off in
// between is repeated by the trainer, and the run is where it was left.
func (s *service) Restore(ctx context.Context, req *pb.RestoreRequest) (*pb.RestoreResponse, error) {
	modes := map[pb.RestoreMode]string{
		pb.RestoreMode_RESTORE_MODE_UNSPECIFIED: "", pb.RestoreMode_RESTORE_MODE_REGENERATE: "regenerate",
		pb.RestoreMode_RESTORE_MODE_REPLAY: "replay",
	}
	mode, known := modes[req.GetMode()]
	if s.source.Control == nil {
		return nil, fmt.Errorf("restore: %w", ErrUnsupported)
	}
	if !known || req.GetCheckpointStep() < 0 {
		return nil, fmt.Errorf("restore: %w: step %d, mode %d", ErrInvalid, req.GetCheckpointStep(), req.GetMode())
	}
	step := req.GetCheckpointStep()
	at, err := s.source.Cursors.Position(ctx, TrainerCursor)
	if err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	base, err := at.At(step)
	if err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	policy := Policy{Version: req.GetPolicyVersion(), Incarnation: req.GetIncarnation(), Endpoints: req.GetEndpoints()}
	dropped, err := s.source.Control.Restore(ctx, step, base, policy, mode)
	if err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	at, err = s.source.Cursors.Change(ctx, TrainerCursor, func(p Position) (Position, error) { return p.Rewind(step) })
	if err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	return &pb.RestoreResponse{Sequence: at.Acknowledged, Dropped: dropped}, nil
}

// ListSetAside implements RolloutService.
func (s *service) ListSetAside(ctx context.Context, _ *pb.ListSetAsideRequest) (*pb.ListSetAsideResponse, error) {
	if s.source.Control == nil {
		return nil, fmt.Errorf("set aside: %w", ErrUnsupported)
	}
	list, err := s.source.Control.SetAside(ctx)
	if err != nil {
		return nil, fmt.Errorf("set aside: %w", err)
	}
	resp := &pb.ListSetAsideResponse{}
	for _, a := range list {
		resp.Groups = append(resp.Groups, &pb.SetAsideGroup{
			Dispatch: clean(a.Dispatch), Stage: clean(a.Stage), Reason: clean(a.Reason), Deliveries: int32(a.Deliveries),
		})
	}
	return resp, nil
}

// Requeue implements RolloutService.
func (s *service) Requeue(ctx context.Context, req *pb.RequeueRequest) (*pb.RequeueResponse, error) {
	if s.source.Control == nil {
		return nil, fmt.Errorf("requeue: %w", ErrUnsupported)
	}
	if err := s.source.Control.Requeue(ctx, req.GetDispatch()); err != nil {
		return nil, fmt.Errorf("requeue: %w", err)
	}
	return &pb.RequeueResponse{}, nil
}

// GetStatus implements RolloutService.
func (s *service) GetStatus(ctx context.Context, _ *pb.GetStatusRequest) (*pb.GetStatusResponse, error) {
	st, err := s.source.Status(ctx)
	if err != nil {
		return nil, fmt.Errorf("status: %w", err)
	}
	l := st.Ledger
	resp := &pb.GetStatusResponse{
		Run: clean(st.Run), Prompts: st.Prompts, Backlog: st.Backlog,
		Ledger: &pb.Ledger{
			Dispatched: l.Dispatched, Delivered: l.Delivered, Filtered: l.Filtered, Stale: l.Stale,
			Unscored: l.Unscored, Failed: l.Failed, SetAside: l.SetAside, InFlight: l.InFlight,
		},
		BatchesWritten: st.BatchesWritten, BatchesAcknowledged: st.BatchesAcknowledged, Complete: st.Complete,
		BatchesCommitted: st.BatchesCommitted, BatchesDropped: st.BatchesDropped,
		Policy: &pb.SetPolicyRequest{
			Version: st.Policy.Version, Incarnation: st.Policy.Incarnation, Endpoints: st.Policy.Endpoints, Paused: st.Policy.Paused,
		},
		Reasons: map[string]int64{}, Ages: st.Ages, DeliveredPerSecond: st.DeliveredPerSecond, UnscoredShare: st.UnscoredShare,
		RoundsUsedUp: st.RoundsUsedUp, Unaccounted: st.Unaccounted,
	}
	for reason, n := range st.Reasons {
		resp.Reasons[clean(reason)] += n
	}
	for _, c := range st.Lengths {
		resp.Lengths = append(resp.Lengths, &pb.LengthClass{UpTo: c.UpTo, Outcomes: c.Outcomes})
	}
	for _, w := range st.Waiting {
		resp.Waiting = append(resp.Waiting, &pb.Waiting{What: clean(w.What), Count: w.Count, Reason: clean(w.Reason)})
	}
	return resp, nil
}
