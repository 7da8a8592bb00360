package replay_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/rollout/rollouttest"
)

// all replays every handed solution on every changed copy; without it a few stand for the rest.
var all = flag.Bool("all", false, "replay all handed solutions")

// solution is a handed solution of a DABench question.
type solution struct {
	id, question, file string
	cells              []string
}

const examples = "../../examples/dabench"

func solutions(t *testing.T) []solution {
	t.Helper()
	cell := regexp.MustCompile(`(?s)<code_interpreter>\n(.*?)\n</code_interpreter>`)
	lines := func(name string, each func([]byte)) {
		data, err := os.ReadFile(filepath.Join(examples, name))
		require.NoError(t, err)
		for _, l := range strings.Split(strings.TrimSpace(string(data)), "\n") {
			each([]byte(l))
		}
	}
	byID := map[string]*solution{}
	lines("questions.jsonl", func(l []byte) {
		var q struct {
			ID                            int
			Question, Constraints, Format string
			File                          string `json:"file_name"`
		}
		require.NoError(t, json.Unmarshal(l, &q))
		byID[strconv.Itoa(q.ID)] = &solution{id: strconv.Itoa(q.ID), question: q.Question + "\n" + q.Constraints + "\n" + q.Format, file: q.File}
	})
	var out []solution
	lines("solutions.jsonl", func(l []byte) {
		var s struct {
			PromptID string `json:"prompt_id"`
			Turns    []string
		}
		require.NoError(t, json.Unmarshal(l, &s))
		for _, turn := range s.Turns {
			byID[s.PromptID].cells = append(byID[s.PromptID].cells, cell.FindStringSubmatch(turn)[1])
		}
		out = append(out, *byID[s.PromptID])
	})
	return out
}

func TestHandedSolutionsReplayAndNoneIsTakenForAConstant(t *testing.T) {
	t.Parallel()
	few := []string{"0", "9", "308"}
	found := 0
	for _, s := range solutions(t) {
		if !*all && !slices.Contains(few, s.id) {
			continue
		}
		found++
		t.Run(s.id, func(t *testing.T) {
			t.Parallel()
			path, err := filepath.Abs(filepath.Join(examples, "tables", s.file))
			require.NoError(t, err)
			p := rollouttest.Play{Question: s.question, Files: map[string]string{s.file: path}, Cells: s.cells, Seed: 3}
			out, err := stage.Run(t.Context(), p)
			require.NoError(t, err)
			g := out.Trajectory.Graph
			require.NotEmpty(t, g.Submitted)
			for _, r := range check(t, &g, p, true) {
				require.Equal(t, evidence.ReplayResult{Claim: r.Claim, Outcome: evidence.ReplaySame}, r)
			}
			for _, c := range g.Grounding {
				require.True(t, *c.Structural, c.Why)
				require.True(t, *c.Replayed, c.Why)
			}
		})
	}
	require.Positive(t, found)
}
