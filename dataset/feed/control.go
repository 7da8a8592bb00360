package feed

import (
	"context"
	"fmt"

	pb "github.com/verigraph/verigraph/proto/verigraph/v1"
)

// Policy is what the trainer says of its weights.
type Policy struct {
	Version     int64
	Incarnation string
}

// SetAside is a group that used up its deliveries.
type SetAside struct {
	Dispatch   string
	Stage      string
	Reason     string
	Deliveries int
}

// Control is what a trainer or an operator may ask of a run. Safe for concurrent use. Requests that
// make no sense return an error that wraps ErrInvalid.
type Control interface {
	SetPolicy(ctx context.Context, p Policy) error
	// Commit returns how many batches were freed.
	Commit(ctx context.Context, step int64) (freed int, err error)
	// Restore returns the trainer cursor's new position.
	Restore(ctx context.Context, step int64) (acknowledged int64, err error)
	ListSetAside(ctx context.Context) ([]SetAside, error)
	Requeue(ctx context.Context, dispatch string) error
}

// ErrNoControl is returned by a run that takes no orders.
var ErrNoControl = fmt.Errorf("%w: this run takes no orders", ErrClosed)

func (s *service) control() (Control, error) {
	if s.source.Control == nil {
		return nil, ErrNoControl
	}
	return s.source.Control, nil
}

// SetPolicy implements RolloutService.
func (s *service) SetPolicy(ctx context.Context, req *pb.SetPolicyRequest) (*pb.SetPolicyResponse, error) {
	c, err := s.control()
	if err != nil {
		return nil, err
	}
	if err := c.SetPolicy(ctx, Policy{Version: req.GetVersion(), Incarnation: req.GetIncarnation()}); err != nil {
		return nil, fmt.Errorf("set policy: %w", err)
	}
	return &pb.SetPolicyResponse{}, nil
}

// Commit implements RolloutService.
func (s *service) Commit(ctx context.Context, req *pb.CommitRequest) (*pb.CommitResponse, error) {
	c, err := s.control()
	if err != nil {
		return nil, err
	}
	freed, err := c.Commit(ctx, req.GetCheckpointStep())
	if err != nil {
		return nil, fmt.Errorf("commit: %w", err)
	}
	return &pb.CommitResponse{Freed: int32(freed)}, nil
}

// Restore implements RolloutService.
func (s *service) Restore(ctx context.Context, req *pb.RestoreRequest) (*pb.RestoreResponse, error) {
	c, err := s.control()
	if err != nil {
		return nil, err
	}
	at, err := c.Restore(ctx, req.GetCheckpointStep())
	if err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	return &pb.RestoreResponse{Acknowledged: at}, nil
}

// ListSetAside implements RolloutService.
func (s *service) ListSetAside(ctx context.Context, _ *pb.ListSetAsideRequest) (*pb.ListSetAsideResponse, error) {
	c, err := s.control()
	if err != nil {
		return nil, err
	}
	groups, err := c.ListSetAside(ctx)
	if err != nil {
		return nil, fmt.Errorf("list set aside: %w", err)
	}
	out := &pb.ListSetAsideResponse{}
	for _, g := range groups {
		out.Groups = append(out.Groups, &pb.SetAsideGroup{
			Dispatch: clean(g.Dispatch), Stage: g.Stage, Reason: clean(g.Reason), Deliveries: int32(g.Deliveries),
		})
	}
	return out, nil
}

// Requeue implements RolloutService.
func (s *service) Requeue(ctx context.Context, req *pb.RequeueRequest) (*pb.RequeueResponse, error) {
	c, err := s.control()
	if err != nil {
		return nil, err
	}
	if err := c.Requeue(ctx, req.GetDispatch()); err != nil {
		return nil, fmt.Errorf("requeue: %w", err)
	}
	return &pb.RequeueResponse{}, nil
}
