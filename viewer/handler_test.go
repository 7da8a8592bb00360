package viewer

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/policy/scripted"
	"github.com/verigraph/verigraph/viewer/viewertest"
)

func decode[T any](t *testing.T, h http.Handler, path string) T {
	t.Helper()
	w := get(h, path)
	require.Equal(t, http.StatusOK, w.Code, "%s: %s", path, w.Body)
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	var v T
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &v))
	return v
}

func TestHostileTextLeavesAsDataOnly(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, viewertest.Hostile(dir))
	h := Handler(Guard{}, open(t, dir))
	id := url.QueryEscape("hostile/h-0/0")
	for _, path := range []string{
		"/api/run", "/api/rollouts", "/api/groups", "/api/group?id=h-0", "/api/rollout?id=" + id, "/api/report?id=" + id,
		"/api/text?part=code&turn=0&id=" + id, "/api/text?part=" + url.QueryEscape(viewertest.HostileText) + "&id=" + id,
		"/api/rollout?id=" + url.QueryEscape(viewertest.HostileText), "/api/rollouts?sort=" + url.QueryEscape(viewertest.HostileText),
	} {
		w := get(h, path)
		require.Equal(t, "application/json", w.Header().Get("Content-Type"), path)
		require.False(t, strings.ContainsAny(w.Body.String(), "<>\x1b\x07\x00"), path)
		require.True(t, json.Valid(w.Body.Bytes()), path)
	}
	v := decode[RolloutView](t, h, "/api/rollout?id="+id)
	require.Equal(t, viewertest.HostileText, v.Turns[0].Code.Text, "and nothing of it is lost")
	for _, format := range []string{"mermaid", "dot", "json"} {
		w := get(h, "/api/graph?format="+format+"&id="+id)
		require.Equal(t, "text/plain; charset=utf-8", w.Header().Get("Content-Type"))
		require.Equal(t, `attachment; filename="hostile-h-0-0.`+map[string]string{"mermaid": "mmd", "dot": "dot", "json": "json"}[format]+`"`, w.Header().Get("Content-Disposition"))
	}
}

func TestARolloutIsShownWithItsTurnsPartsAndEvidence(t *testing.T) {
	t.Parallel()
	h := Handler(Guard{}, open(t, realRun))
	v := decode[RolloutView](t, h, "/api/rollout?id=local/14-0/1")
	require.Equal(t, "submitted", v.Termination)
	require.Empty(t, v.Broken)
	sum := 0.0
	for _, turn := range v.Turns {
		require.NotNil(t, turn.Code)
		require.NotContains(t, turn.Reasoning.Text, "<think>")
		require.NotContains(t, turn.Reasoning.Text, turn.Code.Text)
		require.NotContains(t, turn.Observation.Text, "tool_response")
		require.Equal(t, &[2]int64{0, 0}, turn.Versions)
		for _, p := range turn.Parts {
			sum += p.Weight * p.Value
		}
	}
	require.InDelta(t, v.Score.Total, sum, 1e-9, "the parts on the turns are the whole reward")
	require.Subset(t, v.Graph.Live, v.Graph.Submitted)
	require.Len(t, v.Graph.Order, len(v.Graph.Nodes))
	require.NotEmpty(t, v.Score.Verdicts)

	whole := decode[map[string]string](t, h, "/api/text?id=local/14-0/1&part=raw&turn=0")
	require.Contains(t, whole["text"], "<code_interpreter>")
}

func TestALongTextIsCutAtACharacterAndComesWholeWhenAskedFor(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, viewertest.Huge(dir, 300))
	h := Handler(Guard{}, open(t, dir))
	w := get(h, "/api/rollout?id=huge/huge-0/0")
	require.Less(t, w.Body.Len(), 400<<10, "three turns of 512 kB each do not come at once")
	v := decode[RolloutView](t, h, "/api/rollout?id=huge/huge-0/0")
	require.Len(t, v.Graph.Nodes, 300)
	require.Len(t, v.Turns[0].Observation.Text, maxText)
	require.Equal(t, 512<<10, v.Turns[0].Observation.Size)
	whole := decode[map[string]string](t, h, "/api/text?id=huge/huge-0/0&part=observation&turn=0")
	require.Len(t, whole["text"], 512<<10)

	for limit := range 5 {
		require.Equal(t, []string{"", "", "é", "éa", "éa!"}[limit], clip("éa!!", limit).Text)
	}
}

