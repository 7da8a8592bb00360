package feed

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"github.com/verigraph/verigraph/internal/grpcserve"
	pb "github.com/verigraph/verigraph/proto/verigraph/v1"
)

const (
	// maxReceive bounds one request: SubmitPrompts carries texts, not data files.
	maxReceive = 16 << 20
	// minPing is the shortest keepalive interval that a client may use.
	minPing = 10 * time.Second
	// pingIdle and pingTimeout find clients that vanished while their stream waits for a batch.
	pingIdle    = time.Minute
	pingTimeout = 20 * time.Second
)

// Options are the server's settings.
type Options struct {
	// Token, when set, is the bearer token that every call but health checks must carry.
	Token Token
	// TLS, when set, is the server's transport security; nil serves in the clear.
	TLS *tls.Config
	// SendTimeout is how long a reader may take for one chunk before it is dropped.
	SendTimeout time.Duration
	// StopTimeout is how long open calls may take to end once the server stops.
	StopTimeout time.Duration
}

// Defaults are the settings of a local run.
func Defaults() Options { return Options{SendTimeout: time.Minute, StopTimeout: 5 * time.Second} }

// Server serves one run.
type Server struct {
	source Source
	opts   Options
}

// New checks that the source is whole.
func New(source Source, opts Options) (*Server, error) {
	if source.Batches == nil || source.Objects == nil || source.Cursors == nil || source.Status == nil {
		return nil, errors.New("feed: the source needs Batches, Objects, Cursors and Status")
	}
	if opts.StopTimeout <= 0 || opts.SendTimeout <= 0 {
		return nil, fmt.Errorf("feed: stop timeout %s, send timeout %s: want positive ones", opts.StopTimeout, opts.SendTimeout)
	}
	return &Server{source: source, opts: opts}, nil
}

// Serve answers calls on lis, which it closes, until ctx ends; then it ends the open streams with
// UNAVAILABLE and returns nil once every call has returned, or StopTimeout has passed.
func (s *Server) Serve(ctx context.Context, lis net.Listener) error {
	server := grpc.NewServer(s.options()...)
	alive := health.NewServer()
	healthpb.RegisterHealthServer(server, alive)
	alive.SetServingStatus(pb.RolloutService_ServiceDesc.ServiceName, healthpb.HealthCheckResponse_SERVING)
	rollouts := &service{source: s.source, stopping: ctx, sendTimeout: s.opts.SendTimeout}
	pb.RegisterRolloutServiceServer(server, rollouts)
	defer rollouts.sending.Wait()
	reflection.Register(server)

	if err := grpcserve.Until(ctx, server, alive, lis, s.opts.StopTimeout); err != nil {
		return fmt.Errorf("feed: %w", err)
	}
	return nil
}

func (s *Server) options() []grpc.ServerOption {
	a := auth{token: s.opts.Token}
	options := []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(unaryStatus, a.unary),
		grpc.ChainStreamInterceptor(streamStatus, a.stream),
		grpc.MaxRecvMsgSize(maxReceive),
		grpc.WaitForHandlers(true),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPing, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: pingIdle, Timeout: pingTimeout}),
	}
	if s.opts.TLS != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(s.opts.TLS)))
	}
	return options
}

func unaryStatus(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	resp, err := next(ctx, req)
	return resp, toStatus(err)
}

func streamStatus(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	return toStatus(next(srv, stream))
}
