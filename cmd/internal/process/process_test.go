package process

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

type paged struct{}

func (paged) Run(context.Context) error { return nil }
func (paged) Close() error              { return nil }
func (paged) Pages() map[string]http.Handler {
	return map[string]http.Handler{"/view/": http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { fmt.Fprint(w, req.URL.Path) })}
}

func TestThePagesOfAPartStandBesideHealthAndMetrics(t *testing.T) {
	t.Parallel()
	var ready atomic.Bool
	mux := adminMux(&ready, paged{})
	for path, want := range map[string]int{"/view/": 200, "/view/api/run": 200, "/view": 307, "/healthz": 200, "/readyz": 503, "/metrics": 200, "/other": 404} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		require.Equal(t, want, w.Code, path)
	}
}
