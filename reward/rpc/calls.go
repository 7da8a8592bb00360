package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	pb "github.com/verigraph/verigraph/proto/verigraph/v1"
	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

// Score scores one rollout.
func (s *Server) Score(ctx context.Context, req *pb.ScoreRequest) (*pb.ScoreResponse, error) {
	scores, err := s.score(ctx, req.GetPrompt(), req.GetReferenceMetaJson(), []*pb.Rollout{req.GetRollout()}, false)
	if err != nil {
		return nil, err
	}
	return &pb.ScoreResponse{Id: req.GetId(), Score: scores[0]}, nil
}

// ScoreGroup scores the rollouts of one prompt.
func (s *Server) ScoreGroup(ctx context.Context, req *pb.ScoreGroupRequest) (*pb.ScoreGroupResponse, error) {
	scores, err := s.score(ctx, req.GetPrompt(), req.GetReferenceMetaJson(), req.GetRollouts(), false)
	if err != nil {
		return nil, err
	}
	return &pb.ScoreGroupResponse{Id: req.GetId(), Scores: scores}, nil
}

// ScoreStream scores rollouts as they come.
func (s *Server) ScoreStream(stream grpc.BidiStreamingServer[pb.ScoreRequest, pb.ScoreResponse]) error {
	return each(stream, s.opts.MaxRollouts, func(ctx context.Context, req *pb.ScoreRequest) (*pb.ScoreResponse, error) {
		scores, err := s.score(ctx, req.GetPrompt(), req.GetReferenceMetaJson(), []*pb.Rollout{req.GetRollout()}, true)
		if err != nil {
			return nil, fmt.Errorf("request %q: %w", req.GetId(), err)
		}
		return &pb.ScoreResponse{Id: req.GetId(), Score: scores[0]}, nil
	})
}

// ScoreGroupStream scores groups as they come.
func (s *Server) ScoreGroupStream(stream grpc.BidiStreamingServer[pb.ScoreGroupRequest, pb.ScoreGroupResponse]) error {
	return each(stream, s.opts.MaxRollouts, func(ctx context.Context, req *pb.ScoreGroupRequest) (*pb.ScoreGroupResponse, error) {
		scores, err := s.score(ctx, req.GetPrompt(), req.GetReferenceMetaJson(), req.GetRollouts(), true)
		if err != nil {
			return nil, fmt.Errorf("request %q: %w", req.GetId(), err)
		}
		return &pb.ScoreGroupResponse{Id: req.GetId(), Scores: scores}, nil
	})
}

// each answers every request of a stream, at most limit at a time. The first error ends the stream.
func each[Q, R any](stream grpc.BidiStreamingServer[Q, R], limit int, answer func(context.Context, *Q) (*R, error)) error {
	g, ctx := errgroup.WithContext(stream.Context())
	g.SetLimit(limit)
	requests, end := receive(ctx, stream)
	var sending sync.Mutex
	for req := range requests {
		g.Go(func() error {
			resp, err := answer(ctx, req)
			if err != nil {
				return err
			}
			sending.Lock()
			defer sending.Unlock()
			return stream.Send(resp)
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return <-end
}

// receive hands on requests until the caller has sent its last or ctx ends. Its reader may wait in Recv
// when the call fails; the end of the call, which follows at once, is what ends it then.
func receive[Q, R any](ctx context.Context, stream grpc.BidiStreamingServer[Q, R]) (<-chan *Q, <-chan error) {
	in, requests, end := make(chan *Q), make(chan *Q), make(chan error, 1)
	failed := make(chan error, 1)
	go func() {
		defer close(in)
		for {
			req, err := stream.Recv()
			if err != nil {
				if errors.Is(err, io.EOF) {
					err = nil
				}
				failed <- err
				return
			}
			select {
			case in <- req:
			case <-ctx.Done():
				failed <- ctx.Err()
				return
			}
		}
	}()
	go func() {
		defer close(requests)
		for {
			select {
			case req, ok := <-in:
				if !ok {
					end <- <-failed
					return
				}
				requests <- req
			case <-ctx.Done():
				end <- ctx.Err()
				return
			}
		}
	}()
	return requests, end
}

// score scores the rollouts of one prompt at once.
func (s *Server) score(ctx context.Context, prompt *pb.Prompt, meta []byte, rollouts []*pb.Rollout, wait bool) ([]*pb.RolloutScore, error) {
	if s.opts.Paused != nil {
		if paused, why := s.opts.Paused(); paused {
			return nil, fmt.Errorf("%w: %s", errPaused, why)
		}
	}
	p, ref, err := request(prompt, meta)
	if err != nil {
		return nil, err
	}
	if err := s.scorer.Supports(ref); err != nil {
		return nil, fmt.Errorf("%w: %w", errInvalid, err)
	}
	if len(rollouts) == 0 || len(rollouts) > s.opts.MaxRollouts {
		return nil, fmt.Errorf("%w: %d rollouts, want 1 to %d", errInvalid, len(rollouts), s.opts.MaxRollouts)
	}
	trajectories := make([]trajectory.Trajectory, len(rollouts))
	for i, r := range rollouts {
		if trajectories[i], err = s.trajectory(p.ID, r); err != nil {
			return nil, fmt.Errorf("rollout %d: %w", i, err)
		}
	}
	if _, set := ctx.Deadline(); !set {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.opts.Deadline)
		defer cancel()
	}
	release, err := s.hold(ctx, len(rollouts), wait)
	if err != nil {
		return nil, err
	}
	defer release()
	out := make([]*pb.RolloutScore, len(rollouts))
	faults := make([]error, len(rollouts))
	var wg sync.WaitGroup
	for i := range trajectories {
		wg.Go(func() {
			defer func() {
				if v := recover(); v != nil {
					faults[i] = fmt.Errorf("rollout %d: panic while scoring: %v", i, v)
				}
			}()
			out[i] = encode(s.scorer.Score(ctx, trajectories[i], p, ref))
		})
	}
	wg.Wait()
	if err := ctx.Err(); err != nil { // what was scored after that may have lost its judge to it
		return nil, err
	}
	return out, errors.Join(faults...)
}

// hold takes n slots. A single call is refused when they are not free; a stream's waits for its turn.
func (s *Server) hold(ctx context.Context, n int, wait bool) (release func(), err error) {
	if wait {
		err = s.slots.Acquire(ctx, int64(n))
	} else if !s.slots.TryAcquire(int64(n)) {
		err = errFull
	}
	return func() { s.slots.Release(int64(n)) }, err
}

func request(p *pb.Prompt, meta []byte) (task.Prompt, task.Reference, error) {
	if p.GetId() == "" {
		return task.Prompt{}, task.Reference{}, fmt.Errorf("%w: prompt.id is empty", errInvalid)
	}
	if len(meta) == 0 {
		meta = p.GetMetaJson()
	}
	out := task.Prompt{ID: p.GetId(), Question: p.GetQuestion(), DataSource: p.GetDataSource(), Meta: p.GetMetaJson()}
	ref := task.Reference{PromptID: p.GetId(), DataSource: p.GetDataSource(), Text: p.GetAnswerText(), Meta: meta}
	for _, a := range p.GetAnswers() {
		ref.Answers = append(ref.Answers, task.NamedAnswer{Name: a.GetName(), Value: a.GetValue()})
	}
	return out, ref, nil
}
