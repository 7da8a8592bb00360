package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/cmd/internal/cli"
	"github.com/verigraph/verigraph/dataset"
	stored "github.com/verigraph/verigraph/dataset/archive"
	"github.com/verigraph/verigraph/dataset/parquet"
	"github.com/verigraph/verigraph/sft"
	"github.com/verigraph/verigraph/sft/build"
	"github.com/verigraph/verigraph/sft/output"
	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

// built builds the shared run and gives the corpus.
func built(t testing.TB, config string, extra ...string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "corpus")
	code, stdout, stderr := sftBuilder(t, append([]string{"build", "--in", archive(t), "--config", config, "--out", out}, extra...)...)
	require.Zero(t, code, stdout+stderr)
	return out
}

func sums(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		out[rel] = fmt.Sprintf("%x", sha256.Sum256(data))
		return err
	}))
	return out
}

func TestABuildThatIsKilledTwiceAndGoesOnGivesTheSameBytes(t *testing.T) {
	config := accept(t, t.TempDir())
	want := sums(t, built(t, config))
	out := filepath.Join(t.TempDir(), "corpus")
	for _, after := range []string{"2", "6"} { // in the scan, and while parts are written
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), "SFT_TEST_KILL_AFTER="+after, "SFT_TEST_IN="+archive(t), "SFT_TEST_OUT="+out, "SFT_TEST_CONFIG="+config)
		text, err := cmd.CombinedOutput()
		var died *exec.ExitError
		require.ErrorAs(t, err, &died, string(text))
		status := died.Sys().(syscall.WaitStatus)
		require.True(t, status.Signaled() && status.Signal() == syscall.SIGKILL, "%v %s", status, text)
	}
	require.DirExists(t, filepath.Join(out, ".work"))
	code, stdout, stderr := sftBuilder(t, "build", "--in", archive(t), "--config", config, "--out", out)
	require.Zero(t, code, stdout+stderr)
	require.Equal(t, want, sums(t, out))
	require.Contains(t, want, "DATACARD.md")
	require.Contains(t, want, "datacard.html")
}

// Batches hold what the archive holds, but for verdicts, reports and flags of refusals.
func TestBatchesGiveTheSameSamplesAsTheArchive(t *testing.T) {
	in, config := archive(t), accept(t, t.TempDir())
	entries, err := stored.ReadIndex(in)
	require.NoError(t, err)
	groups := map[string]*trajectory.ScoredGroup{}
	var order []string
	for _, e := range entries {
		s, err := stored.Read(in, e.RolloutID)
		require.NoError(t, err)
		id := s.Trajectory.ID.Dispatch
		if groups[id] == nil {
			groups[id] = &trajectory.ScoredGroup{Group: trajectory.Group{Dispatch: task.Dispatch{ID: id, Run: "teacher", GroupSize: 4, Prompt: task.Prompt{ID: s.Trajectory.PromptID, DataSource: "dabench"}}}}
			order = append(order, id)
		}
		g := groups[id]
		g.Group.Trajectories, g.Scores = append(g.Group.Trajectories, s.Trajectory), append(g.Scores, s.Score)
	}
	var rows []dataset.Row
	for _, id := range order {
		made, err := dataset.Rows(*groups[id], len(rows), dataset.RowOptions{})
		require.NoError(t, err)
		rows = append(rows, made...)
	}
	var file bytes.Buffer
	meta := dataset.MetaOf(*groups[order[0]], dataset.Limits{}, dataset.OverlongNone)
	require.NoError(t, parquet.Write(&file, meta, rows))
	batch := write(t, filepath.Join(t.TempDir(), "batch.parquet"), file.String())

	whole, out := built(t, config), filepath.Join(t.TempDir(), "corpus")
	code, stdout, stderr := sftBuilder(t, "build", "--in", batch, "--config", config, "--out", out)
	require.Zero(t, code, stdout+stderr)
	require.Equal(t, swiftRows(t, whole), swiftRows(t, out))
	two := filepath.Join(t.TempDir(), "corpus")
	code, stdout, stderr = sftBuilder(t, "build", "--config", config, "--out", two, "--in", in, batch)
	require.Zero(t, code, stdout+stderr)
	m, err := build.ReadManifest(two)
	require.NoError(t, err)
	require.Equal(t, m.Taken+m.Rejected[sft.NearDuplicate], m.Rejected[sft.Duplicate], "each record that is taken stands in both")
	require.Len(t, m.Inputs, 2)
	require.Equal(t, 2*m.Inputs[0].Records, m.Read)
	require.NotEmpty(t, swiftRows(t, out))
}

