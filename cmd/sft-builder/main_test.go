package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/cmd/internal/cli"
	"github.com/verigraph/verigraph/internal/patience"
	"github.com/verigraph/verigraph/policy/scripted"
	"github.com/verigraph/verigraph/sandbox"
	"github.com/verigraph/verigraph/sft"
	"github.com/verigraph/verigraph/sft/build"
	"github.com/verigraph/verigraph/sft/card"
	"github.com/verigraph/verigraph/sft/generate"
)

const root = "../../"

// TestMain also plays the builder that is killed: see TestABuildThatIsKilledTwice.
func TestMain(m *testing.M) {
	sandbox.MaybeInit()
	if after, err := strconv.Atoi(os.Getenv("SFT_TEST_KILL_AFTER")); err == nil {
		killedBuild(after)
	}
	patience.Main(m, func() {
		if shared.dir != "" {
			_ = os.RemoveAll(shared.dir)
		}
	})
}

// killedBuild builds what the arguments say and kills its own process at the given part of the work.
func killedBuild(after int) {
	c, err := sft.Load(os.Getenv("SFT_TEST_CONFIG"))
	if err != nil {
		panic(err)
	}
	_, err = build.Run(context.Background(), build.Options{
		In: []string{os.Getenv("SFT_TEST_IN")}, Out: os.Getenv("SFT_TEST_OUT"), Config: c, Card: card.Write,
		Kept: func() {
			if after--; after == 0 {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			}
		},
	})
	fmt.Fprintln(os.Stderr, "built:", err)
	os.Exit(3)
}

// sftBuilder runs a command line in this process.
func sftBuilder(t testing.TB, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := newRoot()
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	err := cmd.ExecuteContext(t.Context())
	return cli.ExitCode("sft-builder", err, &errs), out.String(), errs.String()
}

func write(t testing.TB, path, text string) string {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

// plan asks for trajectories of the first questions of the example.
func plan(t testing.TB, dir string, prompts, want int) string {
	t.Helper()
	head := func(name string) string {
		data, err := os.ReadFile(root + "examples/dabench/" + name)
		require.NoError(t, err)
		return write(t, filepath.Join(dir, name), strings.Join(strings.SplitAfter(string(data), "\n")[:prompts], ""))
	}
	return write(t, filepath.Join(dir, "plan.yaml"), fmt.Sprintf(`
run: teacher
samples: 4
rounds: 1
price: {input: 1, output: 2}
sources:
- {name: dabench, prompts: %s, format: dabench, labels: %s, data_dir: %s, weight: 1, want: %d}
`, head("questions.jsonl"), head("labels.jsonl"), root+"examples/dabench/tables", want))
}

// teacher is the scripted policy of the example.
func teacher(ctx context.Context, t testing.TB) (url, tokenizer string) {
	t.Helper()
	script, err := scripted.LoadScript(root + "examples/dabench/script.jsonl")
	require.NoError(t, err)
	server, err := scripted.New(script, scripted.Defaults())
	require.NoError(t, err)
	url, stop, err := server.Start(ctx)
	require.NoError(t, err)
	t.Cleanup(stop)
	tokenizer = filepath.Join(t.TempDir(), "tokenizer.json")
	require.NoError(t, os.WriteFile(tokenizer, scripted.TokenizerJSON(), 0o644))
	return url, tokenizer
}

func accept(t testing.TB, dir string) string {
	t.Helper()
	return write(t, filepath.Join(dir, "accept.yaml"), "licences: {dabench: Apache-2.0}\nselect: {min_accuracy: 1}\nchunk: 3\nvalidation: 0.3\n")
}

func generateArgs(t testing.TB, url, tokenizer, plan, out string, extra ...string) []string {
	t.Helper()
	line := write(t, filepath.Join(t.TempDir(), "line.yaml"), "sandbox: {python: "+root+".venv/sandbox/bin/python}\n")
	return append([]string{
		"generate", "--plan", plan, "--accept", accept(t, t.TempDir()), "--config", line, "--policy", url,
		"--model", scripted.Defaults().Model, "--tokenizer", tokenizer, "--judge", "rules", "--out", out,
	}, extra...)
}

// shared is one generated run for all tests of this package.
var shared struct {
	sync.Once
	dir string
}

// archive is that run: real trajectories of the real line.
func archive(t testing.TB) string {
	t.Helper()
	shared.Do(func() {
		dir, err := os.MkdirTemp("", "verigraph-sft-")
		require.NoError(t, err)
		shared.dir = dir
		url, tok := teacher(context.WithoutCancel(t.Context()), t)
		code, stdout, stderr := sftBuilder(t, generateArgs(t, url, tok, plan(t, t.TempDir(), 3, 100), filepath.Join(dir, "run"))...)
		require.Equal(t, cli.ExitFailed, code, stdout+stderr) // three questions do not give 100
		require.Contains(t, stderr, "wanted trajectories after every prompt was asked 1 times")
	})
	return filepath.Join(shared.dir, "run")
}

func TestGeneratingStopsWhenEachSourceHasEnoughAndGoesOnWithoutAskingAgain(t *testing.T) {
	url, tok := teacher(t.Context(), t)
	dir, out := t.TempDir(), filepath.Join(t.TempDir(), "out")
	p := plan(t, dir, 4, 3)
	code, stdout, stderr := sftBuilder(t, generateArgs(t, url, tok, p, out, "--output", "json")...)
	require.Zero(t, code, stdout+stderr)
	var first, second generate.Result
	require.NoError(t, json.Unmarshal([]byte(stdout), &first))
	require.GreaterOrEqual(t, first.Sources[0].Accepted, 3)
	require.Less(t, first.Rollouts, 16, "it stopped before all questions were asked")
	require.Positive(t, first.InputTokens*first.OutputTokens)
	require.InDelta(t, (float64(first.InputTokens)+2*float64(first.OutputTokens))/1e6, first.Cost, 1e-9)
	require.Regexp(t, `dabench \d+ of 3 \(\d+ % of \d+ accepted\); \d+ rollouts, \d+ tokens in, \d+ out, cost`, stderr)

	code, stdout, stderr = sftBuilder(t, generateArgs(t, url, tok, p, out, "--output", "json")...)
	require.Zero(t, code, stdout+stderr)
	require.NoError(t, json.Unmarshal([]byte(stdout), &second))
	require.Zero(t, second.Rollouts, "everything wanted is there")
	require.Equal(t, first.Sources, second.Sources)

	other := plan(t, t.TempDir(), 4, 5)
	code, _, stderr = sftBuilder(t, generateArgs(t, url, tok, other, out)...)
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "was generated by another plan")
}

func TestAWrongCommandLineNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, c := range []struct {
		want string
		args []string
	}{
		{"--in: a directory or file is needed", []string{"build", "--out", dir}},
		{"--out: a directory is needed", []string{"build", "--in", dir}},
		{"unknown flag: --inn", []string{"build", "--inn", dir}},
		{"line 1: unknown key \"sed\"", []string{"build", "--in", dir, "--out", dir, "--config", write(t, filepath.Join(dir, "a.yaml"), "sed: 1\n")}},
		{"--plan: is needed", []string{"generate", "--out", dir}},
		{"sources: empty", []string{"generate", "--out", dir, "--plan", write(t, filepath.Join(dir, "b.yaml"), "samples: 1\n")}},
		{"manifest: open", []string{"verify", dir}},
		{"accepts 1 arg(s), received 0", []string{"inspect"}},
		{`--color: "pink" is none of`, []string{"inspect", dir, "--color", "pink"}},
	} {
		if c.args[0] == "inspect" && len(c.args) > 1 {
			require.NoError(t, os.WriteFile(filepath.Join(dir, build.ManifestName), []byte(`{"schema": 1}`), 0o644))
		}
		code, _, stderr := sftBuilder(t, c.args...)
		require.Equal(t, cli.ExitUsage, code, "%v: %s", c.args, stderr)
		require.Contains(t, stderr, c.want)
	}
}

// A teacher that gives text only: what it wrote becomes samples with exactly the messages that it was sent.
func TestATextOnlyTeachersTrajectoriesBecomeSamples(t *testing.T) {
	data, err := os.ReadFile(root + "examples/dabench/solutions.jsonl")
	require.NoError(t, err)
	var solution struct{ Turns []string }
	require.NoError(t, json.Unmarshal([]byte(strings.SplitN(string(data), "\n", 2)[0]), &solution))
	var sent [][]sft.Message
	var mu sync.Mutex
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var req struct {
			Messages []sft.Message
			Stop     []string
		}
		if r.URL.Path != "/v1/chat/completions" || json.NewDecoder(r.Body).Decode(&req) != nil {
			http.NotFound(w, r)
			return
		}
		said := 0
		for _, m := range req.Messages {
			if m.Role == sft.Assistant {
				said++
			}
		}
		mu.Lock()
		sent = append(sent, req.Messages)
		mu.Unlock()
		text := solution.Turns[min(said, len(solution.Turns)-1)]
		for _, stop := range req.Stop {
			text, _, _ = strings.Cut(text, stop)
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"choices": []any{map[string]any{
			"index": 0, "finish_reason": "stop", "message": map[string]string{"role": "assistant", "content": text},
		}}})
	}))
	t.Cleanup(server.Close)
	dir, out := t.TempDir(), filepath.Join(t.TempDir(), "out")
	write(t, filepath.Join(dir, "p.jsonl"), `{"id":"p","question":"Mean fare, as @mean_fare[x] with two decimals?","files":["test_ave.csv"],"answer":[["mean_fare","34.65"]],"data_source":"dabench"}`+"\n")
	p := write(t, filepath.Join(dir, "plan.yaml"), "samples: 1\nsources: [{name: d, prompts: "+filepath.Join(dir, "p.jsonl")+", format: jsonl, data_dir: "+root+"examples/dabench/tables, weight: 1, want: 1}]\n")
	code, stdout, stderr := sftBuilder(t, generateArgs(t, server.URL, "", p, out, "--policy-api", "chat")...)
	require.Zero(t, code, stdout+stderr)
	require.Contains(t, stdout, "d: 1 of 1 wanted trajectories accepted, of 1 rollouts")
	corpus := filepath.Join(t.TempDir(), "corpus")
	code, stdout, stderr = sftBuilder(t, "build", "--in", out, "--config", accept(t, t.TempDir()), "--out", corpus)
	require.Zero(t, code, stdout+stderr)
	row := swiftRows(t, corpus)["teacher/p-0/0#trajectory"]
	require.Len(t, row.Messages, 1+2*len(solution.Turns))
	last := sent[len(sent)-1]
	for i, m := range last { // the last call's context stands before the last turn
		require.Equal(t, m.Role, row.Messages[i].Role)
		require.Equal(t, m.Content, row.Messages[i].Content)
	}
	require.Len(t, row.Messages, len(last)+1)
}
