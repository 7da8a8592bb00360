package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/cmd/internal/cli"
	"github.com/verigraph/verigraph/internal/patience"
	"github.com/verigraph/verigraph/viewer"
)

const viewed = root + "viewer/testdata/run"

// startView runs verigraph view and returns the address that it printed.
func startView(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(patience.Context(t))
	r, w := io.Pipe()
	cmd := newRoot()
	cmd.SetArgs(append([]string{"view"}, args...))
	cmd.SetOut(w)
	done := make(chan error, 1)
	go func() {
		err := cmd.ExecuteContext(ctx)
		w.CloseWithError(io.EOF)
		done <- err
	}()
	line, err := bufio.NewReader(r).ReadString('\n')
	t.Cleanup(func() {
		cancel()
		require.NoError(t, patience.Receive(t, done, "its end"), "it ends when it is told to")
	})
	require.NoError(t, err)
	return strings.TrimSpace(line)
}

func fetch(t *testing.T, client *http.Client, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	resp, err := client.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(body)
}

func TestViewServesTheRunOnLoopbackUntilItIsStopped(t *testing.T) {
	t.Parallel()
	address := startView(t, viewed, "--compare", viewed)
	require.Regexp(t, `^http://127\.0\.0\.1:\d+/$`, address)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	code, page := fetch(t, client, address)
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, page, "app.js")
	code, data := fetch(t, client, address+"api/run")
	require.Equal(t, http.StatusOK, code)
	var o viewer.Two
	require.NoError(t, json.Unmarshal([]byte(data), &o))
	require.Equal(t, 8, o.Stats.Rollouts)
	require.Len(t, o.Runs, 2)
}

func TestViewBeyondLoopbackMakesATokenAndAsksForIt(t *testing.T) {
	t.Parallel()
	address := startView(t, viewed, "--listen", "0.0.0.0:0", "--host", "trainer.example.org")
	require.Regexp(t, `^http://trainer\.example\.org:\d+/\?token=`, address)
	base, token, ok := strings.Cut(address, "?token=")
	require.True(t, ok, address)
	require.GreaterOrEqual(t, len(token), 26)
	port := base[strings.LastIndex(base, ":"):]
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	code, body := fetch(t, client, "http://127.0.0.1"+port+"api/run")
	require.Equal(t, http.StatusUnauthorized, code)
	require.NotContains(t, body, token)
}

func TestViewRefusesWhatIsNoRun(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"no directory":       {[]string{"nowhere"}, "nowhere"},
		"no run":             {[]string{t.TempDir()}, "holds no run"},
		"a second of none":   {[]string{viewed, "--compare", t.TempDir()}, "holds no run"},
		"no port":            {[]string{viewed, "--listen", "127.0.0.1"}, "--listen"},
		"a broken tokenizer": {[]string{viewed, "--tokenizer", file}, file},
	} {
		code, _, stderr := verigraph(t, append([]string{"view"}, c.args...)...)
		require.Equal(t, cli.ExitUsage, code, name)
		require.Contains(t, stderr, c.says, name)
	}
}
