package chaos

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// clockFile names the variable with the file that holds how far a process's wall clock is off, in seconds.
const clockFile = "CHAOS_CLOCK"

// clockSource is what the bed's binaries have in place of time.Now: only the wall clock moves, as when a host's
// clock is set; timers and what is measured between two readings go by the monotonic one.
const clockSource = `
var chaosOffset atomicInt64

type atomicInt64 struct{ v int64 }

func init() {
	path, ok := syscall.Getenv("` + clockFile + `")
	if !ok {
		return
	}
	go func() {
		for buf := make([]byte, 32); ; Sleep(100 * Millisecond) {
			fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
			if err != nil {
				continue
			}
			n, _ := syscall.Read(fd, buf)
			syscall.Close(fd)
			v, sign := int64(0), int64(1)
			for _, c := range buf[:max(n, 0)] {
				if c == '-' {
					sign = -1
				} else if c >= '0' && c <= '9' {
					v = v*10 + int64(c-'0')
				}
			}
			chaosOffset.v = v * sign
		}
	}()
}
`

// clockOverlay writes the standard library's time.Now with that in it, for go build -overlay.
func clockOverlay(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	out, err := exec.Command("go", "env", "GOROOT").Output()
	require.NoError(t, err)
	path := filepath.Join(strings.TrimSpace(string(out)), "src", "time", "time.go")
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	text := string(data)
	for _, r := range [][2]string{
		{"\tsec, nsec, mono := runtimeNow()\n\tif mono == 0 {", "\tsec, nsec, mono := runtimeNow()\n\tsec += chaosOffset.v\n\tif mono == 0 {"},
		{"import (\n", "import (\n\t\"syscall\"\n"},
	} {
		require.Equal(t, 1, strings.Count(text, r[0]), "the time package of this Go is not the one that the clock was made for: %q", r[0])
		text = strings.Replace(text, r[0], r[1], 1)
	}
	ours := filepath.Join(dir, "time.go")
	require.NoError(t, os.WriteFile(ours, []byte(text+clockSource), 0o600))
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {path: ours}})
	require.NoError(t, err)
	file := filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(file, overlay, 0o600))
	return file
}

// setClock moves the wall clock of a process that reads path.
func setClock(path string, by time.Duration) error {
	draft := path + ".draft"
	if err := os.WriteFile(draft, []byte(strconv.FormatInt(int64(by/time.Second), 10)), 0o644); err != nil {
		return err
	}
	return os.Rename(draft, path)
}
