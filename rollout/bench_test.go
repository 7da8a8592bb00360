package rollout

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/verigraph/verigraph/internal/patience"
	"github.com/verigraph/verigraph/policy"
	"github.com/verigraph/verigraph/policy/chat"
	"github.com/verigraph/verigraph/policy/pool"
	"github.com/verigraph/verigraph/policy/scripted"
	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

// The load of DESIGN's worker: 1,000 trajectories at once, 10 turns, 4k prompt ids, 300 new ids a turn.
const (
	benchTrajectories = 1000
	benchTurns        = 10
	benchMedian       = 2 * time.Second
	// Bars: worker CPU for each turn, memory for each trajectory, cells left out of both.
	barCPUms = 4.0
	barKB    = 600.0

	serverEnv = "VERIGRAPH_BENCH_SERVER"
)

func TestMain(m *testing.M) {
	if os.Getenv(serverEnv) != "" {
		benchServer()
		return
	}
	patience.Main(m)
}

// words is text of about n tokens.
func words(n int) string {
	list := []string{"mean", "fare", "of", "the", "table", "and", "then", "rows", "count", "value"}
	r := rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	for range n {
		b.WriteString(list[r.IntN(len(list))])
		b.WriteByte(' ')
	}
	return b.String()
}

// benchServer is the engine, in a process of its own: it ends when its standard input does.
func benchServer() {
	turns := make([]string, benchTurns)
	for i := range turns {
		turns[i] = "<think>\n" + words(280) + "\n</think>\n<code_interpreter>\nx\n</code_interpreter>"
	}
	turns[benchTurns-1] = strings.Replace(turns[benchTurns-1], "\nx\n", "\nsubmit\n", 1)
	line, err := json.Marshal(map[string]any{"prompt_id": "p", "turns": turns})
	fatal(err)
	script, err := scripted.ReadScript(strings.NewReader(string(line)), "bench")
	fatal(err)
	cfg := scripted.Defaults()
	cfg.Latency = func(i scripted.CallInfo) time.Duration {
		r := rand.New(rand.NewPCG(uint64(i.ID.Sample), uint64(i.Turn)))
		return time.Duration(float64(benchMedian) * math.Exp(0.5*r.NormFloat64()))
	}
	s, err := scripted.New(script, cfg)
	fatal(err)
	url, stop, err := s.Start(context.Background())
	fatal(err)
	fmt.Println(url)
	_, _ = bufio.NewReader(os.Stdin).ReadByte()
	stop()
}

func fatal(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func startBenchServer(b *testing.B) (url string) {
	b.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), serverEnv+"=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(b, err)
	out, err := cmd.StdoutPipe()
	require.NoError(b, err)
	require.NoError(b, cmd.Start())
	b.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	url, err = bufio.NewReader(out).ReadString('\n')
	require.NoError(b, err)
	return strings.TrimSpace(url)
}

// benchRunner is a whole runner but for the cells.
func benchRunner(b *testing.B, url string) (*Runner, *pool.Pool) {
	b.Helper()
	cfg, spread := policy.Defaults(), pool.Defaults()
	cfg.BaseURL, cfg.Model = url, scripted.Defaults().Model
	spread.StartInFlight, spread.MaxInFlight = benchTrajectories, benchTrajectories
	p, err := pool.New(spread, cfg, zap.NewNop())
	require.NoError(b, err)
	p.CheckNow(b.Context())
	tok, err := scripted.Tokenizer()
	require.NoError(b, err)
	ml, err := chat.New(tok)
	require.NoError(b, err)
	system := filepath.Join(b.TempDir(), "system.txt")
	require.NoError(b, os.WriteFile(system, []byte(words(3900)), 0o600))
	templates, err := LoadTemplates(PromptFiles{System: system})
	require.NoError(b, err)
	rc := Defaults()
	rc.MaxPromptTokens, rc.MaxContext = 8192, scripted.Defaults().MaxModelLen
	return &Runner{
		Config: rc, Policy: p, Tokenizer: tok, Chat: ml, Sandbox: &fakeSandbox{output: words(40)},
		Analyzer: fakeAnalyzer{}, Templates: templates, Version: p.Version,
	}, p
}

// countingPolicy says when a number of calls was made.
type countingPolicy struct {
	Policy
	calls   atomic.Int64
	at      int64
	reached chan struct{}
}

func (c *countingPolicy) Complete(ctx context.Context, r policy.Request) (policy.Completion, error) {
	if c.calls.Add(1) == c.at {
		close(c.reached)
	}
	return c.Policy.Complete(ctx, r)
}

func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // it cannot fail for RUSAGE_SELF
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func descriptors() int {
	list, _ := os.ReadDir("/proc/self/fd")
	return len(list)
}

// memory is what the Go runtime holds for live objects and stacks.
func memory() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

func BenchmarkThousandConcurrentTrajectories(b *testing.B) {
	url := startBenchServer(b)
	for b.Loop() {
		r, p := benchRunner(b, url)
		fds, goroutines, before := descriptors(), runtime.NumGoroutine(), memory()
		begin, used := time.Now(), cpu()
		var all sync.WaitGroup
		out := make([]trajectory.Trajectory, benchTrajectories)
		for i := range out {
			all.Go(func() {
				d := task.Dispatch{ID: "p-0", Run: "r", Prompt: task.Prompt{ID: "p", Question: "What is the mean fare?"}, GroupSize: benchTrajectories}
				out[i] = r.Run(context.Background(), d, i, 0, nil)
			})
		}
		// When nine tenths of all calls were made the trajectories hold nearly all that they ever will.
		peak := uint64(0)
		count := &countingPolicy{Policy: p, at: benchTrajectories * benchTurns * 9 / 10, reached: make(chan struct{})}
		r.Policy = count
		done := make(chan struct{})
		go func() {
			defer close(done)
			all.Wait()
		}()
		select {
		case <-count.reached:
			peak = memory() - before
		case <-done: // some ended early: the checks below say why
		}
		<-done
		wall, spent := time.Since(begin), cpu()-used
		sampled := 0
		for _, t := range out {
			require.Equal(b, trajectory.Submitted, t.Termination, t.Error)
			require.Len(b, t.Turns, benchTurns)
			for _, turn := range t.Turns {
				sampled += turn.SampledIDs
			}
		}
		p.Close()
		http.DefaultClient.CloseIdleConnections()
		require.Eventually(b, func() bool { return descriptors() <= fds && runtime.NumGoroutine() <= goroutines }, 10*time.Second, 50*time.Millisecond,
			"goroutines or descriptors are left")
		turns := float64(benchTrajectories * benchTurns)
		perTurn, perTrajectory := spent.Seconds()*1000/turns, float64(peak)/1000/benchTrajectories
		b.ReportMetric(perTurn, "cpu-ms/turn")
		b.ReportMetric(perTrajectory, "kB/trajectory")
		b.ReportMetric(float64(sampled)/turns, "ids/turn")
		b.ReportMetric(float64(len(out[0].Segments[0].PromptIDs)), "prompt-ids")
		b.ReportMetric(wall.Seconds(), "s/run")
		if perTurn > barCPUms || perTrajectory > barKB {
			b.Errorf("%.2f ms CPU for each turn and %.0f kB for each trajectory: the bars are %.0f ms and %.0f kB", perTurn, perTrajectory, barCPUms, barKB)
		}
	}
}
