package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/cmd/internal/cli"
	"github.com/verigraph/verigraph/dataset"
	"github.com/verigraph/verigraph/dataset/archive"
	"github.com/verigraph/verigraph/dataset/parquet"
	"github.com/verigraph/verigraph/internal/patience"
	"github.com/verigraph/verigraph/policy/scripted"
	"github.com/verigraph/verigraph/sandbox"
	"github.com/verigraph/verigraph/trajectory"
	"github.com/verigraph/verigraph/viewer"
)

func TestMain(m *testing.M) {
	sandbox.MaybeInit()
	if os.Getenv(asProgram) != "" {
		_ = os.Unsetenv(asProgram)
		main()
	}
	patience.Main(m, func() { _ = os.RemoveAll(builtDir) }) // nothing where nothing was built
}

const (
	root   = "../../"
	tables = root + "examples/dabench/tables"
)

// verigraph runs a command line in this process and returns its exit code and output.
func verigraph(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := newRoot()
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	err := cmd.ExecuteContext(t.Context())
	return cli.ExitCode("verigraph", err, &errs), out.String(), errs.String()
}

func dabenchArgs(out, script string, extra ...string) []string {
	return append([]string{
		"run", "--prompts", root + "examples/dabench/questions.jsonl", "--labels", root + "examples/dabench/labels.jsonl",
		"--format", "dabench", "--data-dir", tables, "--policy", "script:" + script, "--judge", "rules",
		"--python", root + ".venv/sandbox/bin/python", "--out", out,
	}, extra...)
}

func readSummary(t *testing.T, out string) summary {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(out, "summary.json"))
	require.NoError(t, err)
	var s summary
	require.NoError(t, json.Unmarshal(data, &s))
	return s
}

func readIndex(t *testing.T, out string) []archive.Entry {
	t.Helper()
	entries, err := archive.ReadIndex(out)
	require.NoError(t, err)
	return entries
}

// readRows reads every row of every batch.
func readRows(t *testing.T, out string) (metas []dataset.Meta, rows []dataset.Row) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(out, "batches", "*.parquet"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, f := range files {
		data, err := os.ReadFile(f)
		require.NoError(t, err)
		m, r, err := parquet.Read(bytes.NewReader(data), int64(len(data)))
		require.NoError(t, err)
		metas, rows = append(metas, m), append(rows, r...)
	}
	return metas, rows
}

func TestAllHandedSolutionsReachFullMarksWithStructuralGrounding(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	code, stdout, stderr := verigraph(t, dabenchArgs(out, root+"examples/dabench/solutions.jsonl", "--group-size", "2")...)
	require.Zero(t, code, stderr+stdout)
	entries := readIndex(t, out)
	require.Len(t, entries, 44)
	for _, e := range entries {
		require.Equal(t, trajectory.Submitted, e.TerminationReason, "%s: %s", e.RolloutID, e.Error)
		require.NotNil(t, e.Correct, e.RolloutID)
		require.True(t, *e.Correct, "%s: %s", e.RolloutID, e.Answer)
		require.Equal(t, 1.0, *e.Rewards.Outcome, e.RolloutID)
		require.NotNil(t, e.Grounding.Structural, e.RolloutID)
		require.Equal(t, 1.0, *e.Grounding.Structural, "%s: %s", e.RolloutID, e.Answer)
		require.Equal(t, 1.0, *e.Grounding.Lexical, "%s: %s", e.RolloutID, e.Answer)
		require.Empty(t, e.Flags, e.RolloutID)
		require.Greater(t, e.Tokens, e.Sampled, e.RolloutID)
		require.Positive(t, e.Sampled, e.RolloutID)
		require.Equal(t, &[2]int64{}, e.Versions, e.RolloutID)
		require.False(t, e.ArchivedAt.IsZero(), e.RolloutID)
	}
	s := readSummary(t, out)
	require.Equal(t, 1.0, *s.Accuracy)
	require.Equal(t, 44, s.Ledger.Delivered)
	require.True(t, s.Ledger.Balanced())
	var st viewer.Status
	data, err := os.ReadFile(filepath.Join(out, viewer.StatusName))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &st))
	require.True(t, st.Complete)
	require.Equal(t, int64(44), st.Ledger.Delivered)
}

