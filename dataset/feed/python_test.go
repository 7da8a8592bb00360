package feed_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/dataset"
	"github.com/verigraph/verigraph/dataset/feed"
	"github.com/verigraph/verigraph/dataset/parquet"
	"github.com/verigraph/verigraph/internal/patience"
)

// trainerResult is what the trainer command writes with --json.
type trainerResult struct {
	Batches       int     `json:"batches"`
	Groups        int     `json:"groups"`
	Rollouts      int     `json:"rollouts"`
	Rows          int     `json:"rows"`
	SampledTokens int     `json:"sampled_tokens"`
	RewardMean    float64 `json:"reward_mean"`
	Acknowledged  int64   `json:"acknowledged"`
	Failure       *string `json:"failure"`
	exit          int
	output        string
}

// trainer runs the Python client against a server.
func trainer(t *testing.T, addr string, token feed.Token, args ...string) trainerResult {
	t.Helper()
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	python := filepath.Join(root, ".venv", "client", "bin", "python")
	if _, err := os.Stat(python); err != nil {
		t.Fatalf("the Python client has no environment (%v): run make python", err)
	}
	report := filepath.Join(t.TempDir(), "report.json")
	cmd := exec.CommandContext(patience.Context(t), python, append([]string{"-m", "verigraph.trainer", "--json", report}, args...)...)
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "PYTHONPATH=" + filepath.Join(root, "clients", "python", "src"),
		"VERIGRAPH_FEED=" + addr, "VERIGRAPH_TOKEN=" + string(token), "PYTHONDONTWRITEBYTECODE=1",
	}
	output, err := cmd.CombinedOutput()
	if _, exited := err.(*exec.ExitError); err != nil && !exited {
		t.Fatal(err)
	}
	result := trainerResult{exit: cmd.ProcessState.ExitCode(), output: string(output)}
	data, err := os.ReadFile(report)
	require.NoError(t, err, result.output)
	require.NoError(t, json.Unmarshal(data, &result))
	return result
}

// batchFile is a Parquet object of groups of two rows, of five response ids of which four were sampled.
func batchFile(t *testing.T, groups int, edit func([]dataset.Row)) []byte {
	t.Helper()
	var rows []dataset.Row
	for g := range groups {
		for s := range 2 {
			rows = append(rows, dataset.Row{
				RowIdx: int32(len(rows)), UID: string(rune('a'+g)) + "-0", SessionID: int32(s), RolloutID: "r/a-0/0",
				PromptIDs: []int32{1, 2, 3}, ResponseIDs: []int32{4, 5, 6, 7, 8}, ResponseMask: []int8{1, 1, 0, 1, 1},
				RolloutLogProbs: []float32{-1, -2, 0, -3, -4}, RewardStatus: "ok", LossValid: true,
				Spans: []dataset.Span{
					{Start: 0, End: 2, Kind: "sampled"}, {Start: 2, End: 3, Kind: "observation"}, {Start: 3, End: 5, Kind: "sampled"},
				},
				Reward: float32(s), TurnRewards: []float32{}, TerminationReason: "submitted", MessagesJSON: "[]", GraphJSON: "{}",
			})
		}
	}
	if edit != nil {
		edit(rows)
	}
	var b bytes.Buffer
	meta := dataset.Meta{Run: "run", Model: "m", PromptLength: 8, ResponseLength: 16, OverlongOwner: dataset.OverlongNone}
	require.NoError(t, parquet.Write(&b, meta, rows))
	return b.Bytes()
}

func withRows(n int) func(*feed.Batch) { return func(b *feed.Batch) { b.Rows = n } }

func TestThePythonTrainerTakesChecksPadsAndAcknowledgesEveryBatch(t *testing.T) {
	t.Parallel()
	m := newMemory(t)
	for groups := 1; groups <= 3; groups++ {
		m.add(t, batchFile(t, groups, nil), withRows(2*groups))
	}
	m.finish()
	opts := feed.Defaults()
	opts.Token = "s3cret"
	server := serve(t, m.source(), opts)

	refused := trainer(t, server.addr, "wrong")
	assert.Equal(t, 1, refused.exit)
	assert.Contains(t, refused.output, "Unauthenticated")

	got := trainer(t, server.addr, "s3cret")
	assert.Equal(t, 0, got.exit, got.output)
	assert.Contains(t, got.output, "batch 2: 2 groups, 4 rollouts, input_ids [4, 24]")
	assert.NotContains(t, got.output, "s3cret")
	assert.Nil(t, got.Failure)
	got.output = ""
	assert.Equal(t, trainerResult{
		Batches: 3, Groups: 6, Rollouts: 12, Rows: 12, SampledTokens: 48, RewardMean: 0.5, Acknowledged: 3,
	}, got)
	assert.Equal(t, int64(3), m.cursors[feed.TrainerCursor].Acknowledged)
	assert.Equal(t, int64(3), lastStep(m.cursors[feed.TrainerCursor]))

	again := trainer(t, server.addr, "s3cret")
	assert.Equal(t, 0, again.exit, again.output)
	assert.Zero(t, again.Batches, "acknowledged batches are never served again")
}

