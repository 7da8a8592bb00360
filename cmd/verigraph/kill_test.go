package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/blob"
	"github.com/verigraph/verigraph/cmd/internal/config"
	"github.com/verigraph/verigraph/dataset/leader"
	"github.com/verigraph/verigraph/internal/patience"
	"github.com/verigraph/verigraph/jetstream"
	"github.com/verigraph/verigraph/policy/scripted"
)

// supervised is a process that is started again whenever it ends, as a supervisor sees to.
type supervised struct {
	*proc
	stop context.CancelFunc
	done chan struct{}
	once chan error // of a process that is not started again when it succeeds

	mu      sync.Mutex
	current *exec.Cmd
	deaths  int
}

func supervise(t *testing.T, path string, args ...string) *supervised {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	s := &supervised{proc: &proc{grew: make(chan struct{})}, stop: stop, done: make(chan struct{}), once: make(chan error, 1)}
	s.proc.cmd = exec.Command(path)
	go func() {
		defer close(s.done)
		for ctx.Err() == nil {
			cmd := exec.CommandContext(ctx, path, args...)
			cmd.Stdout, cmd.Stderr, cmd.Dir, cmd.WaitDelay = s.proc, s.proc, root, 10*time.Second
			s.mu.Lock()
			err := cmd.Start()
			s.current = cmd
			s.mu.Unlock()
			if err == nil {
				err = cmd.Wait()
			}
			if err == nil {
				s.once <- nil
				return
			}
			s.mu.Lock()
			s.deaths++
			s.mu.Unlock()
		}
	}()
	t.Cleanup(func() { stop(); patience.Receive(t, s.done, "the end of the process") })
	return s
}

// kill sends SIGKILL, which nothing can answer.
func (s *supervised) kill(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	require.NoError(t, s.current.Process.Kill())
}

// next waits for a further line that holds one of the texts.
func (s *supervised) next(t *testing.T, texts ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience.Limit)
	defer cancel()
	before, grew := s.text()
	for {
		log, more := s.text()
		for line := range strings.Lines(log[len(before):]) {
			for _, text := range texts {
				if strings.Contains(line, text) {
					return line
				}
			}
		}
		select {
		case <-grew:
			grew = more
		case <-ctx.Done():
			t.Fatalf("%s never said %q again:\n%s", s.proc.cmd.Path, texts, log[max(0, len(log)-4000):])
		}
	}
}

// killed is the cluster whose processes are killed.
type killed struct {
	nats, trainer *supervised
	servers       [2]*supervised
	feeds         [2]string
	config        string // of the first server
	disk, saved   string
	fill          func() // until nothing more can be written there
	free          func()
}

const killedPrompts = "prompts.jsonl"

// startKilled starts NATS with its store, two reward servers, a worker with real sessions and a trainer, each in a process of its own.
func startKilled(t *testing.T, prompts int, natsStore string) *killed {
	t.Helper()
	bin, dir := buildAll(t), t.TempDir()
	k := &killed{disk: filepath.Join(dir, "disk")}
	require.NoError(t, os.Mkdir(k.disk, 0o755))
	k.fill, k.free = smallDisk(t, k.disk)
	port := freePort(t)
	k.nats = supervise(t, filepath.Join(bin, "nats-server"), "-js", "-a", "127.0.0.1", "-p", port, "-sd", natsStore)
	k.nats.await(t, "Server is ready")

	questions, policyURL := onePrompts(t, 0, prompts)
	for i := range k.servers {
		k.feeds[i] = "127.0.0.1:" + freePort(t)
		path := shipped(t, "reward-server.yaml", "nats://127.0.0.1:4222", "nats://127.0.0.1:"+port+"\n  ack_wait: 1s\n  max_deliver: 1000",
			"  archive: /var/lib/verigraph ", "  # ", "/var/lib/verigraph", k.disk, "127.0.0.1:50051", k.feeds[i],
			"127.0.0.1:9091", "127.0.0.1:"+freePort(t),
			"group_size: 4\n  batch_groups: 8\n  max_groups: 64", "group_size: 2\n  batch_groups: 2\n  max_staleness: 2")
		if i == 0 {
			k.config = path
		}
		k.servers[i] = supervise(t, filepath.Join(bin, "reward-server"), "--config", path)
	}
	worker := supervise(t, filepath.Join(bin, "rollout-worker"), "--config", workerOf(t, port, k.disk, policyURL))
	for _, p := range append(k.servers[:], worker) {
		p.await(t, `"ready"`)
	}
	code, _, stderr := verigraph(t, "submit", "--config", k.config, "--final", "--prompts", write(t, killedPrompts, questions))
	require.Zero(t, code, stderr)
	k.saved = filepath.Join(dir, "trainer")
	require.NoError(t, os.Mkdir(k.saved, 0o755))
	k.trainer = supervise(t, ".venv/client/bin/python", "cmd/verigraph/testdata/killed_trainer.py", k.saved, k.feeds[0], k.feeds[1])
	return k
}