func TestCheatsThatTheGraphRefusesEarnNothing(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	code, stdout, stderr := verigraph(t, "run", "--prompts", "testdata/negatives.jsonl", "--data-dir", tables,
		"--policy", "script:testdata/negatives_script.jsonl", "--judge", "rules", "--group-size", "2",
		"--python", root+".venv/sandbox/bin/python", "--out", out)
	require.Zero(t, code, stderr+stdout)
	byKind := map[string]archive.Entry{}
	for _, e := range readIndex(t, out) {
		byKind[e.PromptID] = e
	}
	require.Len(t, byKind, 14)
	// What the graph refuses leaves its rule; what the session refuses before (a missing value, a text
	// in place of a claim) leaves a refused cell.
	for kind, rule := range map[string]string{
		"literal_template": "bind_no_placeholder", "infer_without_premises": "infer_no_premise", "infer_new_numbers": "infer_",
	} {
		require.Contains(t, strings.Join(byKind[kind].Flags, " "), "refused:"+rule, kind)
	}
	for _, kind := range []string{
		"literal_template", "infer_without_premises", "infer_new_numbers", "missing_kwarg", "submit_text",
		"never_submits", "plain_text_answer", "pokes_graph_manager",
	} {
		require.False(t, byKind[kind].Submitted, kind)
	}
	right := *byKind["inline_expression"].Rewards.Total
	for kind, e := range byKind {
		switch kind {
		case "inline_expression", "undefined_variable", "rewrites_data_file":
			// Two are honest; the third could not change the file, so what it binds is true.
			require.True(t, *e.Correct, kind)
			require.Equal(t, 1.0, *e.Grounding.Structural, kind)
		default:
			require.Zero(t, *e.Rewards.Outcome, kind)
			require.Less(t, *e.Rewards.Total, right, kind)
		}
	}
	constant := byKind["constant_variable"]
	require.True(t, *constant.Correct, "the official rule does not look at evidence")
	require.Zero(t, *constant.Grounding.Structural)
	double := byKind["double_submit"]
	require.Equal(t, "@mean_fare[15.74]", double.Answer, "the first submission counts")
}

// script writes a script file of one prompt and returns its path.
func writeScript(t *testing.T, lines ...any) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "script.jsonl")
	var b bytes.Buffer
	for _, l := range lines {
		data, err := json.Marshal(l)
		require.NoError(t, err)
		b.Write(append(data, '\n'))
	}
	require.NoError(t, os.WriteFile(path, b.Bytes(), 0o644))
	return path
}

type scriptLine struct {
	PromptID string   `json:"prompt_id"`
	Turns    []string `json:"turns"`
}

func cellTurn(code string) string {
	return "<think>\nA step.\n</think>\n<code_interpreter>\n" + code + "\n</code_interpreter>"
}

func TestStoredTokensAreTheSampledOnesAndEveryLogProbCanBeRecomputed(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	code, stdout, stderr := verigraph(t, dabenchArgs(out, root+"examples/dabench/script.jsonl", "--limit", "4")...)
	require.Zero(t, code, stderr+stdout)
	tok, err := scripted.Tokenizer()
	require.NoError(t, err)
	metas, rows := readRows(t, out)
	require.Equal(t, tok.SHA256(), metas[0].TokenizerSHA256)
	require.Len(t, rows, 16)
	nonCanonical := 0
	for _, r := range rows {
		ids := append([]int32{}, r.PromptIDs...)
		for i, id := range r.ResponseIDs {
			want := float32(0)
			if r.ResponseMask[i] == 1 {
				want = scripted.LogProb(ids, id, 0)
			}
			require.Equal(t, want, r.RolloutLogProbs[i], "%s position %d", r.RolloutID, i)
			ids = append(ids, id)
		}
		var messages []trajectory.Message
		require.NoError(t, json.Unmarshal([]byte(r.MessagesJSON), &messages))
		var said []string
		for _, m := range messages {
			if m.Role == "assistant" {
				said = append(said, m.Content)
			}
		}
		turn := 0
		for _, sp := range r.Spans {
			if sp.Kind != string(trajectory.SpanSampled) {
				continue
			}
			sampled := r.ResponseIDs[sp.Start:sp.End]
			text := strings.TrimSuffix(string(tok.Decode(sampled)), "<|im_end|>")
			require.Equal(t, said[turn], text, r.RolloutID)
			if len(tok.Encode(text)) != len(sampled) {
				nonCanonical++
			}
			turn++
		}
		require.Equal(t, len(said), turn)
	}
	require.Positive(t, nonCanonical, "the server returns ids that encoding the text would not give")
}

