package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/verigraph/verigraph/blob"
	"github.com/verigraph/verigraph/cmd/internal/line"
	"github.com/verigraph/verigraph/jetstream"
	pb "github.com/verigraph/verigraph/proto/verigraph/v1"
)

// root is the repository, from here.
const root = "../../../"

const (
	nodes, workers, servers, policies = 3, 4, 2, 2
	run                               = "chaos"
)

// size is how much the bed does.
type size struct {
	first      int           // number of the first prompt
	prompts    int           // that the script holds
	waiting    int           // prompts that are kept in the backlog
	latency    time.Duration // of a policy call, about
	judging    time.Duration // of a judge call
	deliveries int           // nats.max_deliver
	stay       int           // groups in work per worker
	clocks     bool          // the binaries have a clock that can be set
}

// bed is the whole cluster.
type bed struct {
	t    testing.TB
	size size
	dir  string
	logs string

	node    [nodes]*process
	store   [nodes]disk
	server  [servers]*process
	worker  [workers]*process
	trainer *process
	blobs   disk
	saved   string // the trainer's checkpoint

	policy     *policyServer
	endpoints  [policies]*endpoint
	judge      *judgeServer
	judgeAt    *endpoint
	toNode     [workers + servers][nodes]*link
	routes     [nodes][nodes]*link
	toPolicy   [workers][policies]*link
	toJudge    [servers]*link
	toFeed     [servers]*link
	feeds      [servers]string // not through the links
	monitors   [nodes]string
	admins     []string
	feedClient [servers]pb.RolloutServiceClient

	bus       *jetstream.Bus
	blobStore *blob.Store
	submit    *line.Submitter
	submitted int

	mu      sync.Mutex
	trained []time.Time // when each batch was
	ended   chan struct{}
}

// freeAddr is an address that a process may be started on again and again. It lies below the ports that the kernel gives
// to outgoing connections and to whoever asks for any, so that none of these takes it between two lives.
func freeAddr(t testing.TB) string {
	t.Helper()
	for range 1000 {
		addr := fmt.Sprintf("127.0.0.1:%d", 12000+rand.IntN(20000))
		if _, taken := given.LoadOrStore(addr, true); taken {
			continue
		}
		if l, err := net.Listen("tcp", addr); err == nil {
			require.NoError(t, l.Close())
			return addr
		}
	}
	t.Fatal("no port is free")
	return ""
}

// given are the addresses that this process has given away.
var given sync.Map

func build(t testing.TB, clocks bool) string {
	t.Helper()
	bin := *built
	if bin != "" {
		return bin
	}
	bin = t.TempDir()
	args := []string{"build", "-o", bin + "/"}
	if clocks {
		args = append(args, "-overlay", clockOverlay(t))
	}
	cmd := exec.Command("go", append(args, "./cmd/rollout-worker", "./cmd/reward-server", "github.com/nats-io/nats-server/v2")...)
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return bin
}

