package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/internal/patience"
	"github.com/verigraph/verigraph/policy/scripted"
)

// restarted is a process that is stopped and started again.
type restarted struct {
	path  string
	args  []string
	says  string // when it is ready
	ended chan error
	*proc
}

func launch(t *testing.T, says, path string, args ...string) *restarted {
	t.Helper()
	r := &restarted{path: path, args: args, says: says}
	r.start(t)
	t.Cleanup(func() { _ = r.end(t, syscall.SIGTERM, time.Minute) })
	return r
}

func (r *restarted) start(t *testing.T) {
	t.Helper()
	p := &proc{cmd: exec.Command(r.path, r.args...), grew: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.Dir = p, p, root
	require.NoError(t, p.cmd.Start())
	r.proc, r.ended = p, make(chan error, 1)
	go func() { r.ended <- p.cmd.Wait() }()
}

// end sends a signal and waits for the end.
func (r *restarted) end(t *testing.T, s syscall.Signal, limit time.Duration) error {
	t.Helper()
	_ = r.proc.cmd.Process.Signal(s)
	select {
	case err := <-r.ended:
		r.ended <- err
		return err
	case <-time.After(limit):
		_ = r.proc.cmd.Process.Kill()
		t.Errorf("%s did not end within %s of %s", filepath.Base(r.path), limit, s)
		return <-r.ended
	}
}

// restart wants a clean end within limit.
func (r *restarted) restart(t *testing.T, limit time.Duration) {
	t.Helper()
	err := r.end(t, syscall.SIGTERM, limit)
	log, _ := r.text()
	if strings.HasSuffix(r.path, "nats-server") { // it ends with the signal's number
		err = nil
	}
	require.NoError(t, err, log)
	r.start(t)
	r.await(t, r.says)
}

// TestEveryComponentIsRestartedUnderLoadAndNothingIsLostOrRepeated: three NATS servers with replicated streams,
// two reward servers, two workers and a trainer. Each is restarted in turn; then the leader and, with it, the
// NATS server that its streams are led by get SIGKILL, and the run is led again in less than ten seconds.
func TestEveryComponentIsRestartedUnderLoadAndNothingIsLostOrRepeated(t *testing.T) {
	t.Parallel()
	if os.Getenv("VERIGRAPH_RESTARTS") == "" {
		t.Skip("make restarts")
	}
	bin, dir := buildAll(t), t.TempDir()
	k := &killed{disk: filepath.Join(dir, "disk"), saved: filepath.Join(dir, "trainer")}
	require.NoError(t, os.MkdirAll(k.disk, 0o755))
	require.NoError(t, os.Mkdir(k.saved, 0o755))
	var ports, routes, routePorts []string
	for range 3 {
		ports, routePorts = append(ports, freePort(t)), append(routePorts, freePort(t))
		routes = append(routes, "nats://127.0.0.1:"+routePorts[len(routePorts)-1])
	}
	var nodes []*restarted
	var urls []string
	for i := range 3 {
		r := &restarted{path: filepath.Join(bin, "nats-server"), says: "Server is ready", args: []string{
			"-n", fmt.Sprintf("n%d", i), "-js", "-a", "127.0.0.1", "-p", ports[i], "-sd", filepath.Join(dir, fmt.Sprint("nats", i)),
			"--cluster_name", "three", "--cluster", routes[i], "--routes", strings.Join(routes, ","),
		}}
		r.start(t)
		t.Cleanup(func() { _ = r.end(t, syscall.SIGTERM, time.Minute) })
		nodes, urls = append(nodes, r), append(urls, "nats://127.0.0.1:"+ports[i])
	}
	for _, n := range nodes {
		n.await(t, n.says)
	}
	const prompts = 160
	questions, turns := threeTurnTask(prompts)
	script, err := scripted.ReadScript(strings.NewReader(turns), "script")
	require.NoError(t, err)
	cfg := scripted.Defaults()
	cfg.Latency = func(scripted.CallInfo) time.Duration { return 100 * time.Millisecond }
	engine, err := scripted.New(script, cfg)
	require.NoError(t, err)
	policyURL, stop, err := engine.Start(t.Context())
	require.NoError(t, err)
	t.Cleanup(stop)

	var servers [2]*restarted
	for i := range servers {
		k.feeds[i] = "127.0.0.1:" + freePort(t)
		path := shipped(t, "reward-server.yaml", "nats://127.0.0.1:4222", strings.Join(urls, ",")+"\n  replicas: 3\n  max_deliver: 1000",
			"  archive: /var/lib/verigraph ", "  # ", "/var/lib/verigraph", k.disk, "127.0.0.1:50051", k.feeds[i],
			"127.0.0.1:9091", "127.0.0.1:"+freePort(t), "group_size: 4\n  batch_groups: 8\n  max_groups: 64", "group_size: 2\n  batch_groups: 2\n  max_groups: 16\n  max_staleness: 2")
		if i == 0 {
			k.config = path
		}
		servers[i] = launch(t, `"ready"`, filepath.Join(bin, "reward-server"), "--config", path)
	}
	var workers [2]*restarted
	for i := range workers {
		workers[i] = launch(t, `"ready"`, filepath.Join(bin, "rollout-worker"), "--config", shipped(t, "rollout-worker.yaml",
			"nats://127.0.0.1:4222", strings.Join(urls, ",")+"\n  replicas: 3", "max_deliver: 6", "max_deliver: 1000", "/var/lib/verigraph", k.disk,
			"http://127.0.0.1:8000", policyURL, "model: policy", "model: scripted", "/models/policy", "policy/scripted/tokenizer.json",
			"127.0.0.1:9090", "127.0.0.1:"+freePort(t), "groups: 2", "groups: 1\n  drain: 5s"))
	}
	code, _, stderr := verigraph(t, "submit", "--config", k.config, "--final", "--prompts", write(t, killedPrompts, questions))
	require.Zero(t, code, stderr)
	k.trainer = supervise(t, ".venv/client/bin/python", "cmd/verigraph/testdata/killed_trainer.py", k.saved, k.feeds[0], k.feeds[1])
	under := func(what string) {
		t.Helper()
		require.Contains(t, k.trainer.next(t, "trained", "complete"), "trained", "the run was over before %s", what)
		t.Log(what)
	}
	for i, w := range workers {
		under(fmt.Sprint("worker ", i))
		w.restart(t, 10*time.Second)
	}
	for range 2 { // the one that stands by, then what leads
		under("reward server that stands by")
		servers[1-k.leads(t)].restart(t, 20*time.Second)
		under("leader")
		servers[k.leads(t)].restart(t, 20*time.Second)
	}
	for i, n := range nodes {
		under(fmt.Sprint("NATS server ", i))
		n.restart(t, 30*time.Second)
	}
	under("trainer")
	k.trainer.kill(t)

	// A dead leader is followed within 10 s. Where a NATS server dies with it, the streams that it led have to
	// elect first.
	for _, c := range []struct {
		what  string
		also  []*restarted
		bound time.Duration
	}{{"leader is killed", nil, 10 * time.Second}, {"leader and a NATS server are killed", nodes[:1], time.Minute}} {
		under(c.what)
		first := k.leads(t)
		died := time.Now()
		killed := append([]*restarted{servers[first]}, c.also...)
		for _, r := range killed {
			_ = r.end(t, syscall.SIGKILL, time.Minute)
		}
		ctx, cancel := context.WithTimeout(t.Context(), c.bound)
		for led := false; !led; {
			require.NoError(t, ctx.Err(), "nobody leads %s after the %s", c.bound, c.what)
			code, _, _ := verigraph(t, "status", "--feed", k.feeds[1-first])
			led = code == 0
		}
		cancel()
		t.Logf("led again after %s", time.Since(died).Round(100*time.Millisecond))
		for i := len(killed) - 1; i >= 0; i-- {
			killed[i].start(t)
			killed[i].await(t, killed[i].says)
		}
	}
	k.trainer.await(t, "complete")
	patience.Receive(t, k.trainer.done, "the end of the trainer")
	k.check(t, prompts, 1)
}
