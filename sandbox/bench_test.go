package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/verigraph/verigraph/trajectory"
)

// benchBox is a sandbox of one named configuration.
func benchBox(b *testing.B, change func(*Config)) *Sandbox {
	b.Helper()
	cfg := testConfig()
	cfg.Engine = EngineZygote
	change(&cfg)
	// The tier is the one that is named, also where this host gives a better one.
	python, err := inspect(b.Context(), cfg.Python)
	require.NoError(b, err)
	s, err := newSandbox(b.Context(), cfg, python, []Tier{cfg.MinTier})
	require.NoError(b, err)
	require.Equal(b, cfg.Engine, s.Stats().Engine, s.Stats().Fallback)
	b.Cleanup(func() { require.NoError(b, s.Close()) })
	return s
}

func density(*Config)      {}
func throughput(c *Config) { c.Profile = ProfileThroughput }
func confined(c *Config)   { c.MinTier = TierConfined }
func fresh(c *Config)      { c.Engine = EngineFresh }

// cell runs one cell that has to print want.
func cell(b *testing.B, sess Session, code, want string) {
	res, err := sess.Run(b.Context(), code, &graph{})
	require.NoError(b, err)
	require.Equal(b, trajectory.CellOK, res.Status, res.Traceback)
	require.Equal(b, want, res.Output)
}

// spread reports the quantiles of times.
func spread(b *testing.B, times []time.Duration) {
	slices.Sort(times)
	ms := func(q float64) float64 { return float64(times[int(q*float64(len(times)-1))]) / 1e6 }
	b.ReportMetric(ms(0), "min-ms")
	b.ReportMetric(ms(0.5), "p50-ms")
	b.ReportMetric(ms(0.99), "p99-ms")
	b.ReportMetric(0, "ns/op")
}

// cpu is the CPU time of this process and of those it has reaped.
func cpu() time.Duration {
	var sum int64
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		_ = syscall.Getrusage(who, &u)
		sum += u.Utime.Nano() + u.Stime.Nano()
	}
	return time.Duration(sum)
}

const imports = "import pandas, numpy, scipy.stats, sklearn.linear_model, sklearn.ensemble, statsmodels.api, matplotlib.pyplot\nprint(1)"

func BenchmarkColdStartToFirstResult(b *testing.B) {
	b.Run("fresh-python3", func(b *testing.B) {
		var times []time.Duration
		for b.Loop() {
			begin := time.Now()
			out, err := exec.Command(python, "-c", imports).Output()
			require.NoError(b, err)
			require.Equal(b, "1\n", string(out))
			times = append(times, time.Since(begin))
		}
		spread(b, times)
	})
	for _, row := range []struct {
		name   string
		change func(*Config)
	}{{"spawn-per-session", fresh}, {"density", density}, {"confined", confined}} {
		b.Run(row.name, func(b *testing.B) {
			s := benchBox(b, row.change)
			var times []time.Duration
			for b.Loop() {
				begin := time.Now()
				sess, err := s.Start(b.Context(), Spec{})
				require.NoError(b, err)
				cell(b, sess, imports, "1\n")
				times = append(times, time.Since(begin))
				require.NoError(b, sess.Close())
			}
			spread(b, times)
		})
	}
}

// BenchmarkClaimToFirstResult claims from a full pool.
func BenchmarkClaimToFirstResult(b *testing.B) {
	s := benchBox(b, throughput)
	data := b.TempDir() + "/a.csv"
	require.NoError(b, os.WriteFile(data, []byte("x\n1\n"), 0o644))
	var times []time.Duration
	for b.Loop() {
		// Outside what is measured: the times below are taken by hand.
		require.Eventually(b, func() bool { return len(s.warm.ready) == cap(s.warm.ready) }, 20*time.Second, time.Millisecond)
		begin := time.Now()
		sess, err := s.Start(b.Context(), Spec{Files: map[string]string{"a.csv": data}})
		require.NoError(b, err)
		cell(b, sess, "print(1)", "1\n")
		times = append(times, time.Since(begin))
		require.NoError(b, sess.Close())
	}
	spread(b, times)
}

// BenchmarkStarts counts whole sessions (start, one cell, close) by the CPU that they take.
func BenchmarkStarts(b *testing.B) {
	s := benchBox(b, density)
	before := cpu()
	begin := time.Now()
	for b.Loop() {
		sess, err := s.Start(b.Context(), Spec{})
		require.NoError(b, err)
		cell(b, sess, "print(1)", "1\n")
		require.NoError(b, sess.Close())
	}
	b.ReportMetric(float64(b.N)/(cpu()-before).Seconds(), "starts/cpu-s")
	b.ReportMetric(float64(b.N)/time.Since(begin).Seconds(), "starts/s")
}

