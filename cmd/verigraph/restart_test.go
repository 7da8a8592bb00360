package main

import (
	"context"
	"fmt"
	"net/http"
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
	path string
	args []string
	says string // when it is ready
	// health is asked then, if set: a NATS server that accepts clients may still be catching up.
	health string
	ended  chan error
	*proc
}

// launch starts a process, and ends it with the test.
func launch(t *testing.T, says, path string, args ...string) *restarted {
	t.Helper()
	r := &restarted{path: path, args: args, says: says}
	r.start(t)
	t.Cleanup(func() { _ = r.end(t, syscall.SIGTERM, patience.Limit) })
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

// ready waits until it works.
func (r *restarted) ready(t *testing.T) {
	t.Helper()
	r.await(t, r.says)
	ctx, cancel := context.WithTimeout(t.Context(), patience.Limit)
	defer cancel()
	for healthy := r.health == ""; !healthy; {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.health, nil)
		require.NoError(t, err)
		if response, err := http.DefaultClient.Do(request); err == nil {
			healthy = response.StatusCode == http.StatusOK
			require.NoError(t, response.Body.Close())
		}
		require.NoError(t, ctx.Err(), "%s is not healthy", r.path)
	}
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
	r.ready(t)
}

// restartable is a whole cluster: NATS servers with replicated streams, two reward servers, workers and a trainer.
type restartable struct {
	killed
	nodes, workers []*restarted
	servers        [2]*restarted
	natsURL        string
	questions      []string
	submitted      int
}

// scriptedPrompts is how many prompts the policy knows.
const scriptedPrompts = 400

func startRestartable(t *testing.T, nodes, workers int) *restartable {
	t.Helper()
	bin, dir := buildAll(t), t.TempDir()
	k := &restartable{killed: killed{disk: filepath.Join(dir, "disk"), saved: filepath.Join(dir, "trainer")}}
	require.NoError(t, os.MkdirAll(k.disk, 0o755))
	require.NoError(t, os.Mkdir(k.saved, 0o755))
	k.natsURL = k.startNATS(t, filepath.Join(bin, "nats-server"), dir, nodes)
	urls := k.natsURL
	policyURL := k.policy(t)
	for i := range k.servers {
		k.feeds[i] = "127.0.0.1:" + freePort(t)
		path := shipped(t, "reward-server.yaml", "nats://127.0.0.1:4222", fmt.Sprintf("%s\n  replicas: %d\n  max_deliver: 1000", urls, nodes),
			"  archive: /var/lib/verigraph ", "  # ", "/var/lib/verigraph", k.disk, "127.0.0.1:50051", k.feeds[i],
			"127.0.0.1:9091", "127.0.0.1:"+freePort(t), "group_size: 4\n  batch_groups: 8\n  max_groups: 64", "group_size: 2\n  batch_groups: 2\n  max_groups: 16\n  max_staleness: 2")
		if i == 0 {
			k.config = path
		}
		k.servers[i] = launch(t, `"ready"`, filepath.Join(bin, "reward-server"), "--config", path)
	}
	for range workers {
		k.workers = append(k.workers, launch(t, `"ready"`, filepath.Join(bin, "rollout-worker"), "--config", shipped(t, "rollout-worker.yaml",
			"nats://127.0.0.1:4222", fmt.Sprintf("%s\n  replicas: %d", urls, nodes), "max_deliver: 6", "max_deliver: 1000", "/var/lib/verigraph", k.disk,
			"http://127.0.0.1:8000", policyURL, "model: policy", "model: scripted", "/models/policy", "policy/scripted/tokenizer.json",
			"127.0.0.1:9090", "127.0.0.1:"+freePort(t), "groups: 2", "groups: 1\n  drain: 5s")))
	}
	for _, p := range append(k.servers[:], k.workers...) {
		p.ready(t)
	}
	k.trainer = supervise(t, ".venv/client/bin/python", "cmd/verigraph/testdata/killed_trainer.py", k.saved, k.feeds[0], k.feeds[1])
	return k
}

// startNATS starts one server, or a cluster, and returns the URLs.
func (k *restartable) startNATS(t *testing.T, path, dir string, nodes int) string {
	t.Helper()
	var ports, routes, urls []string
	for range nodes {
		ports, routes = append(ports, freePort(t)), append(routes, "nats://127.0.0.1:"+freePort(t))
	}
	for i, port := range ports {
		args := []string{"-n", fmt.Sprintf("n%d", i), "-js", "-a", "127.0.0.1", "-p", port, "-sd", filepath.Join(dir, fmt.Sprint("nats", i))}
		if nodes > 1 {
			args = append(args, "--cluster_name", "three", "--cluster", routes[i], "--routes", strings.Join(routes, ","))
		}
		monitor := freePort(t)
		k.nodes, urls = append(k.nodes, launch(t, "Server is ready", path, append(args, "-m", monitor)...)), append(urls, "nats://127.0.0.1:"+port)
		k.nodes[i].health = "http://127.0.0.1:" + monitor + "/healthz"
	}
	for _, n := range k.nodes {
		n.ready(t)
	}
	return strings.Join(urls, ",")
}

