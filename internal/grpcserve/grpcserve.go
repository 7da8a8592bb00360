// Package grpcserve is what both gRPC servers share: the bearer token and a stop that ends in time.
package grpcserve

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
)

// Token is a bearer token that no format verb and no encoder prints.
type Token string

// Format implements fmt.Formatter.
func (t Token) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("[redacted]")) }

// MarshalText keeps encoders from writing it.
func (t Token) MarshalText() ([]byte, error) { return []byte("[redacted]"), nil }

// Allows says whether a call carries the token. An empty token allows all. Health stays open, since a probe with
// a bad token would otherwise look like a server that is down.
func (t Token) Allows(ctx context.Context, method string) bool {
	if t == "" || strings.HasPrefix(method, "/"+healthpb.Health_ServiceDesc.ServiceName+"/") {
		return true
	}
	for _, value := range metadata.ValueFromIncomingContext(ctx, "authorization") {
		scheme, given, _ := strings.Cut(value, " ")
		if strings.EqualFold(scheme, "bearer") && t.equals(given) {
			return true
		}
	}
	return false
}

// equals takes the same time for every guess; hashing hides the length too.
func (t Token) equals(given string) bool {
	want, got := sha256.Sum256([]byte(t)), sha256.Sum256([]byte(given))
	return subtle.ConstantTimeCompare(want[:], got[:]) == 1
}

// Until serves lis, which it closes, until ctx ends, and the loops beside it. Then health says NOT_SERVING, and it
// returns nil once every call has returned, or limit has passed.
func Until(ctx context.Context, server *grpc.Server, alive *health.Server, lis net.Listener, limit time.Duration, beside ...func(context.Context)) error {
	g, ended := errgroup.WithContext(ctx)
	g.Go(func() error { return server.Serve(lis) })
	for _, loop := range beside {
		g.Go(func() error { loop(ended); return nil })
	}
	g.Go(func() error {
		<-ended.Done()
		alive.Shutdown()
		timer := time.AfterFunc(limit, server.Stop)
		defer timer.Stop()
		server.GracefulStop()
		return nil
	})
	if err := g.Wait(); err != nil && !(ctx.Err() != nil && errors.Is(err, grpc.ErrServerStopped)) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}
