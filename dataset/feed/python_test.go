package feed_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/dataset"
	"github.com/verigraph/verigraph/dataset/feed"
	"github.com/verigraph/verigraph/dataset/parquet"
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
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, python, append([]string{"-m", "verigraph.trainer", "--json", report}, args...)...)
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