func TestTokensStandBesideMaskLogProbsAndSpans(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, viewertest.Grow(realRun, dir, 8))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tokenizer.json"), scripted.TokenizerJSON(), 0o644))
	r := open(t, dir)
	h := Handler(Guard{}, r)
	scored, err := r.rollout("local/6-0/1")
	require.NoError(t, err)
	seg := &scored.Trajectory.Segments[0]
	p := decode[TokenPage](t, h, "/api/tokens?id=local/6-0/1&limit=5000")
	require.Equal(t, append(append([]int32{}, seg.PromptIDs...), seg.ResponseIDs...), p.IDs)
	require.Equal(t, seg.ResponseMask, p.Mask[p.Prompt:])
	require.Equal(t, seg.LogProbs, p.LogProbs[p.Prompt:])
	require.Empty(t, p.Warning)
	first := seg.Spans[0]
	require.Equal(t, scored.Trajectory.Turns[0].Text, strings.Join(p.Texts[p.Prompt+first.Start:p.Prompt+first.End], "")[:len(scored.Trajectory.Turns[0].Text)])

	part := decode[TokenPage](t, h, "/api/tokens?id=local/6-0/1&offset=620&limit=20")
	require.Equal(t, p.IDs[620:640], part.IDs)
	require.Equal(t, http.StatusBadRequest, get(h, "/api/tokens?id=local/6-0/1&segment=1").Code)
	require.Equal(t, http.StatusBadRequest, get(h, "/api/tokens?id=local/6-0/1&offset=99999").Code)

	scored.Trajectory.Turns[0].Text = "something else"
	bad := decode[TokenPage](t, h, "/api/tokens?id=local/6-0/1")
	require.Contains(t, bad.Warning, "not the one of this run")
	require.Equal(t, `\xC3é\xFF`, tokenText([]byte("\xc3é\xff")))
}

func TestASentenceOfAReportLeadsToItsClaims(t *testing.T) {
	t.Parallel()
	got := readReport("# Findings in 2.5 % of cases\n\n- One is 3.14. Two follows from it [c1][c2]. Three [c3].\n\nLow &lt;b&gt; text without an end [c2]\n")
	require.Equal(t, []Paragraph{
		{"heading", []Sentence{{Text: "Findings in 2.5 % of cases"}}},
		{"item", []Sentence{{"One is 3.14.", []string{"c1", "c2"}}, {"Two follows from it.", []string{"c1", "c2"}}, {"Three.", []string{"c3"}}}},
		{"text", []Sentence{{"Low <b> text without an end", []string{"c2"}}}},
	}, got)

	h := Handler(Guard{}, open(t, realRun))
	v := decode[ReportView](t, h, "/api/report?id=local/14-0/1")
	require.False(t, v.Stored)
	require.Len(t, v.Paragraphs, 5, "a heading and four claims")
	require.Equal(t, http.StatusNotFound, get(h, "/api/report?id=local/14-0/3").Code)
}

func TestAStoredReportIsShownInPlaceOfTheList(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, viewertest.Grow(realRun, dir, 8))
	h := Handler(Guard{}, open(t, dir))
	record := filepath.Join(dir, "reports", "14-0", "1.json")
	require.NoError(t, os.MkdirAll(filepath.Dir(record), 0o755))
	require.NoError(t, os.WriteFile(record, []byte(`{"report": "The mean is larger [c4].\n", "composed": true, "model": "m"}`), 0o644))
	got := decode[ReportView](t, h, "/api/report?id=local/14-0/1")
	require.Equal(t, ReportView{
		Stored: true, Composed: true, Model: "m", Paragraphs: []Paragraph{{"text", []Sentence{{"The mean is larger.", []string{"c4"}}}}},
	}, got)
	require.NoError(t, os.WriteFile(record, []byte(`{"report": "The`), 0o644))
	require.Equal(t, http.StatusInternalServerError, get(h, "/api/report?id=local/14-0/1").Code)
}

func TestAWrongRequestIsAnErrorThatNamesIt(t *testing.T) {
	t.Parallel()
	h := Handler(Guard{}, open(t, realRun))
	for path, want := range map[string]struct {
		code int
		says string
	}{
		"/api/rollout?id=nobody":                      {404, "nobody"},
		"/api/group?id=nobody":                        {404, "nobody"},
		"/api/run?of=1":                               {400, "run 1 of 1"},
		"/api/run?of=x":                               {400, "of"},
		"/api/compare":                                {400, "--compare"},
		"/api/groups?by=best":                         {400, "best"},
		"/api/rollouts?limit=0":                       {400, "limit"},
		"/api/graph?id=local/14-0/1&format=png":       {400, "png"},
		"/api/text?id=local/14-0/1&part=code&turn=99": {400, "turn"},
		"/api/text?id=local/14-0/1&part=secrets":      {400, "secrets"},
		"/api/tokens?id=local/14-0/1&limit=x":         {400, "limit"},
	} {
		w := get(h, path)
		require.Equal(t, want.code, w.Code, path)
		require.Contains(t, w.Body.String(), want.says, path)
	}
	require.Equal(t, http.StatusNotFound, get(h, "/run.json").Code, "no file of the directory is served")
	require.Equal(t, http.StatusNotFound, get(h, "/reward/items.jsonl").Code)
}
