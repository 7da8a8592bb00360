package dataset_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/dataset"
	"github.com/verigraph/verigraph/task"
)

// input is a directory with a prompts file, data files and perhaps labels.
type input struct {
	dir    string
	config dataset.ImportConfig
}

func newInput(t *testing.T, format dataset.Format, prompts string, data ...string) input {
	t.Helper()
	in := input{dir: t.TempDir()}
	in.config = dataset.ImportConfig{
		Prompts: filepath.Join(in.dir, "prompts.jsonl"), Format: format, DataDir: filepath.Join(in.dir, "data"),
	}
	in.write(t, "prompts.jsonl", prompts)
	for _, name := range append(data, "unused.csv") {
		in.write(t, filepath.Join("data", name), "content of "+name)
	}
	return in
}

func (in input) write(t *testing.T, name, content string) {
	t.Helper()
	path := filepath.Join(in.dir, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
}

func (in *input) labels(t *testing.T, content string) {
	t.Helper()
	in.write(t, "labels.jsonl", content)
	in.config.Labels = filepath.Join(in.dir, "labels.jsonl")
}

// problemsOf imports and returns the lines of the error without the directory.
func (in input) problemsOf(t *testing.T) []string {
	t.Helper()
	_, _, _, err := dataset.Import(t.Context(), in.config)
	require.Error(t, err)
	return strings.Split(strings.ReplaceAll(err.Error(), in.dir+string(filepath.Separator), ""), "\n")
}

func digest(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:])
}

func TestAJSONLLineBecomesAPromptAndItsReferenceApart(t *testing.T) {
	t.Parallel()
	in := newInput(t, dataset.FormatJSONL, "\ufeff"+`{"id": 7, "question": "Mean? @m[value]", "files": ["a.csv", "sub/b.csv"], `+
		`"answer": [["m", "34.650"]], "data_source": "mine", "meta": {"k": [1, 2]}}`+"\r\n\n"+
		`{"id": "x", "question": "No answer?"}`, "a.csv", "sub/b.csv")
	prompts, references, paths, err := dataset.Import(t.Context(), in.config)
	require.NoError(t, err)
	a, b := digest("content of a.csv"), digest("content of sub/b.csv")
	assert.Equal(t, []task.Prompt{
		{
			ID: "7", Question: "Mean? @m[value]", DataSource: "mine", Meta: json.RawMessage(`{"k": [1, 2]}`),
			Files: []task.File{{Name: "a.csv", SHA256: a, Size: 16}, {Name: "b.csv", SHA256: b, Size: 20}},
		},
		{ID: "x", Question: "No answer?", DataSource: dataset.DefaultDataSource},
	}, prompts)
	assert.Equal(t, []task.Reference{{
		PromptID: "7", DataSource: "mine", Answers: []task.NamedAnswer{{Name: "m", Value: "34.650"}},
		Meta: json.RawMessage(`{"k": [1, 2]}`),
	}}, references)
	assert.Equal(t, map[string]string{
		a: filepath.Join(in.dir, "data", "a.csv"), b: filepath.Join(in.dir, "data", "sub", "b.csv"),
	}, paths)
}

func TestEveryFormOfAnAnswerIsRead(t *testing.T) {
	t.Parallel()
	named := func(pairs ...string) (list []task.NamedAnswer) {
		for i := 0; i < len(pairs); i += 2 {
			list = append(list, task.NamedAnswer{Name: pairs[i], Value: pairs[i+1]})
		}
		return list
	}
	for _, c := range []struct {
		name, answer, meta string
		want               []task.NamedAnswer
		text, sentence     string
	}{
		{"pairs keep leading and trailing zeros", `[["zip", "02116"], ["m", 1.50]]`, "", named("zip", "02116", "m", "1.50"), "", "State the answers as @zip[value], @m[value]."},
		{"an object keeps its order", `{"z": "1", "a": true}`, "", named("z", "1", "a", "true"), "", "State the answers as @z[value], @a[value]."},
		{"items in a string", `"so @mean_fare[34.65], @range[[1, 2]] and @größe[5]"`, "", named("mean_fare", "34.65", "range", "[1, 2]", "größe", "5"), "", "State the answers as @mean_fare[value], @range[value], @größe[value]."},
		{"a plain string", `"Paris"`, "", named("answer", "Paris"), "", "State the answer as @answer[value]."},
		{"an address is no item", `"me@example.org"`, "", named("answer", "me@example.org"), "", "State the answer as @answer[value]."},
		{"a big number is not rounded", `12345678901234567890`, "", named("answer", "12345678901234567890"), "", "State the answer as @answer[value]."},
		{"a judged string", `"Sales fell, see @x[1]."`, `{"judge": true}`, nil, "Sales fell, see @x[1].", ""},
		{"a judged number has a rule", `3`, `{"judge": true}`, named("answer", "3"), "", "State the answer as @answer[value]."},
		{"explicit text", `{"text": "Sales fell."}`, "", nil, "Sales fell.", ""},
		{"text beside another name is a sub-answer", `{"text": "a", "n": 1}`, "", named("text", "a", "n", "1"), "", "State the answers as @text[value], @n[value]."},
		{"an empty value is an answer", `[["outliers", ""]]`, "", named("outliers", ""), "", "State the answer as @outliers[value]."},
		{"a name may come twice", `[["r", "0.4"], ["r", "0.5"]]`, "", named("r", "0.4", "r", "0.5"), "", "State the answer as @r[value]."},
		{"null is no answer", `null`, "", nil, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			line := `{"id": "1", "question": "Q?", "answer": ` + c.answer
			if c.meta != "" {
				line += `, "meta": ` + c.meta
			}
			prompts, references, _, err := dataset.Import(t.Context(), newInput(t, dataset.FormatJSONL, line+"}").config)
			require.NoError(t, err)
			want := "Q?"
			if c.sentence != "" {
				want += "\n\n" + c.sentence
			}
			assert.Equal(t, want, prompts[0].Question)
			if c.want == nil && c.text == "" {
				assert.Empty(t, references)
				return
			}
			require.Len(t, references, 1)
			assert.Equal(t, c.want, references[0].Answers)
			assert.Equal(t, c.text, references[0].Text)
		})
	}
}

