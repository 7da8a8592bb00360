package viewer

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func get(h http.Handler, path string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	req := httptest.NewRequest(http.MethodGet, path, nil)
	req.Host = "127.0.0.1:8900"
	for _, c := range change {
		c(req)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	return w
}

func host(name string) func(*http.Request)      { return func(r *http.Request) { r.Host = name } }
func header(k, v string) func(*http.Request)    { return func(r *http.Request) { r.Header.Set(k, v) } }
func method(name string) func(*http.Request)    { return func(r *http.Request) { r.Method = name } }
func cookie(c *http.Cookie) func(*http.Request) { return func(r *http.Request) { r.AddCookie(c) } }

func TestANameThatAnotherSiteCouldOwnIsRefused(t *testing.T) {
	t.Parallel()
	h := Handler(Guard{Hosts: []string{"trainer.example.org"}}, open(t, realRun))
	for name, want := range map[string]int{
		"127.0.0.1:8900": 200, "localhost:8900": 200, "LOCALHOST": 200, "[::1]:8900": 200, "10.0.0.7": 200, "trainer.example.org:8900": 200,
		"evil.example.com": 421, "evil.example.com:8900": 421, "127.0.0.1.nip.example": 421, "localhost.evil.example": 421, "": 421,
	} {
		require.Equal(t, want, get(h, "/api/run", host(name)).Code, name)
	}
}

func TestTheViewerOnlyReads(t *testing.T) {
	t.Parallel()
	h := Handler(Guard{}, open(t, realRun))
	for _, m := range []string{"POST", "PUT", "DELETE", "PATCH", "OPTIONS"} {
		require.Equal(t, http.StatusMethodNotAllowed, get(h, "/api/run", method(m)).Code, m)
	}
	require.Equal(t, http.StatusForbidden, get(h, "/api/run", header("Sec-Fetch-Site", "cross-site"), header("Sec-Fetch-Mode", "no-cors")).Code)
	require.Equal(t, http.StatusOK, get(h, "/", header("Sec-Fetch-Site", "cross-site"), header("Sec-Fetch-Mode", "navigate")).Code)
}

func TestEveryAnswerForbidsForeignAndInlineCode(t *testing.T) {
	t.Parallel()
	h := Handler(Guard{Token: "secret-secret-secret"}, open(t, realRun))
	for _, path := range []string{"/", "/app.js", "/api/run", "/nothing", "/?token=wrong"} {
		for _, auth := range []string{"", "Bearer secret-secret-secret"} {
			w := get(h, path, header("Authorization", auth))
			csp := w.Header().Get("Content-Security-Policy")
			require.Contains(t, csp, "default-src 'none'", path)
			require.Contains(t, csp, "require-trusted-types-for 'script'", path)
			require.NotContains(t, csp, "unsafe", path)
			require.NotContains(t, csp, "http", path)
			require.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"), path)
			require.Empty(t, w.Header().Get("Access-Control-Allow-Origin"), path)
		}
	}
}

func TestATokenIsGivenOnceInTheAddressAndThenLivesInACookie(t *testing.T) {
	t.Parallel()
	h := http.StripPrefix("/view", Handler(Guard{Token: "secret-secret-secret"}, open(t, realRun)))
	for _, path := range []string{"/view/", "/view/app.js", "/view/api/run", "/view/?token=", "/view/?token=secret-secret-secreT", "/view/?token=secret"} {
		w := get(h, path)
		require.Equal(t, http.StatusUnauthorized, w.Code, path)
		require.NotContains(t, w.Body.String(), "secret-secret", path)
	}
	w := get(h, "/view/?token=secret-secret-secret")
	require.Equal(t, http.StatusSeeOther, w.Code)
	require.Equal(t, "./", w.Header().Get("Location"), "the token is gone from the address")
	c := w.Result().Cookies()[0]
	require.True(t, c.HttpOnly)
	require.Equal(t, http.SameSiteStrictMode, c.SameSite)
	require.NotContains(t, c.String(), "secret")
	require.Equal(t, http.StatusOK, get(h, "/view/api/run", cookie(c)).Code)
	require.Equal(t, http.StatusOK, get(h, "/view/api/run", header("Authorization", "Bearer secret-secret-secret")).Code)
	require.Equal(t, http.StatusUnauthorized, get(h, "/view/api/run", cookie(&http.Cookie{Name: c.Name, Value: "secret-secret-secret"})).Code)
	require.Equal(t, http.StatusUnauthorized, get(h, "/view/api/run", header("Authorization", "Bearer wrong")).Code)
}

func TestAnAddressBeyondThisMachineNeedsAToken(t *testing.T) {
	t.Parallel()
	for address, ok := range map[string]bool{
		"127.0.0.1:0": true, "localhost:80": true, "[::1]:0": true, "127.8.9.1:1": true,
		"0.0.0.0:0": false, ":8900": false, "[::]:0": false, "10.1.2.3:80": false, "trainer.example.org:80": false,
	} {
		err := Guard{}.Listen(address)
		if ok {
			require.NoError(t, err, address)
		} else {
			require.ErrorIs(t, err, ErrOpen, address)
		}
		require.NoError(t, Guard{Token: "secret-secret-secret"}.Listen(address))
	}
	require.Error(t, Guard{}.Listen("127.0.0.1"))
}

func TestNoVerbPrintsAToken(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		require.False(t, strings.Contains(fmt.Sprintf(format, Guard{Token: "secret-secret-secret"}), "secret-"), format)
	}
}
