package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/policy/scripted"
	"github.com/verigraph/verigraph/task"
)

// A level of the scale run: so many trajectories at once, in groups of scaleGroup, with real files and cells of
// DABench, over a policy that takes some time for each turn. Each level has its own processes and store. No more
// than VERIGRAPH_SCALE_SESSIONS sessions live at once, each of about 10 MiB; other trajectories wait for theirs.
const (
	scaleGroup    = 5
	scaleMinTotal = 50 // trajectories of a small level, so that its figures are not those of the start
)

// flying counts the trajectories between their first call and the answer to their last.
type flying struct {
	engine http.Handler
	turns  map[string]int // by prompt, of each sample the most

	mu    sync.Mutex
	now   map[string]bool
	peak  int
	first map[string]time.Time // by group: its first call
	calls int
	// bytes of calls and answers, and the tokens of their contexts and answers
	bytes, context, sampled int64
}

// counting counts what is written.
type counting struct {
	http.ResponseWriter
	n int64
}

func (c *counting) Write(b []byte) (int, error) {
	n, err := c.ResponseWriter.Write(b)
	c.n += int64(n)
	return n, err
}

func (f *flying) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id, _, turn, err := task.ParseRequestID(r.Header.Get("X-Request-Id"))
	if err != nil || r.URL.Path != "/v1/completions" || id.Run == "" {
		f.engine.ServeHTTP(w, r)
		return
	}
	f.mu.Lock()
	f.calls++
	f.now[id.String()] = true
	f.peak = max(f.peak, len(f.now))
	if _, seen := f.first[id.Dispatch]; !seen {
		f.first[id.Dispatch] = time.Now()
	}
	f.mu.Unlock()
	answer := &counting{ResponseWriter: w}
	f.engine.ServeHTTP(answer, r)
	f.mu.Lock()
	f.bytes += r.ContentLength + answer.n
	f.mu.Unlock()
	prompt, _, _ := strings.Cut(id.Dispatch, "-")
	if turn+1 >= f.turns[prompt] {
		f.mu.Lock()
		delete(f.now, id.String())
		f.mu.Unlock()
	}
}

// span is the rate between the first and the last of n things.
func (f *flying) pulled() float64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	var from, to time.Time
	for _, at := range f.first {
		if from.IsZero() || at.Before(from) {
			from = at
		}
		if at.After(to) {
			to = at
		}
	}
	return rate(len(f.first), to.Sub(from))
}

func rate(n int, d time.Duration) float64 { return float64(n) / max(d.Seconds(), 0.001) }

// scaleInput writes DABench's example so often that there are n prompts.
func scaleInput(t *testing.T, n int) (questions, labels string, script *scripted.Script, turns map[string]int) {
	t.Helper()
	var q, l, s strings.Builder
	turns = map[string]int{}
	again := func(name, key string, into *strings.Builder, prompts int, text bool, see func(map[string]any, string)) {
		data, err := os.ReadFile(root + "examples/dabench/" + name)
		require.NoError(t, err)
		lines := strings.Split(strings.TrimSpace(string(data)), "\n")
		for copied := 0; copied*22 < prompts; copied++ {
			for _, line := range lines {
				var v map[string]any
				require.NoError(t, json.Unmarshal([]byte(line), &v))
				id := 1000 * copied
				if text {
					of, err := strconv.Atoi(v[key].(string))
					require.NoError(t, err)
					id += of
					v[key] = fmt.Sprint(id)
				} else {
					id += int(v[key].(float64))
					v[key] = id
				}
				if see != nil {
					see(v, fmt.Sprint(id))
				}
				out, err := json.Marshal(v)
				require.NoError(t, err)
				fmt.Fprintf(into, "%s\n", out)
			}
		}
	}
	again("questions.jsonl", "id", &q, n, false, nil)
	again("labels.jsonl", "id", &l, n, false, nil)
	again("script.jsonl", "prompt_id", &s, n, true, func(v map[string]any, id string) {
		turns[id] = 3
		if v["sample"].(float64) != 0 { // all samples play the good solution, of three or four turns
			v["sample"] = -1.0
			return
		}
		delete(v, "sample")
		turns[id] = len(v["turns"].([]any))
	})
	kept := s.String()
	s.Reset()
	for line := range strings.Lines(kept) {
		if !strings.Contains(line, `"sample":-1`) {
			s.WriteString(line)
		}
	}
	script, err := scripted.ReadScript(strings.NewReader(s.String()), "script")
	require.NoError(t, err)
	return write(t, "questions.jsonl", q.String()), write(t, "labels.jsonl", l.String()), script, turns
}

