package sandbox

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/internal/patience"
)

// python is the interpreter that `make python` sets up.
var python = filepath.Join("..", ".venv", "sandbox", "bin", "python")

func TestMain(m *testing.M) {
	MaybeInit()
	if os.Getenv(supervisorEnv) != "" {
		superviseForEver()
	}
	if code, again := inOwnMounts(); again {
		os.Exit(code)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience.Limit)
	if err := CheckPython(ctx, Config{Python: python}); err != nil {
		fmt.Fprintln(os.Stderr, "the tests need the session environment: run `make python`:", err)
		os.Exit(1)
	}
	cancel()
	code := runEngines(m)
	if code == 0 {
		if err := patience.Leak(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// ownMountsEnv marks the test binary that inOwnMounts started.
const ownMountsEnv = "SANDBOX_TEST_OWN_MOUNTS"

// inOwnMounts runs the tests in a mount namespace of their own where it can: they compare the host's mounts
// before and after a cell, and other programs mount too.
func inOwnMounts() (code int, again bool) {
	if os.Geteuid() != 0 || os.Getenv(ownMountsEnv) != "" {
		return 0, false
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), ownMountsEnv+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread() // the death signal comes with the end of this thread
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		return 0, false // not allowed here
	}
	return cmd.ProcessState.ExitCode(), true
}

// engine is the one that the tests run on.
var engine = EngineZygote

// runEngines runs all tests on each engine: what cells and callers can count on is the same. It is
// the conformance suite of engines. Benchmarks choose their own.
func runEngines(m *testing.M) int {
	code := 0
	for _, engine = range []Engine{EngineZygote, EngineFresh} {
		if only := os.Getenv(engineEnv); only != "" && only != string(engine) {
			continue
		}
		if engine == EngineZygote && environmentHidden() {
			fmt.Println("engine zygote: not here, the environment lies below " + tmpDir)
			continue
		}
		fmt.Println("engine", engine)
		code = max(code, m.Run())
		if shared != nil {
			if err := shared.Close(); err != nil {
				fmt.Fprintln(os.Stderr, err)
				code = 1
			}
			shared, sharedOnce = nil, sync.Once{}
		}
		if f := flag.Lookup("test.bench"); f != nil && f.Value.String() != "" {
			break
		}
	}
	return code
}

// environmentHidden: no zygote serves an environment below /tmp (see hatch).
func environmentHidden() bool {
	i, err := inspect(context.Background(), python)
	if err != nil {
		return false // the tests say it better
	}
	_, hidden := i.hiddenByTmp()
	return hidden
}

// engineEnv restricts the tests to one engine.
const engineEnv = "SANDBOX_TEST_ENGINE"

// supervisorEnv makes the test binary a supervisor with one busy session, for a test to kill.
const supervisorEnv = "SANDBOX_TEST_SUPERVISOR"

func superviseForEver() {
	s, err := New(testConfig())
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	sess, err := s.Start(context.Background(), Spec{})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	g := &graph{onReport: func(evidence.Report) { fmt.Println(sess.(*session).proc.pid) }}
	_, _ = sess.Run(context.Background(), "x = 1\nwhile True: pass", g)
	os.Exit(1)
}

var (
	sharedOnce sync.Once
	shared     *Sandbox
	sharedErr  error
)

func testConfig() Config {
	cfg := Defaults()
	cfg.Python, cfg.Engine = python, engine
	cfg.Limits.CellWall, cfg.Limits.CellCPU, cfg.StartTimeout = patience.Limit, patience.Limit, patience.Limit
	if insideGVisor() {
		cfg.MinTier = TierGVisor
	}
	return cfg
}

// box is the sandbox that tests share.
func box(t *testing.T) *Sandbox {
	t.Helper()
	sharedOnce.Do(func() { shared, sharedErr = New(testConfig()) })
	require.NoError(t, sharedErr)
	return shared
}

// own is a sandbox of the test's own.
func own(t *testing.T, change func(*Config)) *Sandbox {
	t.Helper()
	cfg := testConfig()
	change(&cfg)
	s, err := New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// start starts a session that holds the given data files (name to content).
func start(t *testing.T, s *Sandbox, files map[string]string) Session {
	t.Helper()
	spec := Spec{Files: map[string]string{}, Seed: 7}
	dir := t.TempDir()
	i := 0
	for name, content := range files {
		path := filepath.Join(dir, fmt.Sprint("blob", i))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
		spec.Files[name] = path
		i++
	}
	sess, err := s.Start(t.Context(), spec)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, sess.Close()) })
	return sess
}

// run runs one cell with a fresh graph.
func run(t *testing.T, sess Session, code string) Result {
	t.Helper()
	return runWith(t, sess, code, &graph{})
}

func runWith(t *testing.T, sess Session, code string, host Host) Result {
	t.Helper()
	res, err := sess.Run(patience.Context(t), code, host)
	require.NoError(t, err)
	return res
}

// graph is a Host that takes everything, or refuses with refuse, and keeps what it was told.
type graph struct {
	refuse    string
	reports   []evidence.Report
	binds     []evidence.BindRequest
	infers    []evidence.InferRequest
	submits   []evidence.SubmitRequest
	taints    []string
	onReport  func(evidence.Report)
	ids       int
	lastOrder []string
}

func (g *graph) Completed(r evidence.Report) {
	g.reports = append(g.reports, r)
	g.lastOrder = append(g.lastOrder, fmt.Sprint("completed ", r.Index))
	if g.onReport != nil {
		g.onReport(r)
	}
}

func (g *graph) Taint(statement int, construct string) {
	g.taints = append(g.taints, construct)
}

func (g *graph) refusal() *evidence.Refusal {
	if g.refuse == "" {
		return nil
	}
	return &evidence.Refusal{Rule: "test", Message: g.refuse}
}

func (g *graph) id() string {
	g.ids++
	return fmt.Sprint("c", g.ids)
}

func (g *graph) Bind(r evidence.BindRequest) (string, string, *evidence.Refusal) {
	g.binds = append(g.binds, r)
	g.lastOrder = append(g.lastOrder, fmt.Sprint("bind ", r.Statement))
	if ref := g.refusal(); ref != nil {
		return "", "", ref
	}
	return g.id(), "text of " + r.Template, nil
}

func (g *graph) Infer(r evidence.InferRequest) (string, string, *evidence.Refusal) {
	g.infers = append(g.infers, r)
	if ref := g.refusal(); ref != nil {
		return "", "", ref
	}
	return g.id(), r.Conclusion, nil
}

func (g *graph) Submit(r evidence.SubmitRequest) *evidence.Refusal {
	g.submits = append(g.submits, r)
	return g.refusal()
}