func TestInventedToolResponseEntersNeitherHistoryNorEvidenceNorTokens(t *testing.T) {
	t.Parallel()
	const invented = "INVENTED-550e8400"
	script := writeScript(t, scriptLine{"p", []string{
		cellTurn("print(len(open('test_ave.csv').read()) > 0)") + "\n<tool_response>\n" + invented + "\n</tool_response>\n" +
			cellTurn("c = bind('"+invented+" {x}', x=1)\nsubmit_answer(c)"),
		"Done.",
	}})
	prompts := filepath.Join(t.TempDir(), "prompts.jsonl")
	require.NoError(t, os.WriteFile(prompts, []byte(`{"id":"p","question":"Q","files":["test_ave.csv"],"answer":"1","data_source":"x","meta":{}}`+"\n"), 0o644))
	for _, mode := range []string{"code_tag", "end_of_turn"} {
		out := t.TempDir()
		conf := filepath.Join(t.TempDir(), "c.yaml")
		require.NoError(t, os.WriteFile(conf, []byte("rollout: {stop: "+mode+"}\n"), 0o644))
		code, _, stderr := verigraph(t, "run", "--prompts", prompts, "--data-dir", tables, "--policy", "script:"+script,
			"--judge", "rules", "--group-size", "2", "--config", conf, "--python", root+".venv/sandbox/bin/python", "--out", out)
		require.Zero(t, code, stderr)
		_, rows := readRows(t, out)
		tok, err := scripted.Tokenizer()
		require.NoError(t, err)
		for _, r := range rows {
			require.NotContains(t, string(tok.Decode(r.ResponseIDs)), invented, mode)
			require.NotContains(t, r.MessagesJSON, invented, mode)
			require.NotContains(t, r.GraphJSON, invented, mode)
			require.Equal(t, string(trajectory.NoSubmission), r.TerminationReason)
		}
	}
}

func TestSecondRunIntoTheSameDirectoryIsRefusedAndResumeGoesOn(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	args := dabenchArgs(out, root+"examples/dabench/solutions.jsonl", "--group-size", "2", "--limit", "1")
	code, _, stderr := verigraph(t, args...)
	require.Zero(t, code, stderr)
	code, _, stderr = verigraph(t, args...)
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "--resume")
	code, _, stderr = verigraph(t, append(args, "--resume")...)
	require.Zero(t, code, stderr)
	require.Len(t, readIndex(t, out), 2, "nothing runs twice")
	require.Equal(t, 1, readSummary(t, out).Batches.Written)
	code, _, stderr = verigraph(t, append(args, "--resume", "--seed", "7")...)
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "another run")
}

func TestInterruptedRunSaysWhatWasKeptAndResumes(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	script := root + "examples/dabench/solutions.jsonl"
	ctx, cancel := context.WithCancel(t.Context())
	var stdout, stderr bytes.Buffer
	cmd := newRoot()
	// The trainer is the signal: it runs as soon as the feed is up, and ends the run from outside.
	started := filepath.Join(t.TempDir(), "started")
	require.NoError(t, syscall.Mkfifo(started, 0o600))
	cmd.SetArgs(dabenchArgs(out, script, "--group-size", "2", "--limit", "3", "--trainer", "echo > "+started+"; exec sleep 60"))
	cmd.SetOut(&stdout)
	cmd.SetErr(&stderr)
	stop := make(chan struct{})
	go func() {
		defer close(stop)
		_, _ = os.ReadFile(started)
		cancel()
	}()
	err := cmd.ExecuteContext(ctx)
	patience.Receive(t, stop, "the signal")
	require.ErrorContains(t, err, "--resume")
	require.ErrorContains(t, err, "kept in")
	s := readSummary(t, out)
	require.True(t, s.Ledger.Balanced(), "%+v", s.Ledger)
	code, _, errs := verigraph(t, dabenchArgs(out, script, "--group-size", "2", "--limit", "3", "--resume")...)
	require.Zero(t, code, errs)
	s = readSummary(t, out)
	require.Equal(t, 6, s.Ledger.Delivered)
	require.Len(t, readIndex(t, out), 6)
	_, rows := readRows(t, out)
	require.Len(t, rows, 6, "no rollout is delivered twice")
}

func TestGraphPrintsTheEvidenceOfARollout(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	code, _, stderr := verigraph(t, dabenchArgs(out, root+"examples/dabench/solutions.jsonl", "--group-size", "2", "--limit", "1")...)
	require.Zero(t, code, stderr)
	code, stdout, _ := verigraph(t, "graph", out, "local/0-0/0", "--format", "mermaid")
	require.Zero(t, code)
	require.Contains(t, stdout, "flowchart")
	require.Contains(t, stdout, "test_ave.csv")
	code, stdout, _ = verigraph(t, "graph", out, "local/0-0/0")
	require.Zero(t, code)
	require.True(t, json.Valid([]byte(stdout)))
	code, _, stderr = verigraph(t, "graph", out, "local/none-0/0")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "local/none-0/0")
}
