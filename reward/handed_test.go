package reward_test

import (
	"bufio"
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/reward/rules"
	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

// The 14 handed cheats as the worker ran them. A wrong answer that is bound to the data gets 0.1 under
// the default preset: that is what no cheat may reach.
func TestHandedPoliciesThatCheatStayBelowAWrongHonestAnswer(t *testing.T) {
	t.Parallel()
	f, err := os.Open("testdata/handed_policies.jsonl")
	require.NoError(t, err)
	defer f.Close()
	presets := []string{"default", "paper", "reference"}
	rewards := map[string]map[string]float64{}
	var order []string
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var row struct {
			Policy     string                `json:"policy"`
			Trajectory trajectory.Trajectory `json:"trajectory"`
			Reference  task.Reference        `json:"reference"`
		}
		require.NoError(t, json.Unmarshal(lines.Bytes(), &row))
		rewards[row.Policy] = map[string]float64{}
		order = append(order, row.Policy)
		for _, preset := range presets {
			s := scorer(t, preset, rules.Judge{}).Score(t.Context(), row.Trajectory, task.Prompt{ID: row.Policy, Question: "q"}, row.Reference)
			require.Equal(t, trajectory.ScoreOK, s.Status, s.Reason)
			rewards[row.Policy][preset] = s.Reward
		}
	}
	require.Len(t, order, 14)
	honest := newRollout(ok).data("df@1", 0).atomic("c1", 0, "df@1", "@mean[31.00]").submit(0, "c1")
	wrong := map[string]float64{}
	for _, preset := range presets {
		wrong[preset] = scorer(t, preset, rules.Judge{}).Score(t.Context(), honest.Trajectory, prompt, reference).Reward
	}
	slices.SortFunc(order, func(a, b string) int {
		if rewards[a]["default"] < rewards[b]["default"] {
			return -1
		}
		return 1
	})
	above := map[string][]string{}
	for _, name := range append(order, "wrong honest answer") {
		if name == "wrong honest answer" {
			rewards[name] = wrong
		}
		t.Logf("%-24s default %+.3f  paper %+.3f  reference %+.3f", name, rewards[name]["default"], rewards[name]["paper"], rewards[name]["reference"])
		for _, preset := range presets {
			if rewards[name][preset] > wrong[preset]-1e-9 {
				above[preset] = append(above[preset], name)
			}
		}
	}
	// Five answer over the data: two wrongly, two rightly after a refused attempt, one rightly at once.
	require.ElementsMatch(t, []string{
		"contradicting_claims", "double_submit", "inline_expression", "rewrites_data_file", "undefined_variable", "wrong honest answer",
	}, above["default"])
	require.Contains(t, above["paper"], "never_submits", "the printed formula pays for not submitting")
	require.Contains(t, above["reference"], "constant_variable", "and the reference's for constants")
}
