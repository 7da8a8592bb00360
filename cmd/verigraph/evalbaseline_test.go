package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/dataset/archive"
	"github.com/verigraph/verigraph/eval"
	"github.com/verigraph/verigraph/trajectory"
)

// evalJudge is a judge that finds claims by their sentences, and support by whether the evidence holds the
// claim's last word. It counts its calls.
func evalJudge(t *testing.T) (string, *atomic.Int64) {
	t.Helper()
	calls := new(atomic.Int64)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var req struct {
			Messages []trajectory.Message `json:"messages"`
		}
		if json.NewDecoder(r.Body).Decode(&req) != nil {
			http.Error(w, "no", http.StatusBadRequest)
			return
		}
		calls.Add(1)
		var material struct {
			Answer   string   `json:"answer"`
			Claims   string   `json:"submitted_claims"`
			Evidence []string `json:"evidence"`
			Claim    string   `json:"claim"`
			Problem  string   `json:"problem"`
			Unit     string   `json:"unit"`
		}
		for line := range strings.Lines(req.Messages[len(req.Messages)-1].Content) {
			if strings.HasPrefix(line, "{") && material.Answer+material.Claims+material.Claim+material.Problem == "" {
				_ = json.Unmarshal([]byte(line), &material) // evidence of a report is a text: the claims before it are read
			}
		}
		reply := map[string]any{"reasoning": "r"}
		switch {
		case material.Claim != "":
			words := strings.Fields(strings.TrimRight(material.Claim, "."))
			reply["verdict"] = "not_supported"
			if strings.Contains(strings.Join(material.Evidence, "\n"), words[len(words)-1]) {
				reply["verdict"] = "supported"
			}
		case material.Answer != "":
			delete(reply, "reasoning")
			reply["claims"] = strings.Split(strings.TrimRight(material.Answer, "."), ". ")
		case material.Unit != "":
			reply["verdict"] = "correct"
			if strings.Contains(material.Unit, "wrong") {
				reply["verdict"] = "incorrect"
			}
		case material.Problem != "":
			reply["first_error"] = 0
		default:
			reply["content"], reply["format"] = 5, 3
		}
		text, _ := json.Marshal(reply)
		_ = json.NewEncoder(w).Encode(map[string]any{"choices": []any{map[string]any{
			"index": 0, "finish_reason": "stop", "message": map[string]string{"role": "assistant", "content": string(text)},
		}}})
	}))
	t.Cleanup(server.Close)
	return server.URL + "/v1", calls
}

const (
	askFare   = "<think>look</think>\n<code_interpreter>\nimport pandas as pd\nprint(round(pd.read_csv('test_ave.csv').Fare.mean(), 2))\n</code_interpreter>"
	sayFare   = "<think>34.65. <answer>not this</answer></think>\n<answer>@mean_fare[34.65]. The mean fare is 34.65. The crew was 17</answer>"
	bindsFare = "<code_interpreter>\nx = 34.65\nsubmit_answer([bind('@mean_fare[{x}]', x=x)])\n</code_interpreter>"
)

// baseline evaluates question 0 with turns for it and gives what is kept.
func baseline(t *testing.T, turns []string, judge string, extra ...string) (eval.Record, trajectory.Trajectory, string) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "e")
	script := writeScript(t, scriptLine{"0", turns})
	code, stdout, stderr := verigraph(t, evalArgs(out, script, append([]string{"--limit", "1", "--judge", judge, "--judge-model", "m"}, extra...)...)...)
	require.Zero(t, code, stderr+stdout)
	records, err := eval.ReadRecords(out)
	require.NoError(t, err)
	require.Len(t, records, 1)
	s, err := archive.Read(filepath.Join(out, "dabench"), "dabench/0-0/0")
	require.NoError(t, err)
	return records[0], s.Trajectory, out
}

func TestCodeActAnswersInWordsOnBothWiresAndItsClaimsAreJudgedByItsToolOutputs(t *testing.T) {
	t.Parallel()
	url, _ := evalJudge(t)
	for _, api := range []string{"completions", "chat"} {
		r, tr, _ := baseline(t, []string{askFare, sayFare}, url, "--agent", "codeact", "--policy-api", api)
		require.Equal(t, trajectory.Submitted, r.Termination, api)
		require.Equal(t, "@mean_fare[34.65]. The mean fare is 34.65. The crew was 17", r.Answer)
		require.Equal(t, 1.0, *r.Value)
		require.Equal(t, "codeact", tr.Agent)
		require.Equal(t, api == "chat", r.Estimated)
		require.NotContains(t, tr.Messages[0].Content, "bind(", "the prompt knows no primitives")
		require.Contains(t, tr.Turns[0].Observation, "34.65")
		require.False(t, *tr.Graph.Grounding[0].Structural, "words rest on nothing")
		var supported []bool
		for _, c := range r.Claims {
			require.Nil(t, c.Structural)
			supported = append(supported, *c.Supported)
		}
		require.Equal(t, []bool{false, true, false}, supported, "by the words that the tool printed")
	}
}

func TestABaselineSubmitsByItsAnswerAloneAndNotByThePrimitives(t *testing.T) {
	t.Parallel()
	url, _ := evalJudge(t)
	r, tr, _ := baseline(t, []string{bindsFare, "<think>done</think> I have submitted."}, url, "--agent", "codeact")
	require.Equal(t, trajectory.NoSubmission, r.Termination)
	require.Zero(t, *r.Value)
	require.Empty(t, tr.Graph.Submitted)
}