// pythonBlock is the first Python block of a document.
func pythonBlock(t *testing.T, doc string) string {
	t.Helper()
	data, err := os.ReadFile("../../" + doc)
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(data), "```python\n")
	require.True(t, ok, doc)
	code, _, ok := strings.Cut(rest, "```")
	require.True(t, ok, doc)
	return code
}

func runPython(t *testing.T, dir, code string) string {
	t.Helper()
	python, err := filepath.Abs("../../.venv/client/bin/python")
	require.NoError(t, err)
	cmd := exec.CommandContext(patience.Context(t), python, "-W", "error", "-c", code)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return string(out)
}

func TestTheLoopThatTheDocumentsShowTrainsOnEveryBatch(t *testing.T) {
	t.Parallel()
	for _, doc := range []string{"docs/trainer.md", "clients/python/README.md"} {
		m := newMemory(t)
		for range 3 {
			m.add(t, batchFile(t, 2, nil), func(b *feed.Batch) { b.Rows = 4 })
		}
		m.finish()
		at := serve(t, m.source(), feed.Defaults()).addr
		code := pythonBlock(t, doc)
		for _, name := range []string{"127.0.0.1:50051", "localhost:7777"} {
			code = strings.ReplaceAll(code, name, at)
		}
		require.Contains(t, code, at, doc)
		runPython(t, t.TempDir(), code)
		at3, err := m.Position(t.Context(), feed.TrainerCursor)
		require.NoError(t, err)
		require.Equal(t, int64(3), at3.Acknowledged, doc)
	}
}

func TestTheCodeForOtherTrainersReadsABatch(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data := batchFile(t, 2, func(rows []dataset.Row) {
		rows[3].LossValid, rows[3].RewardStatus, rows[3].ResponseMask = false, "lost", make([]int8, 5)
	})
	require.NoError(t, os.WriteFile(filepath.Join(dir, "batch.parquet"), data, 0o600))
	out := runPython(t, dir, pythonBlock(t, "docs/parquet.md")+`
import json
print(json.dumps([limit, samples]))
`)
	var got []json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	type sample struct {
		Prompt     []int32   `json:"prompt_ids"`
		PromptMask []bool    `json:"prompt_mask"`
		IDs        []int32   `json:"completion_ids"`
		Mask       []bool    `json:"completion_mask"`
		LogProbs   []float64 `json:"completion_logprobs"`
		Advantage  float64   `json:"advantage"`
	}
	var samples []sample
	require.NoError(t, json.Unmarshal(got[1], &samples))
	want := sample{
		Prompt: []int32{1, 2, 3}, PromptMask: make([]bool, 3), IDs: []int32{4, 5, 6, 7, 8},
		Mask: []bool{true, true, false, true, true}, LogProbs: []float64{-1, -2, 0, -3, -4}, Advantage: -0.5,
	}
	other, alone := want, want
	other.Advantage, alone.Advantage = 0.5, 0
	require.Equal(t, []sample{want, other, alone}, samples)
}

func TestThePythonTrainerFailsOnABrokenBatchAndDoesNotAcknowledgeIt(t *testing.T) {
	t.Parallel()
	m := newMemory(t)
	m.add(t, batchFile(t, 1, nil), withRows(2))
	m.add(t, batchFile(t, 1, func(rows []dataset.Row) { rows[1].ResponseMask[4] = 0 }), withRows(2))
	m.finish()
	got := trainer(t, serve(t, m.source(), feed.Defaults()).addr, "")
	assert.Equal(t, 1, got.exit)
	assert.Contains(t, got.output, "CheckError: batch 2: row 1:")
	assert.Contains(t, got.output, "the mask does not end with 1")
	assert.Equal(t, int64(1), m.cursors[feed.TrainerCursor].Acknowledged)
}

func TestThePythonTrainerRefusesRowsThatDoNotFitItsLengths(t *testing.T) {
	t.Parallel()
	m := newMemory(t)
	m.add(t, batchFile(t, 1, nil), withRows(2))
	m.finish()
	got := trainer(t, serve(t, m.source(), feed.Defaults()).addr, "", "--response-length", "4")
	assert.Equal(t, 1, got.exit)
	assert.Contains(t, got.output, "LengthError: 2 of 2 rows do not fit: row 0 has a response of 5 ids, response_length is 4")
	assert.Zero(t, m.cursors[feed.TrainerCursor])
}