// BenchmarkTrivialCells runs cells in eight sessions at once.
func BenchmarkTrivialCells(b *testing.B) {
	s := benchBox(b, density)
	const sessions = 8
	var list []Session
	for range sessions {
		sess, err := s.Start(b.Context(), Spec{})
		require.NoError(b, err)
		b.Cleanup(func() { sess.Close() })
		cell(b, sess, "print(1)", "1\n")
		list = append(list, sess)
	}
	used := func() time.Duration {
		sum := cpu()
		for _, sess := range list {
			sum += sess.(*session).proc.cpu()
		}
		return sum
	}
	const each = 500
	cells, before, begin := 0, used(), time.Now()
	for b.Loop() {
		var wg sync.WaitGroup
		for _, sess := range list {
			wg.Go(func() {
				for range each {
					cell(b, sess, "print(1)", "1\n")
				}
			})
		}
		wg.Wait()
		cells += sessions * each
	}
	b.ReportMetric(float64(cells)/(used()-before).Seconds(), "cells/cpu-s")
	b.ReportMetric(float64(cells)/time.Since(begin).Seconds(), "cells/s")
}

// BenchmarkKill measures from the decision to end a running session until nothing of it is left.
func BenchmarkKill(b *testing.B) {
	for name, code := range map[string]string{
		"idle":    "x = 1",
		"tables":  "import pandas as pd, numpy as np\ndf = pd.DataFrame(np.random.rand(200_000, 8)); df2 = df.describe()",
		"threads": "import threading\nfor _ in range(30): threading.Thread(target=threading.Event().wait).start()",
	} {
		b.Run(name, func(b *testing.B) {
			s := benchBox(b, density)
			var times []time.Duration
			for b.Loop() {
				sess, err := s.Start(b.Context(), Spec{})
				require.NoError(b, err)
				cell(b, sess, code, "")
				begin := time.Now()
				require.NoError(b, sess.Close())
				times = append(times, time.Since(begin))
			}
			spread(b, times)
		})
	}
}

// BenchmarkThousandSessions starts a thousand sessions that live at once, each with one cell run.
func BenchmarkThousandSessions(b *testing.B) {
	const n = 1000
	s := benchBox(b, func(c *Config) { c.MaxSessions = n })
	for b.Loop() {
		free, begin, before, ours := available(b), time.Now(), kilobytes(b, "/proc/meminfo"), rollup(b, os.Getpid())["Private_Dirty"]
		var list []Session
		for range n {
			sess, err := s.Start(b.Context(), Spec{})
			require.NoError(b, err)
			cell(b, sess, "print(1)", "1\n")
			list = append(list, sess)
		}
		b.ReportMetric(time.Since(begin).Seconds(), "start-s")
		b.ReportMetric(float64(free-available(b))/n/1024, "MiB-available/session")
		// Part of the figure above: what the supervisor, here the test, keeps for its sessions.
		b.ReportMetric(float64(rollup(b, os.Getpid())["Private_Dirty"]-ours)/n/1024, "MiB-supervisor/session")
		after := kilobytes(b, "/proc/meminfo")
		for _, name := range []string{"AnonPages", "PageTables", "KernelStack", "SUnreclaim", "SReclaimable", "Percpu", "Shmem", "SecPageTables", "Mapped"} {
			b.ReportMetric(float64(after[name]-before[name])/n, name+"-KiB/session")
		}
		var pss, private int64
		for _, sess := range list {
			m := rollup(b, sess.(*session).proc.pid)
			pss += m["Pss"]
			private += m["Private_Dirty"] + m["Private_Clean"]
		}
		b.ReportMetric(float64(pss)/n/1024, "MiB-pss/session")
		b.ReportMetric(float64(private)/n/1024, "MiB-private/session")
		begin = time.Now()
		for _, sess := range list {
			require.NoError(b, sess.Close())
		}
		b.ReportMetric(time.Since(begin).Seconds(), "end-s")
	}
}

// available is MemAvailable in KiB.
func available(b *testing.B) int64 { return kilobytes(b, "/proc/meminfo")["MemAvailable"] }

func rollup(b *testing.B, pid int) map[string]int64 {
	return kilobytes(b, fmt.Sprintf("/proc/%d/smaps_rollup", pid))
}

func kilobytes(b *testing.B, path string) map[string]int64 {
	b.Helper()
	text, err := os.ReadFile(path)
	require.NoError(b, err)
	out := map[string]int64{}
	for line := range strings.Lines(string(text)) {
		var n int64
		if name, rest, ok := strings.Cut(line, ":"); ok {
			if _, err := fmt.Sscan(rest, &n); err == nil {
				out[name] = n
			}
		}
	}
	return out
}
