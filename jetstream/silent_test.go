package jetstream_test

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/jetstream"
)

// way is a TCP path to a server that can swallow everything from some moment on without telling anybody.
type way struct {
	url     string
	silent  chan struct{} // closed then
	running sync.WaitGroup
}

func newWay(t *testing.T, to string) *way {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	w := &way{url: "nats://" + l.Addr().String(), silent: make(chan struct{})}
	ctx, stop := context.WithCancel(context.Background())
	w.running.Go(func() {
		for {
			a, err := l.Accept()
			if err != nil {
				return
			}
			b, err := net.Dial("tcp", to)
			if err != nil {
				_ = a.Close()
				return
			}
			context.AfterFunc(ctx, func() { _ = a.Close(); _ = b.Close() })
			for _, c := range [][2]net.Conn{{a, b}, {b, a}} {
				w.running.Go(func() { _, _ = io.Copy(c[0], quiet{c[1], w.silent, ctx}) })
			}
		}
	})
	t.Cleanup(func() {
		stop()
		_ = l.Close()
		w.running.Wait()
	})
	return w
}

// quiet reads until it is silenced; then it waits for the end of the test.
type quiet struct {
	io.Reader
	silent <-chan struct{}
	ctx    context.Context
}

func (q quiet) Read(b []byte) (int, error) {
	n, err := q.Reader.Read(b)
	select {
	case <-q.silent:
		<-q.ctx.Done()
		return 0, io.EOF
	default:
		return n, err
	}
}

func TestClientLeavesAServerThatFellSilentWithoutClosingItsConnection(t *testing.T) {
	t.Parallel()
	s, err := jetstream.StartServer(jetstream.ServerConfig{Dir: t.TempDir(), Listen: true})
	require.NoError(t, err)
	defer s.Stop()
	to := strings.TrimPrefix(s.URL(), "nats://")
	ways := []*way{newWay(t, to), newWay(t, to)}
	nc, err := jetstream.Dial(ways[0].url+","+ways[1].url, "", "r1")
	require.NoError(t, err)
	defer nc.Close()
	moved := make(chan struct{}, 1)
	nc.SetReconnectHandler(func(*nats.Conn) { moved <- struct{}{} })
	before := nc.ConnectedUrl()
	for _, w := range ways {
		if w.url == before {
			close(w.silent)
		}
	}
	select {
	case <-moved:
	case <-time.After(time.Minute):
		t.Fatal("it still waits for a server that says nothing")
	}
	require.NotEqual(t, before, nc.ConnectedUrl())
	require.NoError(t, nc.FlushTimeout(time.Minute))
}