// scaleRow is what one level gave. Costs are of one trajectory.
type scaleRow struct {
	level, total, peak, sessions              int
	wall                                      time.Duration
	publish, pull, score, deliver             float64 // a second: groups, groups, trajectories, trajectories
	worker, box, server, nats, trainer        time.Duration
	workerKiB, serverKiB, natsKiB             int64
	workerRSS, serverRSS, natsRSS, sessionPSS int64
	turns, tokens                             float64 // of a trajectory
	callBytes, brokerBytes                    float64 // for each token of the contexts and answers, for each sampled token
}

func TestScale(t *testing.T) {
	levels := os.Getenv("VERIGRAPH_SCALE")
	if levels == "" {
		t.Skip("make scale")
	}
	var rows []scaleRow
	for _, level := range strings.Split(levels, ",") {
		n, err := strconv.Atoi(level)
		require.NoError(t, err, "VERIGRAPH_SCALE")
		t.Run(level, func(t *testing.T) { rows = append(rows, scale(t, n)) })
	}
	if t.Failed() {
		return
	}
	load, _ := os.ReadFile("/proc/loadavg")
	version, _ := exec.CommandContext(t.Context(), "git", "-C", root, "describe", "--always").Output()
	section := fmt.Sprintf("Commit %s; load of the machine (1, 5, 15 minutes) at the end: %s.\n\n%s", strings.TrimSpace(string(version)),
		strings.Join(strings.Fields(string(load))[:3], ", "), scaleTables(rows))
	fmt.Print("\n" + section)
	if *updateDocs && os.Getenv("VERIGRAPH_SCALE_JOURNAL") != "off" {
		writeScale(t, section, rows[len(rows)-1])
	}
}

const scaleBegins, scaleEnds = "<!-- make scale writes this -->\n", "<!-- to here -->\n"

// writeScale puts the tables into the page and the costs of the last level into the code that sizes with them.
func writeScale(t *testing.T, section string, last scaleRow) {
	t.Helper()
	before, rest, ok := strings.Cut(readPage(t, "measured/scale.md"), scaleBegins)
	require.True(t, ok)
	_, after, ok := strings.Cut(rest, scaleEnds)
	require.True(t, ok)
	require.NoError(t, os.WriteFile(root+"docs/measured/scale.md", []byte(before+scaleBegins+section+scaleEnds+after), 0o600))
	ms := func(d time.Duration) float64 { return d.Seconds() * 1000 }
	code := fmt.Sprintf(`package sizing

// Measured are the costs of docs/measured/scale.md, at %d trajectories at once. "make scale" writes this file.
var Measured = Costs{
	Worker: ms(%.3f), Server: ms(%.2f), NATS: ms(%.2f), Session: ms(%.2f),
	WorkerKiB: %d, NATSKiB: %d, SessionMiB: %.1f, BrokerBytes: %.1f, CallBytes: %.1f, RowBytes: 3.8,
}
`, last.level, ms(last.worker)/last.turns, ms(last.server), ms(last.nats), ms(last.box), last.workerKiB, last.natsKiB, float64(last.sessionPSS)/1024, last.brokerBytes, last.callBytes)
	require.NoError(t, os.WriteFile(root+"cmd/internal/sizing/measured.go", []byte(code), 0o600))
}