func TestAQuestionThatNamesItsAnswersIsLeftAlone(t *testing.T) {
	t.Parallel()
	in := newInput(t, dataset.FormatJSONL, `{"id": "1", "question": "Give @a[number].", "answer": {"a": 1, "b": 2}}`+"\n"+
		`{"id": "2", "question": "Give @a[number].", "answer": {"a": 1}}`)
	prompts, _, _, err := dataset.Import(t.Context(), in.config)
	require.NoError(t, err)
	assert.Equal(t, "Give @a[number].\n\nState the answer as @b[value].", prompts[0].Question)
	assert.Equal(t, "Give @a[number].", prompts[1].Question)
}

func TestAllProblemsOfAFileAreNamedAtOnceWithLineAndKey(t *testing.T) {
	t.Parallel()
	in := newInput(t, dataset.FormatJSONL, strings.Join([]string{
		`{"id": "ok", "question": "q", "files": ["a.csv"]}`,
		`{"id": "1", "question": "q"`,
		`{"id": "2", "Question": "q"}`,
		`{"id": "3", "question": " ", "files": "a.csv", "meta": [], "answer": []}`,
		`{"id": 1.5, "question": 7}`,
		`{"id": "ok", "question": "again"}`,
		`{"id": "6", "question": "q", "files": ["../prompts.jsonl", "/etc/passwd", "gone.csv", "link.csv", "empty.csv", ".", "a.csv", "sub/a.csv"]}`,
		`[1]`,
		`{"id": "8", "question": "q"} {}`,
		`{"id": "9", "id": "9", "question": "q"}`,
		"{\"id\": \"10\", \"question\": \"caf\xe9\"}",
		`{"id": "11", "question": "q", "answer": [["a", null]]}`,
		`{"id": "12", "question": "q", "answer": [["a", "1", "2"]]}`,
		`{"id": "13", "question": "q", "answer": [[1, "2"]]}`,
		`{"id": "14", "question": "q", "answer": "@a[1"}`,
		`{"id": "15", "question": "q", "answer": " "}`,
		`{"id": "16", "question": "q", "answer": [["a b]", "1"]]}`,
		`{"question": "q"}`,
		`{"id": "", "question": "q"}`,
		`{"id": "19", "question": "q", "answer": {"text": " "}}`,
		`{"id": "20", "question": "q", "answer": {"a": {"b": 1}}}`,
	}, "\n"), "a.csv", "sub/a.csv")
	in.write(t, "data/empty.csv", "")
	require.NoError(t, os.Symlink(in.config.Prompts, filepath.Join(in.config.DataDir, "link.csv")))
	assert.Equal(t, []string{
		`prompts.jsonl:2: broken JSON: the line ends inside the object`,
		`prompts.jsonl:3: Question: unknown key; known are [id question files answer data_source meta]`,
		`prompts.jsonl:4: question: empty`,
		`prompts.jsonl:4: files: want a list of file names`,
		`prompts.jsonl:4: meta: not a JSON object`,
		`prompts.jsonl:4: answer: holds no sub-answer; leave the key out if there is none`,
		`prompts.jsonl:5: id: 1.5 is neither a string nor an integer`,
		`prompts.jsonl:5: question: not a string`,
		`prompts.jsonl:6: id: "ok" stands on line 1 already`,
		`prompts.jsonl:7: files: "../prompts.jsonl": leads out of the data directory data`,
		`prompts.jsonl:7: files: "/etc/passwd": leads out of the data directory data`,
		`prompts.jsonl:7: files: "gone.csv": no such file in the data directory data`,
		`prompts.jsonl:7: files: "link.csv": leads out of the data directory data`,
		`prompts.jsonl:7: files: "empty.csv": the file is empty`,
		`prompts.jsonl:7: files: ".": not a regular file`,
		`prompts.jsonl:7: files: "sub/a.csv": has the same name as a.csv in the policy's data directory`,
		`prompts.jsonl:8: not a JSON object`,
		`prompts.jsonl:9: broken JSON: text after the object`,
		`prompts.jsonl:10: key "id" appears twice`,
		`prompts.jsonl:11: not UTF-8 at byte 30 of the line`,
		`prompts.jsonl:12: answer: item 0 (a): want a string, a number or a boolean, got null`,
		`prompts.jsonl:13: answer: item 0 has 3 parts, want [name, value]`,
		`prompts.jsonl:14: answer: item 0: the name 1 is no string`,
		`prompts.jsonl:15: answer: @a[ is never closed`,
		`prompts.jsonl:16: answer: empty; leave the key out if there is none`,
		`prompts.jsonl:17: answer: "a b]" is no name for a sub-answer`,
		`prompts.jsonl:18: id: missing`,
		`prompts.jsonl:19: id: empty`,
		`prompts.jsonl:20: answer: the reference text is empty`,
		`prompts.jsonl:21: answer: a: want a string, a number or a boolean, got {"b": 1}`,
	}, in.problemsOf(t))
}

