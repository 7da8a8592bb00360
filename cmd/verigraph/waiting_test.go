package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/verigraph/verigraph/cmd/internal/cli"
	"github.com/verigraph/verigraph/internal/patience"
	pb "github.com/verigraph/verigraph/proto/verigraph/v1"
)

// watched is `verigraph status --watch` of a run.
type watched struct {
	*proc
	ends context.CancelFunc
	code chan int
}

func watchStatus(t *testing.T, addr string) *watched {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w := &watched{proc: &proc{grew: make(chan struct{})}, ends: cancel, code: make(chan int, 1)}
	cmd := newRoot()
	cmd.SetArgs([]string{"status", "--feed", addr, "--output", "text", "--watch", "50ms"})
	cmd.SetOut(w.proc)
	cmd.SetErr(w.proc)
	go func() { w.code <- cli.ExitCode("verigraph", cmd.ExecuteContext(ctx), w.proc) }()
	t.Cleanup(func() { cancel(); require.Zero(t, patience.Receive(t, w.code, "the end of the command")) })
	return w
}

// says waits until the status says something from now on.
func (w *watched) says(t *testing.T, pattern string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience.Limit)
	defer cancel()
	want := regexp.MustCompile("(?m)^" + pattern)
	before, grew := w.text()
	for {
		log, more := w.text()
		if want.MatchString(log[len(before):]) {
			return
		}
		select {
		case <-grew:
			grew = more
		case <-ctx.Done():
			t.Fatalf("status never said %q:\n%s", pattern, log[max(0, len(log)-3000):])
		}
	}
}

// TestStatusSaysWhatEachThingWaitsFor: real processes that lack, one after another, prompts, a worker, the trainer's word,
// a judge and room on the disk.
func TestStatusSaysWhatEachThingWaitsFor(t *testing.T) {
	t.Parallel()
	bin, dir := buildAll(t), t.TempDir()
	disk := filepath.Join(dir, "disk")
	require.NoError(t, os.Mkdir(disk, 0o755))
	fill, free := smallDisk(t, disk)

	var down atomic.Bool // the judge
	down.Store(true)
	real, err := url.Parse(strings.TrimSuffix(brokenJudge(t, ""), "/v1"))
	require.NoError(t, err)
	proxy := httputil.NewSingleHostReverseProxy(real)
	judge := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if down.Load() {
			http.Error(w, `{"error": {"message": "no such model"}}`, http.StatusInternalServerError)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(judge.Close)

	port, addr := freePort(t), "127.0.0.1:"+freePort(t)
	startProc(t, filepath.Join(bin, "nats-server"), "-js", "-a", "127.0.0.1", "-p", port, "-sd", filepath.Join(dir, "nats")).
		await(t, "Server is ready")
	config := shipped(t, "reward-server.yaml", "nats://127.0.0.1:4222", "nats://127.0.0.1:"+port+"\n  ack_wait: 1s\n  max_deliver: 1000",
		"/var/lib/verigraph", disk, "127.0.0.1:50051", addr, "127.0.0.1:9091", "127.0.0.1:"+freePort(t),
		"judge: rules ", "judge: openai\n  openai: {base_url: \""+judge.URL+"/v1\", model: m}\n  canaries: {every: 100ms, paused: 50ms} # ",
		"group_size: 4\n  batch_groups: 8\n  max_groups: 64", "group_size: 2\n  batch_groups: 2\n  max_staleness: 0")
	startProc(t, filepath.Join(bin, "reward-server"), "--config", config).await(t, `"ready"`)
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer conn.Close()
	trainer := pb.NewRolloutServiceClient(conn)
	status := watchStatus(t, addr)

	status.says(t, "waiting      1 next batch for: prompts: 0 of its 2 groups are there, no prompt waits and the input has not ended")
	questions, policyURL := onePrompts(t, 0, 3)
	code, _, stderr := verigraph(t, "submit", "--config", config, "--prompts", write(t, "prompts.jsonl", questions))
	require.Zero(t, code, stderr)
	status.says(t, `waiting      1 prompts for: the trainer's next version \(max_staleness 0: 2 running`)
	status.says(t, "waiting      2 groups in PROMPTS for: a rollout worker: none asks for work")

	_, err = trainer.SetPolicy(t.Context(), &pb.SetPolicyRequest{Paused: true})
	require.NoError(t, err)
	status.says(t, "waiting      1 prompts for: the trainer, which paused dispatching")
	_, err = trainer.SetPolicy(t.Context(), &pb.SetPolicyRequest{})
	require.NoError(t, err)

	startProc(t, filepath.Join(bin, "rollout-worker"), "--config", workerOf(t, port, disk, policyURL)).await(t, `"ready"`)
	status.says(t, "waiting      2 groups in TRAJECTORIES for: the judge, which has failed its canaries since")

	fill()
	down.Store(false)
	status.says(t, "waiting      [12] good groups for: the store: .*(no space left on device|permission denied)")
	free()
	status.says(t, "waiting      1 batches for: the trainer's acknowledgement")
}