func TestDirectSeesTheFilesRunsNothingAndHasNoEvidence(t *testing.T) {
	t.Parallel()
	url, _ := evalJudge(t)
	r, tr, _ := baseline(t, []string{sayFare}, url, "--agent", "direct", "--policy-api", "chat")
	require.Equal(t, 1.0, *r.Value)
	require.Contains(t, tr.Messages[1].Content, "PassengerId")
	require.Contains(t, tr.Messages[1].Content, "(cut off here)")
	for _, c := range r.Claims {
		require.False(t, *c.Supported)
		require.Equal(t, "no tool gave any output", c.Why)
	}
	r, tr, _ = baseline(t, []string{askFare}, url, "--agent", "direct")
	require.Equal(t, trajectory.NoSubmission, r.Termination)
	require.Zero(t, tr.Turns[0].Status, "no cell ran")
}

func TestTheGroundingRateNeedsReplayAndAJudgeAndIsScoredAgainFromTheStoredVerdicts(t *testing.T) {
	t.Parallel()
	url, calls := evalJudge(t)
	good := []string{
		"<code_interpreter>\nimport pandas as pd\nm = pd.read_csv('test_ave.csv').Fare.mean()\nprint(m)\nsubmit_answer([bind('@mean_fare[{m:.2f}] The mean is {m:.2f}', m=m)])\n</code_interpreter>",
	}
	r, _, out := baseline(t, good, url, "--replay")
	require.Equal(t, 1.0, *r.Value)
	require.True(t, *r.Claims[0].Structural)
	require.True(t, *r.Claims[0].Replayed)
	require.NotNil(t, r.Claims[0].Supported)
	require.Contains(t, readFile(t, out, "report.md"), "| Grounding Rate (micro) |")
	before, asked := readFile(t, out, "report.json"), calls.Load()
	code, _, stderr := verigraph(t, "eval", "score", out, "--judge", url, "--judge-model", "m")
	require.Zero(t, code, stderr)
	require.Equal(t, before, readFile(t, out, "report.json"))
	require.Equal(t, asked, calls.Load(), "every verdict is remembered")

	code, _, stderr = verigraph(t, "eval", "score", out)
	require.Zero(t, code, stderr)
	require.Contains(t, readFile(t, out, "report.md"), "Grounding Rate not run")
}

func TestTwoEvaluationsAreComparedOnTheItemsThatTheyShare(t *testing.T) {
	t.Parallel()
	url, _ := evalJudge(t)
	_, _, a := baseline(t, []string{askFare, sayFare}, url, "--agent", "codeact", "--name", "words")
	_, _, b := baseline(t, []string{askFare, "<answer>@mean_fare[1]</answer>"}, url, "--agent", "codeact")
	code, stdout, stderr := verigraph(t, "eval", "compare", a, b)
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "A is words")
	require.Contains(t, stdout, "| DABench | 1 | 100.00 | 0.00 | 100.00 [100.00, 100.00] | 1 / 0 | 1.0000 (mcnemar) |")
	code, stdout, _ = verigraph(t, "eval", "compare", a, b, "--output", "json")
	require.Zero(t, code)
	require.Contains(t, stdout, `"better_a":1`)
	code, _, stderr = verigraph(t, "eval", "compare", a, t.TempDir())
	require.Equal(t, 2, code)
	require.Contains(t, stderr, "evaluation.json")
}

func TestSolutionsAreVerifiedInThreeSettingsWithThePapersFigures(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	triangles := filepath.Join(t.TempDir(), "t.csv")
	code, _, stderr := verigraph(t, "verify", "--format", "nts", "--generate", "3", "--sizes", "2,4", triangles)
	require.Zero(t, code, stderr)
	code, stdout, stderr := verigraph(t, "eval", "nts", triangles, "--out", out)
	require.Zero(t, code, stderr)
	for _, row := range []string{"| N=4 | holistic | 3 | 3 | 100.0 | 100.0 |", "| N=4 | atomic | 3 | 3 | 100.0 | 100.0 |", "| N=4 | block | 3 | 3 | 100.0 | 100.0 |"} {
		require.Contains(t, stdout, row)
	}
	for _, name := range []string{"report.md", "report.json", "report.html", "predictions_holistic.jsonl", "predictions_block.jsonl"} {
		require.FileExists(t, filepath.Join(out, name))
	}

	url, _ := evalJudge(t)
	solutions := filepath.Join(t.TempDir(), "p.jsonl")
	require.NoError(t, os.WriteFile(solutions, []byte(`{"id":"gsm8k-0","problem":"p","steps":["ok","a wrong step","x"],"label":1}
{"id":"gsm8k-1","problem":"p","steps":["ok","fine"],"label":-1}
{"id":"gsm8k-2","problem":"p","steps":["wrong from here","wrong again"],"label":1}
{"id":"math-0","problem":"p","steps":["fine"],"label":-1}
`), 0o600))
	code, stdout, stderr = verigraph(t, "eval", "processbench", solutions, "--judge", url, "--judge-model", "m")
	require.Zero(t, code, stderr)
	// Located 1 of 2, cleared 1 of 1: 2*0.5*1/1.5.
	require.Contains(t, stdout, "| gsm8k | block | 2 | 1 | 50.0 | 100.0 | 66.7 [")
	require.Contains(t, stdout, "| gsm8k | holistic | 2 | 1 | 0.0 | 100.0 | 0.0 [", "first_error 0 is none")
	code, _, stderr = verigraph(t, "eval", "processbench", solutions, "--settings", "deep", "--judge", url)
	require.Equal(t, 2, code)
	require.Contains(t, stderr, `--settings: "deep"`)
}