func scaleTables(rows []scaleRow) string {
	var b strings.Builder
	b.WriteString("| at once (peak) | sessions | trajectories | turns each | wall | publish groups/s | pull groups/s | score /s | deliver /s |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "| %d (%d) | %d | %d | %.1f | %.0f s | %.0f | %.1f | %.0f | %.0f |\n", r.level, r.peak, r.sessions, r.total, r.turns, r.wall.Seconds(), r.publish, r.pull, r.score, r.deliver)
	}
	b.WriteString("\nCPU for each trajectory, in ms:\n\n| at once | worker | its sessions and analysis | reward server and leader | NATS | trainer | all but the trainer |\n| --- | --- | --- | --- | --- | --- | --- |\n")
	ms := func(d time.Duration) string { return fmt.Sprintf("%.2f", float64(d.Microseconds())/1000) }
	for _, r := range rows {
		fmt.Fprintf(&b, "| %d | %s | %s | %s | %s | %s | %s |\n", r.level, ms(r.worker), ms(r.box), ms(r.server), ms(r.nats), ms(r.trainer), ms(r.worker+r.box+r.server+r.nats))
	}
	b.WriteString("\nMemory: resident at the peak, and what one more trajectory in flight adds to it:\n\n| at once | worker | session (PSS and page tables) | reward server and leader | NATS | worker, each | server, each | NATS, each |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "| %d | %d MiB | %.1f MiB | %d MiB | %d MiB | %d KiB | %d KiB | %d KiB |\n", r.level, r.workerRSS>>10, float64(r.sessionPSS)/1024, r.serverRSS>>10, r.natsRSS>>10, r.workerKiB, r.serverKiB, r.natsKiB)
	}
	b.WriteString("\nBytes:\n\n| at once | sampled tokens each | through NATS, for each sampled token | policy calls, for each token of context and answer |\n| --- | --- | --- | --- |\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "| %d | %.0f | %.1f | %.1f |\n", r.level, r.tokens, r.brokerBytes, r.callBytes)
	}
	return b.String()
}