// onePrompts are n questions whose answer is one, and the address of a policy that says so.
func onePrompts(t *testing.T, from, n int) (questions, policyURL string) {
	t.Helper()
	var prompts, turns strings.Builder
	for i := from; i < from+n; i++ {
		fmt.Fprintf(&prompts, `{"id":"%d","question":"q","answer":{"n":"1"},"data_source":"dabench"}`+"\n", i)
		fmt.Fprintf(&turns, `{"prompt_id":"%d","turns":["<think>\nIt is one.\n</think>\n<code_interpreter>\nsubmit_answer(bind(\"@n[{n}]\", n=1))\n</code_interpreter>"]}`+"\n", i)
	}
	script, err := scripted.ReadScript(strings.NewReader(turns.String()), "script")
	require.NoError(t, err)
	server, err := scripted.New(script, scripted.Defaults())
	require.NoError(t, err)
	policyURL, stop, err := server.Start(t.Context())
	require.NoError(t, err)
	t.Cleanup(stop)
	return prompts.String(), policyURL
}

// workerOf is the configuration of a worker that gives up nothing and is replaced soon.
func workerOf(t *testing.T, natsPort, dir, policyURL string) string {
	t.Helper()
	return shipped(t, "rollout-worker.yaml",
		"127.0.0.1:4222", "127.0.0.1:"+natsPort, "ack_wait: 5s", "ack_wait: 1s", "max_deliver: 6", "max_deliver: 1000", "/var/lib/verigraph", dir,
		"http://127.0.0.1:8000", policyURL, "model: policy", "model: scripted", "/models/policy", "policy/scripted/tokenizer.json",
		"127.0.0.1:9090", "127.0.0.1:"+freePort(t))
}

// leads is the index of the server that leads.
func (k *killed) leads(t *testing.T) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience.Limit)
	defer cancel()
	for ctx.Err() == nil {
		for i, addr := range k.feeds {
			if code, _, _ := verigraph(t, "status", "--feed", addr); code == 0 {
				return i
			}
		}
	}
	t.Fatal("nobody leads")
	return 0
}

// smallDisk makes dir a file system of a few megabytes, and returns how to fill and to free it. Mounting needs a
// privilege; without it the directory refuses writes instead, which is not the same but takes the same way.
func smallDisk(t *testing.T, dir string) (fill, free func()) {
	t.Helper()
	ballast := filepath.Join(dir, "ballast")
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=16m"); err != nil {
		t.Logf("the disk is not filled but made read-only, since %s cannot be mounted: %v", dir, err)
		require.NotZero(t, os.Geteuid(), "root writes to read-only directories")
		chmod := func(mode os.FileMode) func() {
			return func() {
				dirs, err := filepath.Glob(filepath.Join(dir, "*"))
				require.NoError(t, err)
				for _, d := range append(dirs, dir) {
					if info, err := os.Stat(d); err == nil && info.IsDir() {
						require.NoError(t, os.Chmod(d, mode))
					}
				}
			}
		}
		return chmod(0o555), chmod(0o755)
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	fill = func() {
		f, err := os.OpenFile(ballast, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		require.NoError(t, err)
		defer f.Close()
		for piece := make([]byte, 64<<10); len(piece) > 0; {
			if _, err := f.Write(piece); err != nil {
				require.ErrorIs(t, err, syscall.ENOSPC)
				piece = piece[:len(piece)/2]
			}
		}
	}
	return fill, func() { require.NoError(t, os.Remove(ballast)) }
}

// writeFails fills the disk until a server has said that it could not write. What is committed meanwhile makes room again.
func (k *killed) writeFails(t *testing.T, from [2]int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience.Limit)
	defer cancel()
	for {
		k.fill()
		a, grewA := k.servers[0].text()
		b, grewB := k.servers[1].text()
		for _, log := range []string{a[from[0]:], b[from[1]:]} {
			if strings.Contains(log, "no space left") || strings.Contains(log, "permission denied") {
				return
			}
		}
		select {
		case <-grewA:
		case <-grewB:
		case <-ctx.Done():
			t.Fatalf("no write failed:\n%s\n%s", a[from[0]:], b[from[1]:])
		}
	}
}

