package dataset_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/dataset"
	"github.com/verigraph/verigraph/task"
)

const dabenchLine = `{"id": 0, "question": "Mean fare?", "concepts": ["Summary"], "constraints": "Round to two.", ` +
	`"format": "@mean_fare[x] where x is a number.", "file_name": "a.csv", "level": "easy"}`

func TestADABenchQuestionIsLaidOutWithItsConstraintsFormatAndFile(t *testing.T) {
	t.Parallel()
	in := newInput(t, dataset.FormatDABench, dabenchLine, "a.csv")
	in.labels(t, `{"id": 0, "common_answers": [["mean_fare", "34.65"]]}`)
	prompts, references, _, err := dataset.Import(t.Context(), in.config)
	require.NoError(t, err)
	require.Len(t, prompts, 1)
	p := prompts[0]
	assert.Equal(t, "0", p.ID)
	assert.Equal(t, "Mean fare?\n\nConstraints:\nRound to two.\n\n"+
		"Answer format:\n@mean_fare[x] where x is a number.\n\nData file: a.csv", p.Question)
	assert.Equal(t, "dabench", p.DataSource)
	assert.JSONEq(t, `{"level": "easy", "concepts": ["Summary"]}`, string(p.Meta))
	assert.Equal(t, []task.File{{Name: "a.csv", SHA256: digest("content of a.csv"), Size: 16}}, p.Files)
	require.Len(t, references, 1)
	assert.Equal(t, []task.NamedAnswer{{Name: "mean_fare", Value: "34.65"}}, references[0].Answers)
	assert.Equal(t, "dabench", references[0].DataSource)
}

func TestDABenchWithoutLabelsHasNoReferences(t *testing.T) {
	t.Parallel()
	_, references, _, err := dataset.Import(t.Context(), newInput(t, dataset.FormatDABench, dabenchLine, "a.csv").config)
	require.NoError(t, err)
	assert.Empty(t, references)
}

func TestQuestionsAndLabelsThatDoNotMatchAreListedInBothDirections(t *testing.T) {
	t.Parallel()
	other := func(id string) string { return strings.Replace(dabenchLine, `"id": 0`, `"id": `+id, 1) }
	in := newInput(t, dataset.FormatDABench, strings.Join([]string{
		dabenchLine, other("1"), other("2"), strings.Replace(other("3"), `"question"`, `"ask"`, 1),
		strings.Replace(other("4"), `"a.csv"`, `"gone.csv"`, 1), strings.Replace(other("5"), `"Mean fare?"`, `""`, 1),
	}, "\n"), "a.csv")
	in.labels(t, strings.Join([]string{
		`{"id": 0, "common_answers": [["m", "1"]]}`,
		`{"id": 9, "common_answers": [["m", "1"]]}`,
		`{"id": 0, "common_answers": [["m", "2"]]}`,
		`{"id": 1, "common_answers": "m"}`,
		`{"id": 4, "common_answers": [["m", "1"]]}`,
		`{"id": 5, "common_answers": [["m", "1"]]}`,
		`{"id": 2}`,
		`{"common_answers": []}`,
	}, "\n"))
	assert.Equal(t, []string{
		`prompts.jsonl:4: ask: unknown key; known are [id question concepts constraints format file_name level]`,
		`prompts.jsonl:5: file_name: "gone.csv": no such file in the data directory data`,
		`prompts.jsonl:6: question: empty`,
		`labels.jsonl:2: id: label "9" has no question in prompts.jsonl`,
		`labels.jsonl:3: id: "0" stands on line 1 already`,
		`labels.jsonl:4: common_answers: want a list of [name, value] pairs`,
		`labels.jsonl:7: common_answers: missing`,
		`labels.jsonl:8: id: missing`,
	}, in.problemsOf(t))

	lonely := newInput(t, dataset.FormatDABench, dabenchLine+"\n"+other("1"), "a.csv")
	lonely.labels(t, `{"id": 0, "common_answers": [["m", "1"]]}`)
	assert.Equal(t, []string{`prompts.jsonl:2: id: question "1" has no label in labels.jsonl`}, lonely.problemsOf(t))
}

func TestALabelBeyondTheLimitIsNoProblem(t *testing.T) {
	t.Parallel()
	in := newInput(t, dataset.FormatDABench, dabenchLine+"\n"+strings.Replace(dabenchLine, `"id": 0`, `"id": 1`, 1), "a.csv")
	in.labels(t, `{"id": 0, "common_answers": [["m", "1"]]}`+"\n"+`{"id": 1, "common_answers": [["m", "1"]]}`)
	in.config.Limit = 1
	prompts, references, _, err := dataset.Import(t.Context(), in.config)
	require.NoError(t, err)
	assert.Len(t, prompts, 1)
	assert.Len(t, references, 1)
}

func TestTheShippedDABenchExamplesImport(t *testing.T) {
	t.Parallel()
	dir := filepath.Join("..", "examples", "dabench")
	prompts, references, paths, err := dataset.Import(t.Context(), dataset.ImportConfig{
		Prompts: filepath.Join(dir, "questions.jsonl"), Labels: filepath.Join(dir, "labels.jsonl"),
		DataDir: filepath.Join(dir, "tables"), Format: dataset.FormatDABench,
	})
	require.NoError(t, err)
	assert.GreaterOrEqual(t, len(prompts), 12)
	assert.Len(t, references, len(prompts))
	for _, p := range prompts {
		require.Len(t, p.Files, 1)
		assert.FileExists(t, paths[p.Files[0].SHA256])
	}
}