func swiftRows(t testing.TB, dir string) map[string]output.SwiftRow {
	t.Helper()
	m, err := build.ReadManifest(dir)
	require.NoError(t, err)
	out := map[string]output.SwiftRow{}
	for _, f := range m.Files {
		if f.Format != "swift" {
			continue
		}
		file, err := os.Open(filepath.Join(dir, f.Path))
		require.NoError(t, err)
		for dec := json.NewDecoder(file); dec.More(); {
			var row output.SwiftRow
			require.NoError(t, dec.Decode(&row))
			out[row.ID] = row
		}
		require.NoError(t, file.Close())
	}
	return out
}

// A real run's samples are exactly the stored messages, and their stored ids are used.
func TestARealRunGivesSamplesOfExactlyItsMessagesAndIds(t *testing.T) {
	dir := t.TempDir()
	_, tok := teacher(t.Context(), t)
	config := write(t, filepath.Join(dir, "c.yaml"), "select: {unlicensed: true, min_accuracy: 1}\nstage1: {enabled: false}\noutputs: {tokenized: true}\n")
	out := built(t, config, "--tokenizer", tok)
	m, err := build.ReadManifest(out)
	require.NoError(t, err)
	require.Zero(t, m.Text.OtherTokenizer)
	require.Equal(t, m.Text.ThinkBlocks, m.Kinds["trajectory"].ThinkBlocks)
	for id, row := range swiftRows(t, out) {
		record, _, _ := strings.Cut(id, "#")
		s, err := stored.Read(archive(t), record)
		require.NoError(t, err)
		for i, msg := range row.Messages {
			require.Equal(t, s.Trajectory.Messages[i].Content, msg.Content, id)
		}
	}
	found := 0
	for row, err := range output.ReadTokenized(filepath.Join(out, "tokenized", "stage2-train-00000.parquet")) {
		require.NoError(t, err)
		require.True(t, row.Stored)
		record, _, _ := strings.Cut(row.ID, "#")
		s, err := stored.Read(archive(t), record)
		require.NoError(t, err)
		seg := s.Trajectory.Segments[0]
		ids := append(append([]int32{}, seg.PromptIDs...), seg.ResponseIDs...)
		require.Equal(t, ids, row.InputIDs[:len(ids)], "and the end of the turn behind them")
		found++
	}
	require.NotZero(t, found)
	code, stdout, stderr := sftBuilder(t, "verify", out)
	require.Zero(t, code, stdout+stderr)
	require.Contains(t, stdout, "all invariants hold")
	code, stdout, _ = sftBuilder(t, "inspect", out, "--tokenizer", tok)
	require.Zero(t, code)
	require.Contains(t, stdout, "⟦<think>")
	require.Contains(t, stdout, "</code_interpreter><|im_end|>⟧\n<|im_start|>user\n<tool_response>")
	code, stdout, _ = sftBuilder(t, "inspect", out, "--kind", "trajectory", "--color", "always")
	require.Zero(t, code)
	require.Contains(t, stdout, "\x1b[30;42m<think>")
	require.NotContains(t, stdout, "\x1b[30;42m<tool_response>")
}

func TestVerifyFailsOnADamagedCorpus(t *testing.T) {
	out := built(t, accept(t, t.TempDir()))
	files, err := filepath.Glob(filepath.Join(out, "swift", "*.jsonl"))
	require.NoError(t, err)
	require.NoError(t, os.Truncate(files[0], 100))
	code, stdout, stderr := sftBuilder(t, "verify", out)
	require.Equal(t, cli.ExitFailed, code)
	require.Contains(t, stdout, "swift/"+filepath.Base(files[0]))
	require.Contains(t, stderr, "problems in")
}