func scale(t *testing.T, n int) scaleRow {
	t.Helper()
	total := max(n, scaleMinTotal)
	groups, atOnce := total/scaleGroup, max(1, n/scaleGroup)
	row := scaleRow{level: n, total: groups * scaleGroup}
	questions, labels, script, turns := scaleInput(t, groups)
	latency := time.Duration(max(1, float64(n)*envFloat(t, "VERIGRAPH_SCALE_LATENCY_MS", 8)/1000) * float64(time.Second))
	cfg := scripted.Defaults()
	var policy *flying
	cfg.Latency = func(c scripted.CallInfo) time.Duration { // spread by a quarter each way, by rollout and turn
		if c.ID.Run != "" {
			policy.mu.Lock()
			policy.context, policy.sampled = policy.context+int64(c.PromptTokens), policy.sampled+int64(c.SampledTokens)
			policy.mu.Unlock()
		}
		return latency*3/4 + time.Duration((7*c.ID.Sample+13*c.Turn+len(c.ID.Dispatch)*5)%50)*latency/100
	}
	engine, err := scripted.New(script, cfg)
	require.NoError(t, err)
	policy = &flying{engine: engine, turns: turns, now: map[string]bool{}, first: map[string]time.Time{}}
	server := httptest.NewServer(policy)
	t.Cleanup(server.Close)

	bin, dir := buildAll(t), t.TempDir()
	monitor, journal := freePort(t), `"on"`
	if os.Getenv("VERIGRAPH_SCALE_JOURNAL") == "off" {
		journal = `"off"`
	}
	port, feed, serverAdmin, workerAdmin := freePort(t), freePort(t), "127.0.0.1:"+freePort(t), "127.0.0.1:"+freePort(t)
	nats := launch(t, "Server is ready", filepath.Join(bin, "nats-server"), "-js", "-a", "127.0.0.1", "-p", port, "-sd", filepath.Join(dir, "nats"), "-m", monitor)
	nats.await(t, nats.says)
	serverConfig := shipped(t, "reward-server.yaml", "127.0.0.1:4222", "127.0.0.1:"+port, "/var/lib/verigraph", dir, "127.0.0.1:50051", "127.0.0.1:"+feed,
		"127.0.0.1:9091", serverAdmin, "group_size: 4\n  batch_groups: 8\n  max_groups: 64", fmt.Sprintf("group_size: %d\n  batch_groups: %d\n  max_groups: %d", scaleGroup, min(8, atOnce), atOnce))
	rewards := launch(t, `"ready"`, filepath.Join(bin, "reward-server"), "--config", serverConfig)
	rewards.await(t, rewards.says)
	worker := launch(t, `"ready"`, filepath.Join(bin, "rollout-worker"), "--config", shipped(t, "rollout-worker.yaml", "127.0.0.1:4222", "127.0.0.1:"+port,
		"/var/lib/verigraph", dir, "http://127.0.0.1:8000", server.URL, "model: policy", "model: scripted\n  call_timeout: 10m\n  endpoints: {adaptive: false, max_in_flight: 4096}",
		"/models/policy", "policy/scripted/tokenizer.json", "127.0.0.1:9090", workerAdmin, "groups: 2", fmt.Sprintf("groups: %d\n  drain: 1s", atOnce),
		"min_tier: strict", fmt.Sprintf("min_tier: strict\n  max_sessions: %d\n  start_timeout: 5m", min(n, envNumber(t, "VERIGRAPH_SCALE_SESSIONS", 1000))), "max_turns: 16", "max_turns: 16\n  trajectory_timeout: 2h\n  journal: "+journal))
	worker.await(t, worker.says)

	pid := func(r *restarted) int { return r.proc.cmd.Process.Pid }
	idle := [3]int64{kib(pid(worker), "status", "VmRSS"), kib(pid(rewards), "status", "VmRSS"), kib(pid(nats), "status", "VmRSS")}
	workerCPU, boxCPU := cpuOf(pid(worker))
	serverCPU, _ := cpuOf(pid(rewards))
	natsCPU, _ := cpuOf(pid(nats))

	before := brokerBytes(t, monitor)
	begun := time.Now()
	code, _, stderr := verigraph(t, "submit", "--config", serverConfig, "--final", "--limit", fmt.Sprint(groups), "--format", "dabench",
		"--prompts", questions, "--labels", labels, "--data-dir", tables)
	require.Zero(t, code, stderr)
	row.publish = rate(groups, time.Since(begun))

	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	trainer := exec.CommandContext(ctx, root+".venv/client/bin/python", "-m", "verigraph.trainer")
	trainer.Env = append(os.Environ(), "VERIGRAPH_FEED=127.0.0.1:"+feed)
	done := make(chan error, 1)
	var said []byte
	go func() {
		var err error
		said, err = trainer.CombinedOutput()
		done <- err
	}()

	var scored, delivered counter
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for running := true; running; {
		select {
		case err := <-done:
			require.NoError(t, err, string(said))
			running = false
		case <-tick.C:
		}
		s, w := series(t, serverAdmin), series(t, workerAdmin)
		scored.see(s["verigraph_reward_rollouts_total"])
		delivered.see(s[`verigraph_ledger_rollouts{state="delivered"}`])
		live := int(w[`verigraph_sandbox_sessions{state="live"}`])
		if live > row.sessions {
			row.sessions = live
			row.sessionPSS = sessionMemory(pid(worker))
		}
		row.workerRSS = max(row.workerRSS, kib(pid(worker), "status", "VmRSS"))
		row.serverRSS = max(row.serverRSS, kib(pid(rewards), "status", "VmRSS"))
		row.natsRSS = max(row.natsRSS, kib(pid(nats), "status", "VmRSS"))
	}
	row.wall = time.Since(begun)
	w2, b2 := cpuOf(pid(worker))
	s2, _ := cpuOf(pid(rewards))
	n2, _ := cpuOf(pid(nats))
	each := func(d time.Duration) time.Duration { return d / time.Duration(row.total) }
	row.worker, row.box, row.server, row.nats = each(w2-workerCPU), each(b2-boxCPU), each(s2-serverCPU), each(n2-natsCPU)
	usage := trainer.ProcessState.SysUsage().(*syscall.Rusage)
	row.trainer = each(time.Duration(usage.Utime.Nano() + usage.Stime.Nano()))
	row.workerKiB, row.serverKiB, row.natsKiB = (row.workerRSS-idle[0])/int64(n), (row.serverRSS-idle[1])/int64(n), (row.natsRSS-idle[2])/int64(n)
	row.pull, row.score, row.deliver = policy.pulled(), scored.rate(), delivered.rate()
	through := brokerBytes(t, monitor) - before
	policy.mu.Lock()
	row.peak, row.turns, row.tokens = policy.peak, float64(policy.calls)/float64(row.total), float64(policy.sampled)/float64(row.total)
	row.callBytes, row.brokerBytes = float64(policy.bytes)/float64(policy.context+policy.sampled), through/float64(policy.sampled)
	policy.mu.Unlock()
	require.GreaterOrEqual(t, float64(row.peak), 0.9*float64(min(n, row.total)), "trajectories in flight at the peak")

	code, stdout, stderr := verigraph(t, "status", "--feed", "127.0.0.1:"+feed)
	require.Zero(t, code, stderr)
	var st struct {
		Complete    bool
		Unaccounted int64
		Ledger      map[string]int64
	}
	require.NoError(t, json.Unmarshal([]byte(stdout), &st), stdout)
	require.True(t, st.Complete)
	require.Zero(t, st.Unaccounted)
	require.Equal(t, int64(row.total), st.Ledger["delivered"], stdout)
	t.Logf("%+v", row)
	return row
}

