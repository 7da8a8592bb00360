package main

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/internal/patience"
)

// checkProfiles fetches profiles of a process from its admin port and reads them with Go's own tool; its other port has none.
func checkProfiles(t *testing.T, client *http.Client, admin, other string) {
	t.Helper()
	for path, kind := range map[string]string{"heap": "Type: inuse_space", "profile?seconds=1": "Type: cpu", "goroutine": "Type: goroutine"} {
		status, data := fetch(t, client, "http://127.0.0.1:"+admin+"/debug/pprof/"+path)
		require.Equal(t, http.StatusOK, status, path)
		file := filepath.Join(t.TempDir(), "profile")
		require.NoError(t, os.WriteFile(file, []byte(data), 0o600))
		out, err := exec.CommandContext(t.Context(), "go", "tool", "pprof", "-top", file).CombinedOutput()
		require.NoError(t, err, string(out))
		require.Contains(t, string(out), kind)
	}
	if other == "" {
		return
	}
	conn, err := net.Dial("tcp", "127.0.0.1:"+other)
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(patience.Limit)))
	_, err = conn.Write([]byte("GET /debug/pprof/heap HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"))
	require.NoError(t, err)
	answer, _ := io.ReadAll(io.LimitReader(conn, 1<<16)) // it may end the connection as it likes
	require.NotContains(t, string(answer), "200 OK")
}

// checkLog says that what a process wrote is lines of JSON of its own name, and that none holds the text of a prompt.
func checkLog(t *testing.T, p *proc, name, prompt string) {
	t.Helper()
	text, _ := p.text()
	require.NotContains(t, text, prompt)
	for line := range strings.Lines(text) {
		var entry struct{ Level, Logger, Msg string }
		require.NoError(t, json.Unmarshal([]byte(line), &entry), line)
		require.Equal(t, name, entry.Logger, line)
		require.NotEmpty(t, entry.Level+entry.Msg, line)
	}
}