// policy is what takes 100 ms for each of three turns.
func (k *restartable) policy(t *testing.T) string {
	t.Helper()
	questions, turns := threeTurnTask(scriptedPrompts)
	k.questions = strings.SplitAfter(strings.TrimSpace(questions), "\n")
	script, err := scripted.ReadScript(strings.NewReader(turns), "script")
	require.NoError(t, err)
	cfg := scripted.Defaults()
	cfg.Latency = func(scripted.CallInfo) time.Duration { return 100 * time.Millisecond }
	engine, err := scripted.New(script, cfg)
	require.NoError(t, err)
	url, stop, err := engine.Start(t.Context())
	require.NoError(t, err)
	t.Cleanup(stop)
	return url
}

// submit queues the next n prompts.
func (k *restartable) submit(t *testing.T, n int, flags ...string) {
	t.Helper()
	require.LessOrEqual(t, k.submitted+n, scriptedPrompts)
	file := write(t, killedPrompts, strings.Join(k.questions[k.submitted:k.submitted+n], ""))
	k.submitted += n
	code, _, stderr := verigraph(t, append([]string{"submit", "--config", k.config, "--prompts", file}, flags...)...)
	require.Zero(t, code, stderr)
}

// under gives the run enough to do for two batches more and waits until it is seen at work.
func (k *restartable) under(t *testing.T, what string) {
	t.Helper()
	k.submit(t, 4)
	k.trainer.next(t, "trained")
	t.Log(what)
}

// end waits for the trainer's last batch, and checks all that it saw.
func (k *restartable) end(t *testing.T, trainerKills int) {
	t.Helper()
	k.submit(t, 4, "--final")
	patience.Receive(t, k.trainer.done, "the end of the trainer")
	log, _ := k.trainer.text()
	require.Contains(t, log, "complete")
	k.check(t, k.submitted, trainerKills)
}

// killLeader sends SIGKILL to the leader, and to more, and returns the server that does not lead.
func (k *restartable) killLeader(t *testing.T, also ...*restarted) (left int, killed []*restarted) {
	t.Helper()
	first := k.leads(t)
	killed = append([]*restarted{k.servers[first]}, also...)
	for _, r := range killed {
		_ = r.end(t, syscall.SIGKILL, patience.Limit)
	}
	return 1 - first, killed
}

// TestARestartOfEachComponentLosesAndRepeatsNothing is the short form of the next one, on one NATS server.
func TestARestartOfEachComponentLosesAndRepeatsNothing(t *testing.T) {
	t.Parallel()
	k := startRestartable(t, 1, 1)
	k.under(t, "worker")
	k.workers[0].restart(t, patience.Limit)
	k.under(t, "leader")
	k.servers[k.leads(t)].restart(t, patience.Limit)
	k.under(t, "NATS")
	k.nodes[0].restart(t, patience.Limit)
	k.under(t, "trainer")
	k.trainer.kill(t)
	k.under(t, "leader is killed")
	_, killed := k.killLeader(t)
	killed[0].start(t)
	k.end(t, 1)
}

// TestEveryComponentIsRestartedUnderLoadAndNothingIsLostOrRepeated: three NATS servers with replicated streams,
// two reward servers, two workers and a trainer, each restarted in turn.
func TestEveryComponentIsRestartedUnderLoadAndNothingIsLostOrRepeated(t *testing.T) {
	t.Parallel()
	if os.Getenv("VERIGRAPH_RESTARTS") == "" {
		t.Skip("make restarts")
	}
	k := startRestartable(t, 3, 2)
	k.submit(t, 60)
	for i, w := range k.workers {
		k.under(t, fmt.Sprint("worker ", i))
		w.restart(t, patience.Limit)
	}
	for range 2 { // the one that stands by, then what leads
		k.under(t, "reward server that stands by")
		k.servers[1-k.leads(t)].restart(t, patience.Limit)
		k.under(t, "leader")
		k.servers[k.leads(t)].restart(t, patience.Limit)
	}
	for i, n := range k.nodes {
		k.under(t, fmt.Sprint("NATS server ", i))
		n.restart(t, patience.Limit)
	}
	k.under(t, "trainer")
	k.trainer.kill(t)
	k.end(t, 1)
}

// TestADeadLeaderIsFollowedAlsoWhereANATSServerDiesWithIt: the leader, and with it each of three NATS servers in
// turn, get SIGKILL. How long nobody led is printed.
func TestADeadLeaderIsFollowedAlsoWhereANATSServerDiesWithIt(t *testing.T) {
	t.Parallel()
	if os.Getenv("VERIGRAPH_RESTARTS") == "" {
		t.Skip("make restarts")
	}
	k := startRestartable(t, 3, 2)
	for range 2 {
		k.failOver(t, "leader is killed")
		for i, n := range k.nodes {
			k.failOver(t, fmt.Sprintf("leader and NATS server %d are killed", i), n)
		}
	}
	k.end(t, 0)
}

func (k *restartable) failOver(t *testing.T, what string, also ...*restarted) {
	t.Helper()
	k.under(t, what)
	left, killed := k.killLeader(t, also...)
	died := time.Now()
	before, _ := k.servers[left].text()
	k.servers[left].awaitAfter(t, len(before), `"leads"`)
	after := time.Since(died)
	k.submit(t, 4)
	k.trainer.next(t, "trained")
	t.Logf("led again after %s, next batch after %s", after.Round(100*time.Millisecond), time.Since(died).Round(100*time.Millisecond))
	for i := len(killed) - 1; i >= 0; i-- {
		killed[i].start(t)
		killed[i].ready(t)
	}
}
