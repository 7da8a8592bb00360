package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	stored "github.com/verigraph/verigraph/dataset/archive"
	"github.com/verigraph/verigraph/policy/scripted"
	"github.com/verigraph/verigraph/policy/tokenizer"
	"github.com/verigraph/verigraph/rollout"
	"github.com/verigraph/verigraph/sft/sfttest"
	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

// awkward are trajectories with a compressed context, failed cells and printed control text.
func awkward(t *testing.T, tok *tokenizer.Tokenizer) string {
	t.Helper()
	dir := t.TempDir()
	a, err := stored.Open(dir)
	require.NoError(t, err)
	for i := range 3 {
		g := sfttest.Game{
			ID: fmt.Sprintf("p%d", i), System: "You analyse, inside <think>.", User: "What is <|im_end|> here?", Config: rollout.Defaults(), Tokenizer: tok, Binds: []int{1},
		}
		if i == 0 {
			g.Config.Context, g.Config.MaxTurnTokens, g.Config.MaxResponseTokens = rollout.ContextCompress, 64, 600
		}
		for k := range 7 {
			turn := sfttest.Turn{
				Text:        sfttest.Said(fmt.Sprintf("print('turn %d of %d', \"数据\")", k, i)),
				Observation: sfttest.Seen("<|im_start|>assistant\n" + strings.Repeat("row ", 90) + "</tool_response>"),
			}
			if i == 1 && k%3 == 1 {
				turn.Status = trajectory.CellException
			}
			g.Turns = append(g.Turns, turn)
		}
		r, _ := sfttest.Play(t, g)
		require.NoError(t, a.Add(trajectory.ScoredGroup{
			Group:  trajectory.Group{Dispatch: task.Dispatch{ID: g.ID + "-0"}, Trajectories: []trajectory.Trajectory{r.Scored.Trajectory}},
			Scores: []trajectory.Score{r.Scored.Score},
		}))
	}
	require.NoError(t, a.Close())
	return dir
}

// TestRealReadersOfSwiftAndVerlHaveOurIdsAndMask needs SFT_READERS (interpreters) and SFT_QWEN3 (a directory with
// Qwen3's tokenizer); make test-sft-readers sets them.
func TestRealReadersOfSwiftAndVerlHaveOurIdsAndMask(t *testing.T) {
	pythons := os.Getenv("SFT_READERS")
	if pythons == "" {
		t.Skip("SFT_READERS is not set; make test-sft-readers sets it")
	}
	tiny := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(tiny, "tokenizer.json"), scripted.TokenizerJSON(), 0o644))
	write(t, filepath.Join(tiny, "tokenizer_config.json"), `{"tokenizer_class":"PreTrainedTokenizerFast","eos_token":"<|im_end|>","pad_token":"<|endoftext|>"}`)
	for _, model := range []string{tiny, os.Getenv("SFT_QWEN3")} {
		tok, err := tokenizer.Load(model)
		require.NoError(t, err)
		for _, end := range []string{"true", "false"} {
			config := write(t, filepath.Join(t.TempDir(), "c.yaml"), "select: {unlicensed: true}\nnear_duplicates: {threshold: 0}\noutputs: {tokenized: true}\n"+
				"target: {stop: code_tag, rendering: text, train_end_of_turn: "+end+"}\n")
			out := filepath.Join(t.TempDir(), "corpus")
			code, stdout, stderr := sftBuilder(t, "build", "--in", archive(t), "--in", awkward(t, tok), "--config", config, "--tokenizer", model, "--out", out)
			require.Zero(t, code, stdout+stderr)
			args := []string{"verify", out, "--model", model, "--limit", "0"}
			for _, p := range strings.Split(pythons, ":") {
				args = append(args, "--python", p)
			}
			code, stdout, stderr = sftBuilder(t, args...)
			require.Zero(t, code, stdout+stderr)
			t.Logf("%s, end of turn trained: %s\n%s", filepath.Base(model), end, stdout)
			require.Regexp(t, `verl \S+: (\d+) rows, (\d+) of them with exactly our ids and mask`, stdout)
			require.Regexp(t, `ms-swift \S+: (\d+) rows, (\d+) of them with exactly our ids and mask`, stdout)
		}
	}
}
