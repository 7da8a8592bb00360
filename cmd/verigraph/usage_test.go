package main

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// clockTick is the unit of processor times in /proc (USER_HZ).
const clockTick = 10 * time.Millisecond

// stat are the fields of /proc/PID/stat that are counted here.
type stat struct {
	pid, parent   int
	own, children time.Duration // children: of those that ended and were waited for
}

func readStat(pid int) (s stat, ok bool) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return s, false
	}
	f := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	if len(f) < 15 {
		return s, false
	}
	n := func(i int) int {
		v, _ := strconv.Atoi(f[i])
		return v
	}
	ticks := func(a, b int) time.Duration { return time.Duration(n(a)+n(b)) * clockTick }
	return stat{pid, n(1), ticks(11, 12), ticks(13, 14)}, true
}

// below lists the processes below pid.
func below(pid int) (out []stat) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	children := map[int][]stat{}
	for _, d := range dirs {
		id, _ := strconv.Atoi(filepath.Base(d))
		if s, ok := readStat(id); ok {
			children[s.parent] = append(children[s.parent], s)
		}
	}
	for next := []int{pid}; len(next) > 0; {
		of := children[next[0]]
		next = next[1:]
		for _, s := range of {
			out, next = append(out, s), append(next, s.pid)
		}
	}
	return out
}

// cpuOf is the processor time of a process itself, and of all that it started: living and ended.
func cpuOf(pid int) (own, started time.Duration) {
	s, _ := readStat(pid)
	own, started = s.own, s.children
	for _, c := range below(pid) {
		started += c.own + c.children
	}
	return own, started
}

// kib reads one line of a file in /proc/PID.
func kib(pid int, file, key string) int64 {
	f, err := os.Open(fmt.Sprintf("/proc/%d/%s", pid, file))
	if err != nil {
		return 0
	}
	defer f.Close()
	for r := bufio.NewScanner(f); r.Scan(); {
		if rest, ok := strings.CutPrefix(r.Text(), key+":"); ok {
			n, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return n
		}
	}
	return 0
}

// series reads a process's metrics: the sum of all samples by name, and by name with labels.
func series(t *testing.T, admin string) map[string]float64 {
	t.Helper()
	response, err := http.Get("http://" + admin + "/metrics")
	require.NoError(t, err)
	defer response.Body.Close()
	out := map[string]float64{}
	for r := bufio.NewScanner(response.Body); r.Scan(); {
		name, value, ok := strings.Cut(r.Text(), " ")
		if !ok || strings.HasPrefix(name, "#") {
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		require.NoError(t, err, r.Text())
		out[name] += v
		if bare, _, labelled := strings.Cut(name, "{"); labelled {
			out[bare] += v
		}
	}
	return out
}