func TestAnIntegerIdAndItsTextAreTheSameId(t *testing.T) {
	t.Parallel()
	in := newInput(t, dataset.FormatJSONL, `{"id": 1, "question": "q"}`+"\n"+`{"id": "1", "question": "q"}`)
	assert.Equal(t, []string{`prompts.jsonl:2: id: "1" stands on line 1 already`}, in.problemsOf(t))
}

func TestTheProblemOfALineCanBeTakenApart(t *testing.T) {
	t.Parallel()
	in := newInput(t, dataset.FormatJSONL, `{"id": "1", "question": "q", "x": 1}`)
	_, _, _, err := dataset.Import(t.Context(), in.config)
	var problem *dataset.InputError
	require.ErrorAs(t, err, &problem)
	assert.Equal(t, in.config.Prompts, problem.File)
	assert.Equal(t, 1, problem.Line)
	assert.Equal(t, "x", problem.Key)
}

func TestAFileThatCannotBeReadIsNamed(t *testing.T) {
	t.Parallel()
	missing := newInput(t, dataset.FormatJSONL, "")
	missing.config.Prompts = filepath.Join(missing.dir, "other.jsonl")
	assert.Equal(t, []string{"other.jsonl: no such file or directory"}, missing.problemsOf(t))
	empty := newInput(t, dataset.FormatJSONL, "\n \n")
	assert.Equal(t, []string{"prompts.jsonl: the file holds no lines"}, empty.problemsOf(t))
	long := newInput(t, dataset.FormatJSONL, "{\"id\": 1}\n"+strings.Repeat("x", 16<<20+1))
	assert.Equal(t, []string{
		"prompts.jsonl:1: question: missing", "prompts.jsonl:2: the line is longer than 16 MiB",
	}, long.problemsOf(t))
	noData := newInput(t, dataset.FormatJSONL, `{"id": "1", "question": "q", "files": ["a.csv"]}`)
	noData.config.DataDir = filepath.Join(noData.dir, "nowhere")
	assert.Equal(t, []string{`prompts.jsonl:1: files: "a.csv": data directory nowhere: no such file or directory`}, noData.problemsOf(t))
}

func TestALimitKeepsTheFirstPromptsAndNeedsOnlyTheirFiles(t *testing.T) {
	t.Parallel()
	in := newInput(t, dataset.FormatJSONL, `{"id": 1, "question": "q", "files": ["a.csv"], "answer": 1}`+"\n"+
		`{"id": 2, "question": "q", "files": ["gone.csv"], "answer": 1}`, "a.csv")
	in.config.Limit = 1
	prompts, references, paths, err := dataset.Import(t.Context(), in.config)
	require.NoError(t, err)
	assert.Len(t, prompts, 1)
	assert.Len(t, references, 1)
	assert.Len(t, paths, 1)
}

func TestUnusableSettingsAreAllNamed(t *testing.T) {
	t.Parallel()
	_, _, _, err := dataset.Import(t.Context(), dataset.ImportConfig{Format: "xml", Limit: -1})
	require.ErrorContains(t, err, "prompts: no file given")
	require.ErrorContains(t, err, `format: "xml" is not one of jsonl, dabench, verl, verigraph, tablebench, dabstep, csv`)
	require.ErrorContains(t, err, "limit: -1 is negative")
	_, _, _, err = dataset.Import(t.Context(), dataset.ImportConfig{Prompts: "p", Format: dataset.FormatJSONL, Labels: "l"})
	require.ErrorContains(t, err, "labels: format jsonl keeps the answer in the prompts file")
}

func TestAnImportThatIsCancelledSaysSo(t *testing.T) {
	t.Parallel()
	in := newInput(t, dataset.FormatJSONL, `{"id": 1, "question": "q", "files": ["a.csv"]}`, "a.csv")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, _, err := dataset.Import(ctx, in.config)
	require.ErrorIs(t, err, context.Canceled)
}