// newBed starts everything but the load and the trainer.
func newBed(t testing.TB, dir string, s size) *bed {
	t.Helper()
	b := &bed{t: t, size: s, dir: dir, logs: filepath.Join(dir, "logs"), saved: filepath.Join(dir, "trainer"), ended: make(chan struct{})}
	for _, d := range []string{b.logs, b.saved, filepath.Join(dir, "tmp"), filepath.Join(dir, "clocks")} {
		require.NoError(t, os.MkdirAll(d, 0o755))
	}
	bin := build(t, s.clocks)
	b.blobs = newDisk(t, filepath.Join(dir, "blobs"), "1g")
	b.policy, b.judge = newPolicy(t, s.prompts, s.latency), newJudge(t, s.judging)
	for i := range b.endpoints {
		b.endpoints[i] = newEndpoint(t, b.policy)
	}
	b.judgeAt = newEndpoint(t, b.judge)
	direct := b.startNodes(bin)
	b.connect(direct)
	for i := range b.server {
		b.startServer(bin, i, direct)
	}
	for i := range b.worker {
		b.startWorker(bin, i, direct)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	require.NoError(t, b.ready(ctx))
	return b
}

// spawn starts a process of the bed with what all have.
func (b *bed) spawn(p *process) *process {
	p.env = append(p.env, "TMPDIR="+filepath.Join(b.dir, "tmp"))
	if b.size.clocks {
		require.NoError(b.t, setClock(b.clock(p.name), 0))
		p.env = append(p.env, clockFile+"="+b.clock(p.name))
	}
	return start(b.t, p, filepath.Join(b.logs, p.name+".log"))
}

func (b *bed) clock(name string) string { return filepath.Join(b.dir, "clocks", name) }

func (b *bed) write(name, text string) string {
	path := filepath.Join(b.dir, name)
	require.NoError(b.t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// startNodes starts the NATS servers, whose routes go through links, and gives their addresses.
func (b *bed) startNodes(bin string) (clients [nodes]string) {
	var cluster [nodes]string
	for i := range nodes {
		clients[i], cluster[i], b.monitors[i] = freeAddr(b.t), freeAddr(b.t), freeAddr(b.t)
	}
	for i := range nodes {
		var routes []string
		for j := range nodes {
			if i != j {
				b.routes[i][j] = newLink(b.t, cluster[j], nil)
				routes = append(routes, fmt.Sprintf("%q", "nats://"+b.routes[i][j].addr()))
			}
		}
		dir := filepath.Join(b.dir, fmt.Sprint("node", i))
		b.store[i] = newDisk(b.t, dir, "384m")
		// What a server tells others of itself would lead around the links.
		conf := b.write(fmt.Sprintf("node%d.conf", i), fmt.Sprintf(`server_name: n%d
listen: %s
http: %s
max_payload: 8MB
jetstream { store_dir: %q }
cluster {
  name: three
  listen: %s
  no_advertise: true
  cluster_advertise: "127.0.0.1:1"
  routes: [%s]
}
`, i, clients[i], b.monitors[i], dir, cluster[i], strings.Join(routes, ", ")))
		b.node[i] = b.spawn(&process{name: fmt.Sprint("node", i), path: filepath.Join(bin, "nats-server"), args: []string{"-c", conf}})
	}
	return clients
}

// connect opens the bed's own connection, which no fault cuts.
func (b *bed) connect(direct [nodes]string) {
	ctx, cancel := context.WithTimeout(b.t.Context(), time.Minute)
	defer cancel()
	require.NoError(b.t, b.nodesReady(ctx))
	var err error
	b.blobStore, err = blob.OpenDir(b.blobs.dir)
	require.NoError(b.t, err)
	nc, err := jetstream.Dial("nats://"+strings.Join(direct[:], ",nats://"), "", run)
	require.NoError(b.t, err)
	cfg := jetstream.Defaults()
	cfg.Replicas, cfg.MaxDeliver = nodes, b.size.deliveries
	b.bus, err = jetstream.New(ctx, nc, b.blobStore, cfg)
	require.NoError(b.t, err)
	b.t.Cleanup(func() {
		b.bus.Close()
		_ = b.blobStore.Close()
	})
	b.policy.bus, b.submit = b.bus, line.NewSubmitter(b.bus, b.blobStore, run)
}

// brokers are the addresses of NATS for one part.
func (b *bed) brokers(part int, direct [nodes]string) string {
	var urls []string
	for i := range nodes {
		b.toNode[part][i] = newLink(b.t, direct[i], nil)
		urls = append(urls, "nats://"+b.toNode[part][i].addr())
	}
	return strings.Join(urls, ",")
}

func (b *bed) startWorker(bin string, i int, direct [nodes]string) {
	for e := range policies {
		b.toPolicy[i][e] = newLink(b.t, b.endpoints[e].addr, b.policy.speaks(i))
	}
	admin := freeAddr(b.t)
	b.admins = append(b.admins, admin)
	tokenizer := filepath.Join(must(filepath.Abs(root+"policy/scripted")), "tokenizer.json")
	conf := b.write(fmt.Sprintf("worker%d.yaml", i), fmt.Sprintf(`run: %s
nats: {url: %q, replicas: 3, max_deliver: %d}
blob: %s
policy:
  base_url: http://%s
  model: scripted
  tokenizer: %s
  call_timeout: 1m
  endpoints: {urls: ["http://%s"]}
sandbox:
  python: .venv/sandbox/bin/python
  limits: {memory_bytes: 805306368, cell_wall: 20s, cell_cpu: 10s}
worker: {groups: %d, cache: %s, drain: 5s}
trainer: {prompt_length: 4096, response_length: 16384}
admin: {listen: %q}
`, run, b.brokers(i, direct), b.size.deliveries, b.blobs.dir, b.toPolicy[i][0].addr(), tokenizer, b.toPolicy[i][1].addr(),
		b.size.stay, filepath.Join(b.dir, fmt.Sprint("cache", i)), admin))
	b.worker[i] = b.spawn(&process{name: fmt.Sprint("worker", i), path: filepath.Join(bin, "rollout-worker"), args: []string{"--config", conf}})
}

func (b *bed) startServer(bin string, i int, direct [nodes]string) {
	b.toJudge[i] = newLink(b.t, b.judgeAt.addr, nil)
	b.feeds[i] = freeAddr(b.t)
	b.toFeed[i] = newLink(b.t, b.feeds[i], nil)
	admin := freeAddr(b.t)
	b.admins = append(b.admins, admin)
	conf := b.write(fmt.Sprintf("server%d.yaml", i), fmt.Sprintf(`run: %s
nats: {url: %q, replicas: 3, max_deliver: %d}
blob: %s
reward:
  judge: openai
  archive: %s
  openai: {base_url: "http://%s/v1", model: judge, timeout: 15s, max_tokens: 200, retry_max_tokens: 400, deadline: 3m}
  canaries: {every: 30s, paused: 3s}
leader: {group_size: 2, batch_groups: 4, max_groups: 24, max_staleness: 4}
trainer: {prompt_length: 4096, response_length: 16384}
feed: {listen: %q}
admin: {listen: %q}
`, run, b.brokers(workers+i, direct), b.size.deliveries, b.blobs.dir, b.blobs.dir, b.toJudge[i].addr(), b.feeds[i], admin))
	b.server[i] = b.spawn(&process{name: fmt.Sprint("server", i), path: filepath.Join(bin, "reward-server"), args: []string{"--config", conf}})
	conn, err := grpc.NewClient(b.feeds[i], grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(b.t, err)
	b.t.Cleanup(func() { _ = conn.Close() })
	b.feedClient[i] = pb.NewRolloutServiceClient(conn)
}

// startTrainer starts the trainer, which ends when the run is complete.
func (b *bed) startTrainer() {
	args := []string{"cmd/verigraph/testdata/killed_trainer.py", b.saved}
	for i := range servers {
		args = append(args, b.toFeed[i].addr())
	}
	b.trainer = b.spawn(&process{name: "trainer", path: ".venv/client/bin/python", args: args, said: func(line string) {
		b.mu.Lock()
		defer b.mu.Unlock()
		if strings.HasPrefix(line, "trained ") {
			b.trained = append(b.trained, time.Now())
		}
	}})
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
