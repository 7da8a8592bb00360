package audit_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/internal/patience"
	"github.com/verigraph/verigraph/reward"
	"github.com/verigraph/verigraph/reward/audit"
	"github.com/verigraph/verigraph/reward/items"
	"github.com/verigraph/verigraph/reward/rules"
	"github.com/verigraph/verigraph/task"
)

func TestMain(m *testing.M) { patience.Main(m) }

func scorer(t *testing.T) *reward.Scorer {
	t.Helper()
	s, err := reward.New(reward.Config{Preset: reward.Defaults(), Judge: rules.Judge{}})
	require.NoError(t, err)
	return s
}

func run(t *testing.T, files audit.Files, all ...items.Item) []audit.Finding {
	t.Helper()
	out, err := audit.Run(t.Context(), all, scorer(t), files)
	require.NoError(t, err)
	return out
}

func item(question, source string, answers ...string) items.Item {
	it := items.Item{Prompt: task.Prompt{ID: "p", Question: question, Files: []task.File{{Name: "t.csv", SHA256: "x"}}}, Reference: task.Reference{PromptID: "p", DataSource: source}}
	for i := 0; i+1 < len(answers); i += 2 {
		it.Reference.Answers = append(it.Reference.Answers, task.NamedAnswer{Name: answers[i], Value: answers[i+1]})
	}
	return it
}

func kinds(f []audit.Finding) []audit.Kind {
	var out []audit.Kind
	for _, x := range f {
		out = append(out, x.Kind)
	}
	return out
}

func TestEveryReferenceMustGetFullMarksFromItsOwnScorer(t *testing.T) {
	t.Parallel()
	require.Empty(t, run(t, nil, item("q", "dabench", "mean", "34.65", "name", "Congo")))
	guesses := run(t, nil, item("q", "dabench", "a", "1", "a", "2"))
	require.Equal(t, []audit.Kind{audit.NotFull}, kinds(guesses))
	require.Contains(t, guesses[0].Reason, "training rule (dabench)")
	brackets := run(t, nil, item("q", "dabench", "x", "[1, 2]"))
	require.Len(t, brackets, 2, "nested brackets are cut by both rules: no policy could state this value")
	none := run(t, nil, item("q", "dabench"))
	require.Equal(t, []audit.Kind{audit.Unscorable}, kinds(none))
	require.Contains(t, none[0].Reason, "no reference answer")
	chart := item("q", "tablebench", "answer", "y_references = [[1, 2], [3]]")
	chart.Reference.Meta = []byte(`{"qtype": "Visualization", "qsubtype": "ChartGeneration", "chart_type": "bar"}`)
	require.Empty(t, run(t, nil, chart), "lists of lists are stated in words, since a tag would end early")
	chart.Reference.Answers[0].Value = "y_references = [['$9,589', '$11,402']]"
	require.Len(t, run(t, nil, chart), 2, "no drawn value equals a text")
	noType := run(t, nil, item("q", "tablebench", "answer", "10.6"))
	require.Contains(t, noType[0].Reason, "meta.qtype")
}

// The handed labels of DABench: the one that the training rule can't pay is named, with its reason.
func TestAuditOfAllDABenchLabelsFindsTheBrokenOnes(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../outcome/testdata/dabench-labels.jsonl")
	require.NoError(t, err)
	var all []items.Item
	for line := range strings.Lines(string(data)) {
		var l struct {
			ID      json.Number `json:"id"`
			Answers [][2]string `json:"common_answers"`
		}
		require.NoError(t, json.Unmarshal([]byte(line), &l))
		it := item("q", "dabench")
		it.Prompt.ID, it.Reference.PromptID = l.ID.String(), l.ID.String()
		for _, a := range l.Answers {
			it.Reference.Answers = append(it.Reference.Answers, task.NamedAnswer{Name: a[0], Value: a[1]})
		}
		all = append(all, it)
	}
	require.Len(t, all, 257)
	ids := map[string]bool{}
	for _, f := range run(t, nil, all...) {
		require.Equal(t, audit.NotFull, f.Kind)
		require.Contains(t, f.Reason, "several different values")
		ids[f.PromptID] = true
	}
	require.Equal(t, map[string]bool{"734": true}, ids)
}

func TestGoldInPromptsAndFilesIsReported(t *testing.T) {
	t.Parallel()
	files := func(_ context.Context, f task.File) (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader("a,b\n1,34.652\n2,x134.65\n3,34.65\n4,34.65\n")), nil
	}
	found := run(t, files, item("Is it 34.65 or not?", "dabench", "mean", "34.65", "short", "1"))
	require.Equal(t, []audit.Kind{audit.InPrompt, audit.InFile}, kinds(found))
	require.Equal(t, "t.csv", found[1].Where)
	require.Contains(t, found[1].Reason, "2 lines")
	require.Empty(t, run(t, files, item("Round 34.652", "dabench", "mean", "34.6")), "parts of other numbers are no find")
	broken := func(context.Context, task.File) (io.ReadCloser, error) { return nil, errors.New("gone") }
	require.Equal(t, []audit.Kind{audit.Unread}, kinds(run(t, broken, item("q", "dabench", "mean", "34.65"))))
}
