// Package tracingtest is an OTLP collector for tests.
package tracingtest

import (
	"context"
	"net"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
)

// Collector keeps what it is sent.
type Collector struct {
	collector.UnimplementedTraceServiceServer
	mu   sync.Mutex
	all  []*otlp.ResourceSpans
	grew chan struct{}
}

// Start serves until the test ends.
func Start(t testing.TB) (c *Collector, endpoint string) {
	t.Helper()
	c = &Collector{grew: make(chan struct{})}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer()
	collector.RegisterTraceServiceServer(server, c)
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-done; err != nil {
			require.ErrorIs(t, err, grpc.ErrServerStopped) // stopped before it began
		}
	})
	return c, "http://" + l.Addr().String()
}

// Export implements the OTLP service.
func (c *Collector) Export(_ context.Context, req *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, req.GetResourceSpans()...)
	close(c.grew)
	c.grew = make(chan struct{})
	return &collector.ExportTraceServiceResponse{}, nil
}

// Received is what came so far; the channel closes when there is more.
func (c *Collector) Received() ([]*otlp.ResourceSpans, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.all), c.grew
}