// sessionMemory is the mean of some sessions, in KiB: what each has of its own and its part of what is shared.
func sessionMemory(worker int) int64 {
	all := below(worker)
	var sum, n int64
	for i := len(all) - 1; i >= 0 && n < 20; i-- { // sessions are the deepest
		if pss := kib(all[i].pid, "smaps_rollup", "Pss"); pss > 0 {
			sum, n = sum+pss+kib(all[i].pid, "status", "VmPTE"), n+1
		}
	}
	return sum / max(n, 1)
}

// brokerBytes is what came into a NATS server and left it.
func brokerBytes(t *testing.T, monitor string) float64 {
	t.Helper()
	response, err := http.Get("http://127.0.0.1:" + monitor + "/varz")
	require.NoError(t, err)
	defer response.Body.Close()
	var v struct {
		In  float64 `json:"in_bytes"`
		Out float64 `json:"out_bytes"`
	}
	require.NoError(t, json.NewDecoder(response.Body).Decode(&v))
	return v.In + v.Out
}

// counter is a total that is looked at now and then.
type counter struct {
	firstAt, lastAt time.Time
	first, last     float64
}

func (c *counter) see(v float64) {
	now := time.Now()
	if v > 0 && c.firstAt.IsZero() {
		c.firstAt, c.first, c.lastAt, c.last = now, v, now, v
	}
	if v > c.last {
		c.lastAt, c.last = now, v
	}
}

// rate is that between the first look that saw something and the last change; 0 where there was one look only.
func (c *counter) rate() float64 {
	if c.last == c.first {
		return 0
	}
	return (c.last - c.first) / c.lastAt.Sub(c.firstAt).Seconds()
}

func envFloat(t *testing.T, name string, fallback float64) float64 {
	t.Helper()
	s := os.Getenv(name)
	if s == "" {
		return fallback
	}
	f, err := strconv.ParseFloat(s, 64)
	require.NoError(t, err, name)
	return f
}
