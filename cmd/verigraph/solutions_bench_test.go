package main

import (
	"bytes"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// begun notes when the run says that everything has started.
type begun struct {
	bytes.Buffer
	at time.Time
}

func (b *begun) Write(p []byte) (int, error) {
	if b.at.IsZero() && strings.HasPrefix(string(p), "run ") {
		b.at = time.Now()
	}
	return b.Buffer.Write(p)
}

// used is the CPU time of this process and of all sessions that it has reaped.
func used() (sum time.Duration) {
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		_ = syscall.Getrusage(who, &u)
		sum += time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	return sum
}

// BenchmarkHandedSolutions runs the 22 handed DABench solutions, 16 rollouts each, from import to the last
// delivered batch, the start of everything included.
func BenchmarkHandedSolutions(b *testing.B) {
	const rollouts = 22 * 16
	for i := 0; b.Loop(); i++ {
		out := filepath.Join(b.TempDir(), strconv.Itoa(i))
		var stderr begun
		var stdout bytes.Buffer
		cmd := newRoot()
		cmd.SetArgs(dabenchArgs(out, root+"examples/dabench/solutions.jsonl", "--group-size", "16"))
		cmd.SetOut(&stdout)
		cmd.SetErr(&stderr)
		begin, cpu := time.Now(), used()
		require.NoError(b, cmd.ExecuteContext(b.Context()), stderr.String())
		end := time.Now()
		b.ReportMetric(rollouts/end.Sub(begin).Seconds(), "trajectories/s")
		b.ReportMetric(rollouts/end.Sub(stderr.at).Seconds(), "trajectories/s-after-start")
		b.ReportMetric(stderr.at.Sub(begin).Seconds(), "start-s")
		b.ReportMetric((used()-cpu).Seconds()*1000/rollouts, "cpu-ms/trajectory")
	}
}