// TestNothingIsLostOrRepeatedWhenProcessesAreKilled: NATS, reward servers and the trainer are processes that get SIGKILL, and the
// disk of the batches is a small file system that is filled up. VERIGRAPH_KILLS is the number for each,
// VERIGRAPH_KILL_SEED the order.
func TestNothingIsLostOrRepeatedWhenProcessesAreKilled(t *testing.T) {
	t.Parallel()
	kills, seed := envNumber(t, "VERIGRAPH_KILLS", 1), envNumber(t, "VERIGRAPH_KILL_SEED", 1)
	kinds := []string{"trainer", "reward server", "leader", "NATS", "disk"}
	var order []string
	for range kills {
		order = append(order, kinds...)
	}
	rand.New(rand.NewPCG(uint64(seed), 1)).Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	prompts := 8*len(order) + 8
	if kills == 1 { // the short run needs no more than work at every kill
		prompts = 4*len(order) + 4
	}
	k := startKilled(t, prompts, t.TempDir())
	for i, kind := range order {
		require.Contains(t, k.trainer.next(t, "trained", "complete"), "trained", "the run was over before everything was killed")
		t.Logf("%d: %s", i, kind)
		switch kind {
		case "trainer":
			k.trainer.kill(t)
		case "reward server":
			k.servers[1-k.leads(t)].kill(t)
		case "leader":
			k.servers[k.leads(t)].kill(t)
		case "NATS":
			k.nats.kill(t)
		case "disk":
			a, _ := k.servers[0].text()
			b, _ := k.servers[1].text()
			k.writeFails(t, [2]int{len(a), len(b)})
			k.free()
		}
	}
	k.trainer.await(t, "complete")
	patience.Receive(t, k.trainer.done, "the end of the trainer")
	k.check(t, prompts, kills)
}

// check compares what the trainer's surviving life saw with the logs, and the ledger with what the queues hold.
func (k *killed) check(t *testing.T, prompts, kills int) {
	t.Helper()
	log, _ := k.trainer.text()
	require.Equal(t, kills, k.trainer.deaths, "the trainer died of nothing else:\n%s", log)
	cfg, err := config.Load(k.config)
	require.NoError(t, err)
	blobs, err := blob.OpenDir(k.disk)
	require.NoError(t, err)
	defer blobs.Close()
	nc, err := jetstream.Dial(cfg.NATS.URL, "", cfg.Run)
	require.NoError(t, err)
	bus, err := jetstream.New(t.Context(), nc, blobs, cfg.NATS.Config)
	require.NoError(t, err)
	defer bus.Close()
	events, err := jetstream.ReadLog[leader.Event](t.Context(), bus, jetstream.Ledger, cfg.Run)
	require.NoError(t, err)
	records, err := jetstream.ReadLog[leader.BatchRecord](t.Context(), bus, jetstream.Batches, cfg.Run)
	require.NoError(t, err)
	dropped := map[int64]bool{}
	for _, e := range events {
		for _, seq := range e.Dropped {
			dropped[seq] = true
		}
	}
	var want, got []string
	for _, r := range records {
		if dropped[r.Sequence] {
			continue
		}
		var groups []string
		for _, g := range r.Groups {
			groups = append(groups, g.Dispatch)
		}
		slices.Sort(groups)
		want = append(want, fmt.Sprint(r.Sequence, groups))
	}
	var saved struct {
		Seen []struct {
			Sequence int64
			Groups   map[string][]string
		}
	}
	data, err := os.ReadFile(filepath.Join(k.saved, "checkpoint.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &saved))
	trained, rollouts := map[string]int{}, map[string]int{}
	for _, b := range saved.Seen {
		groups := slices.Sorted(maps.Keys(b.Groups))
		got = append(got, fmt.Sprint(b.Sequence, groups))
		for uid, of := range b.Groups {
			prompt, _, _ := strings.Cut(uid, "-")
			trained[prompt]++
			require.Len(t, of, 2, "group %s is whole", uid)
			for _, id := range of {
				rollouts[id]++
			}
		}
	}
	require.Equal(t, want, got, "the trainer's surviving life saw every batch that holds once, in order")
	require.Len(t, trained, prompts, "every prompt was trained on")
	for id, n := range rollouts {
		require.Equal(t, 1, n, "rollout %s", id)
	}
	for prompt, n := range trained {
		require.Equal(t, 1, n, "prompt %s", prompt)
	}
	for _, stream := range []string{jetstream.Prompts, jetstream.Trajectories, jetstream.Scored, jetstream.SetAside} {
		keys, err := bus.Keys(t.Context(), stream, cfg.Run)
		require.NoError(t, err)
		require.Empty(t, keys, "%s holds no lease at rest", stream)
	}
	_, stdout, _ := verigraph(t, "status", "--feed", k.feeds[k.leads(t)])
	var st struct {
		Complete    bool
		Unaccounted int64
		Ledger      map[string]int64
	}
	require.NoError(t, json.Unmarshal([]byte(stdout), &st), stdout)
	require.True(t, st.Complete)
	require.Zero(t, st.Ledger["in_flight"])
	require.Zero(t, st.Unaccounted)
	t.Logf("ledger %v, %d batches, %d taken back", st.Ledger, len(records), len(dropped))
	for i, server := range k.servers {
		if server != nil { // killed as one of these; the test that restarts everything holds its own
			t.Logf("reward server %d died %d times", i, server.deaths)
		}
	}
}

func envNumber(t *testing.T, name string, fallback int) int {
	t.Helper()
	s := os.Getenv(name)
	if s == "" {
		return fallback
	}
	n, err := strconv.Atoi(s)
	require.NoError(t, err)
	return n
}
