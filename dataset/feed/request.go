package feed

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	"google.golang.org/grpc"

	pb "github.com/verigraph/verigraph/proto/verigraph/v1"
)

// RequestBatch implements RolloutService.
func (s *service) RequestBatch(req *pb.RequestBatchRequest, stream grpc.ServerStreamingServer[pb.GroupChunk]) error {
	ctx, cancel := s.untilStop(stream.Context())
	defer cancel()
	err := s.request(ctx, req, stream)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("request: %w", err)
	}
	return nil
}

func (s *service) request(ctx context.Context, req *pb.RequestBatchRequest, stream grpc.ServerStreamingServer[pb.GroupChunk]) error {
	if s.source.Control == nil {
		return ErrUnsupported
	}
	asked, err := askedOf(req)
	if err != nil {
		return err
	}
	if req.Policy != nil {
		if err := s.setPolicy(ctx, req.GetPolicy()); err != nil {
			return err
		}
	}
	dispatches, err := s.source.Control.Request(ctx, asked)
	if err != nil {
		return err
	}
	uids := map[string]string{}
	for i, d := range dispatches {
		uids[d] = asked[i].UID
	}
	for len(dispatches) > 0 {
		i, group, err := s.source.Control.Ended(ctx, dispatches)
		if err != nil {
			return err
		}
		d := dispatches[i]
		if err := s.sendGroup(ctx, uids[d], d, group, stream); err != nil {
			return fmt.Errorf("group %s: %w", uids[d], err)
		}
		s.source.Control.Sent(ctx, d)
		dispatches = slices.Delete(dispatches, i, i+1)
	}
	return nil
}

// askedOf checks a whole request, so that all of it is dispatched or nothing.
func askedOf(req *pb.RequestBatchRequest) ([]Asked, error) {
	asked := make([]Asked, len(req.GetPrompts()))
	seen := map[string]bool{}
	var problems []error
	for i, p := range req.GetPrompts() {
		bad := func(err error) { problems = append(problems, fmt.Errorf("prompt %d (uid %q): %w", i, p.GetUid(), err)) }
		for _, err := range promptProblems(p.GetPrompt()) {
			bad(err)
		}
		if p.GetUid() == "" || seen[p.GetUid()] {
			bad(errors.New("uid: empty, or there twice"))
		}
		if p.GetRollouts() < 1 {
			bad(fmt.Errorf("rollouts: %d", p.GetRollouts()))
		}
		if p.GetPrompt().GetSampling().GetN() != 0 {
			bad(errors.New("sampling.n: rollouts says how many"))
		}
		seen[p.GetUid()] = true
		if p.GetPrompt() != nil {
			asked[i] = Asked{UID: p.GetUid(), Submission: submission(p.GetPrompt()), Rollouts: int(p.GetRollouts())}
		}
	}
	if len(asked) == 0 {
		problems = append(problems, errors.New("no prompts"))
	}
	if len(problems) > 0 {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, errors.Join(problems...))
	}
	return asked, nil
}

func (s *service) sendGroup(ctx context.Context, uid, dispatch string, g Group, stream grpc.ServerStreamingServer[pb.GroupChunk]) error {
	first := &pb.GroupChunk{
		Uid: clean(uid), Dispatch: dispatch, Status: pb.GroupStatus_GROUP_STATUS_FINISHED, Reason: clean(g.Reason),
		Size: g.Size, Sha256: g.SHA256, Rows: int32(g.Rows), Last: true,
	}
	switch {
	case g.Replaced:
		first.Status = pb.GroupStatus_GROUP_STATUS_REPLACED
	case g.Object == "":
		first.Status = pb.GroupStatus_GROUP_STATUS_FAILED
	}
	if g.Object == "" || g.Replaced {
		return s.within(ctx, func() error { return stream.Send(first) })
	}
	chunk := first
	return s.chunks(ctx, g.Object, g.Size, 0, func(data []byte, offset int64, last bool) error {
		chunk.Offset, chunk.Data, chunk.Crc32, chunk.Last = offset, data, crc32.ChecksumIEEE(data), last
		err := stream.Send(chunk)
		chunk = &pb.GroupChunk{Uid: first.GetUid(), Dispatch: dispatch, Status: first.GetStatus()}
		return err
	})
}
