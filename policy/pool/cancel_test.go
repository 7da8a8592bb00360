package pool

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/internal/patience"
)

// replica is a policy server that never answers a completion, and says which one was left.
func replica(t *testing.T, arrived, left chan string) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/completions" {
			http.NotFound(w, r)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body) // a close is seen once the body is read
		arrived <- r.Header.Get("X-Request-Id")
		<-r.Context().Done()
		left <- r.Header.Get("X-Request-Id")
	}))
	t.Cleanup(s.Close)
	return s
}

// gateway sends each request to the next replica, as a load balancer does that knows no sessions.
func gateway(t *testing.T, replicas ...*httptest.Server) *httptest.Server {
	t.Helper()
	var turn atomic.Int64
	s := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			to, err := url.Parse(replicas[int(turn.Add(1))%len(replicas)].URL)
			if err == nil {
				r.SetURL(to)
			}
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	})
	t.Cleanup(s.Close)
	return s
}

// An abort by request id sent to such a gateway would reach any replica: the closed connection alone
// goes where the call is.
func TestACanceledCallIsClosedAtTheReplicaThatServesItAlsoBehindAGateway(t *testing.T) {
	t.Parallel()
	for name, front := range map[string]func(*testing.T, *httptest.Server, *httptest.Server) *Pool{
		"direct": func(t *testing.T, a, b *httptest.Server) *Pool { return newPool(t, nil, a.URL, b.URL) },
		"behind a gateway": func(t *testing.T, a, b *httptest.Server) *Pool {
			return newPool(t, nil, gateway(t, a, b).URL)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			arrived, left := make(chan string, 8), make(chan string, 8)
			p := front(t, replica(t, arrived, left), replica(t, arrived, left))
			cancels := map[string]context.CancelFunc{}
			ended := make(chan error, 4)
			for _, session := range []string{"a", "b", "c", "d"} {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				cancels[session+".0.0"] = cancel
				go func() { _, err := p.Complete(ctx, ask(session)); ended <- err }()
				require.Equal(t, session+".0.0", patience.Receive(t, arrived, "the call"))
			}
			for _, id := range []string{"c.0.0", "a.0.0", "d.0.0", "b.0.0"} {
				cancels[id]()
				require.ErrorIs(t, patience.Receive(t, ended, "its end"), context.Canceled)
				require.Equal(t, id, patience.Receive(t, left, "the end of the call"), "this call, and no other")
			}
			require.Empty(t, left)
			for _, s := range p.Status() {
				require.Zero(t, s.InFlight)
			}
		})
	}
}
