// Package rpc serves RewardService over gRPC, by the same Scorer that scores the queues.
//
// Invariants: a request gets one answer for each of its rollouts, with a score or a reason why there
// is none, or an error for the whole; a caller's deadline or departure never becomes a score; nothing
// of a rollout without a reward is sent as a number.
package rpc

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"

	"github.com/verigraph/verigraph/internal/grpcserve"
	pb "github.com/verigraph/verigraph/proto/verigraph/v1"
	"github.com/verigraph/verigraph/reward"
	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

// Scorer scores one rollout. *reward.Scorer is the real one; it is used from many goroutines.
type Scorer interface {
	Score(ctx context.Context, t trajectory.Trajectory, p task.Prompt, ref task.Reference) trajectory.Score
	Supports(ref task.Reference) error
	Preset() reward.Preset
}

var _ Scorer = (*reward.Scorer)(nil)

// Options are the server's settings.
type Options struct {
	// Token, when set, is the bearer token that every call but health checks must carry.
	Token Token
	// TLS, when set, is the server's transport security.
	TLS *tls.Config
	// MaxMessage bounds one request in bytes.
	MaxMessage int
	// MaxRollouts bounds the rollouts that are scored at once. Single calls beyond it are refused,
	// streams wait.
	MaxRollouts int
	// Deadline bounds a call whose caller set none.
	Deadline time.Duration
	// StopTimeout is how long open calls may take to end once the server stops.
	StopTimeout time.Duration
	// Paused, when set, says whether scoring is paused, and why.
	Paused func() (bool, string)
}

// Defaults are the settings of a local run.
func Defaults() Options {
	return Options{MaxMessage: 32 << 20, MaxRollouts: 256, Deadline: 10 * time.Minute, StopTimeout: 5 * time.Second}
}

// Server answers calls.
type Server struct {
	pb.UnimplementedRewardServiceServer
	scorer Scorer
	opts   Options
	slots  *semaphore.Weighted
}

// New checks the options.
func New(scorer Scorer, opts Options) (*Server, error) {
	if opts.MaxMessage <= 0 || opts.MaxRollouts <= 0 || opts.Deadline <= 0 || opts.StopTimeout <= 0 {
		return nil, errors.New("reward service: max message, max rollouts, deadline and stop timeout must be positive")
	}
	return &Server{scorer: scorer, opts: opts, slots: semaphore.NewWeighted(int64(opts.MaxRollouts))}, nil
}

// Serve answers calls on lis, which it closes, until ctx ends; it returns once every call has
// returned, or StopTimeout has passed.
func (s *Server) Serve(ctx context.Context, lis net.Listener) error {
	options := []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(s.unary), grpc.ChainStreamInterceptor(s.stream),
		grpc.MaxRecvMsgSize(s.opts.MaxMessage), grpc.WaitForHandlers(true),
	}
	if s.opts.TLS != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(s.opts.TLS)))
	}
	server := grpc.NewServer(options...)
	alive := health.NewServer()
	healthpb.RegisterHealthServer(server, alive)
	alive.SetServingStatus(pb.RewardService_ServiceDesc.ServiceName, healthpb.HealthCheckResponse_SERVING)
	pb.RegisterRewardServiceServer(server, s)
	reflection.Register(server)

	watch := func(ctx context.Context) { s.watch(ctx, alive) }
	if err := grpcserve.Until(ctx, server, alive, lis, s.opts.StopTimeout, watch); err != nil {
		return fmt.Errorf("reward service: %w", err)
	}
	return nil
}

// watchEvery is how often health follows the pausing of scoring.
const watchEvery = time.Second

// watch reports NOT_SERVING while scoring is paused.
func (s *Server) watch(ctx context.Context, alive *health.Server) {
	if s.opts.Paused == nil {
		return
	}
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		state := healthpb.HealthCheckResponse_SERVING
		if paused, _ := s.opts.Paused(); paused {
			state = healthpb.HealthCheckResponse_NOT_SERVING
		}
		alive.SetServingStatus(pb.RewardService_ServiceDesc.ServiceName, state)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// wire gives an error its wire form: the one table from error to code.
func wire(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	for _, row := range []struct {
		err  error
		code codes.Code
	}{
		{errInvalid, codes.InvalidArgument},
		{errPrecondition, codes.FailedPrecondition},
		{errFull, codes.ResourceExhausted},
		{errPaused, codes.Unavailable},
		{context.DeadlineExceeded, codes.DeadlineExceeded},
		{context.Canceled, codes.Canceled},
	} {
		if errors.Is(err, row.err) {
			return status.Error(row.code, err.Error())
		}
	}
	return status.Error(codes.Internal, err.Error())
}

var (
	errInvalid      = errors.New("invalid request")
	errPrecondition = errors.New("this server can't score it")
	errFull         = errors.New("too many rollouts at once")
	errPaused       = errors.New("scoring is paused")
)
