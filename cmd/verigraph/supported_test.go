package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/dataset/archive"
	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/reward/judges"
	"github.com/verigraph/verigraph/trajectory"
)

// supportedRun submits the mean fare, and beside it each of the conclusions in a rollout of its own; the judge and the
// configuration are the caller's. It gives the share of supported claims by prompt, the summary and what was printed.
func supportedRun(t *testing.T, conclusions map[string]string, judge string, config string) (map[string]*float64, summary, string) {
	t.Helper()
	dir := t.TempDir()
	head := "import csv, statistics\nfares = [float(r['Fare']) for r in csv.DictReader(open('test_ave.csv')) if r['Fare']]\n" +
		"a = bind('The mean fare is {m:.2f}. @mean_fare[{m:.2f}]', m=statistics.mean(fares))\n"
	var lines []any
	var prompts bytes.Buffer
	for id, conclusion := range conclusions {
		last := "submit_answer(a)"
		if conclusion != "" {
			last = "submit_answer([a, infer([a], '" + conclusion + "', 'The mean fare of the premise says so.')])"
		}
		lines = append(lines, scriptLine{id, []string{cellTurn(head + last)}})
		prompts.WriteString(`{"id":"` + id + `","question":"Is the mean fare above 30? @mean_fare[value]","files":["test_ave.csv"],"answer":[["mean_fare","34.65"]],"data_source":"dabench","meta":{}}` + "\n")
	}
	file, conf, out := filepath.Join(dir, "prompts.jsonl"), filepath.Join(dir, "config.yaml"), filepath.Join(dir, "out")
	require.NoError(t, os.WriteFile(file, prompts.Bytes(), 0o600))
	require.NoError(t, os.WriteFile(conf, []byte(config), 0o600))
	code, stdout, stderr := verigraph(t, "run", "--prompts", file, "--data-dir", tables, "--policy", "script:"+writeScript(t, lines...),
		"--judge", judge, "--group-size", "2", "--config", conf, "--python", root+".venv/sandbox/bin/python", "--out", out)
	require.Zero(t, code, stderr+stdout)
	got := map[string]*float64{}
	for _, e := range readIndex(t, out) {
		got[e.PromptID] = e.Grounding.Supported
		s, err := archive.Read(out, e.RolloutID)
		require.NoError(t, err)
		open := slices.ContainsFunc(s.Trajectory.Graph.Grounding, func(g evidence.ClaimGrounding) bool { return g.Supported == nil })
		require.Equal(t, e.Grounding.Supported == nil, open, "the graph and the index agree")
	}
	var s summary
	data, err := os.ReadFile(filepath.Join(out, "summary.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &s))
	return got, s, stdout
}

func TestRuleVerdictsSayWhichClaimsAreSupportedAndAnAbstentionLeavesItOpen(t *testing.T) {
	t.Parallel()
	got, s, stdout := supportedRun(t, map[string]string{
		"atomic": "", "entailed": "The mean fare is above 30.", "refuted": "The mean fare is below 30.", "abstained": "The passengers were poor.",
	}, "rules", "")
	require.Equal(t, 1.0, *got["atomic"])
	require.Equal(t, 1.0, *got["entailed"])
	require.Equal(t, 0.5, *got["refuted"], "the mean fare itself is")
	require.Nil(t, got["abstained"])
	require.Nil(t, s.Grounding.Rate, "no replay ran")
	require.NotContains(t, stdout, "grounding rate")
}

func TestAScriptedModelsVerdictsSayWhichClaimsAreSupportedAndMakeTheGroundingRate(t *testing.T) {
	t.Parallel()
	url := sceptic(t)
	got, s, stdout := supportedRun(t, map[string]string{
		"atomic": "", "entailed": "The passengers were rich.", "refuted": "The passengers were poor.",
	}, url, "rollout: {replay: submitted}\nreward:\n  openai: {model: m}\n")
	require.Equal(t, 1.0, *got["atomic"])
	require.Equal(t, 1.0, *got["entailed"])
	require.Equal(t, 0.5, *got["refuted"], "the mean fare itself is")
	require.InDelta(t, 4.0/5, *s.Grounding.Rate, 1e-9)
	require.InDelta(t, 2.5/3, *s.Grounding.RateMacro, 1e-9)
	require.Contains(t, stdout, "grounding rate 80.0 % of submitted claims, 83.3 % as mean over rollouts, at a submission rate of 100.0 %")
	require.Equal(t, map[string]int{string(trajectory.Entailed): 2, string(trajectory.NotEntailed): 2}, s.Verdicts)
}

// sceptic is a judge endpoint that knows its canaries, finds that nobody was poor, and everything else entailed.
func sceptic(t *testing.T) string {
	t.Helper()
	canaries, err := judges.Canaries()
	require.NoError(t, err)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		verdict := trajectory.Entailed
		if bytes.Contains(body, []byte("were poor")) {
			verdict = trajectory.NotEntailed
		}
		for _, c := range canaries {
			if bytes.Contains(body, []byte(c.Conclusion)) {
				verdict = c.Want
			}
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{
			"choices": []any{map[string]any{"index": 0, "finish_reason": "stop", "message": map[string]any{"role": "assistant", "content": `{"reasoning": "r", "verdict": "` + string(verdict) + `"}`}}},
		})
	}))
	t.Cleanup(srv.Close)
	return srv.URL + "/v1"
}
