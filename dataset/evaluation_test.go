package dataset_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/dataset"
)

// place writes files below a new directory.
func place(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	return dir
}

// Made-up data in the public layout of DSBench: the benchmark itself can't be part of a test.
func TestEachDSBenchQuestionIsAnItemWithItsIntroductionAndWorkbooks(t *testing.T) {
	t.Parallel()
	dir := place(t, map[string]string{
		"data.json": `{"id":"00000001","name":"2016-a","questions":["question6","question7"],"answers":["D",1661626],"year":2016}
{"id":"00000002","name":"b","questions":["question1"],"answers":[{"x":1}],"year":2017}
`,
		"data/00000001/introduction.txt": "A firm sells chips.\n", "data/00000001/question6.txt": "Which option?", "data/00000001/question7.txt": "How many?",
		"data/00000001/Model.xlsx": "x", "data/00000001/notes.md": "n",
		"data/00000002/introduction.txt": "i", "data/00000002/question1.txt": "q",
	})
	c := dataset.ImportConfig{Prompts: filepath.Join(dir, "data.json"), DataDir: filepath.Join(dir, "data"), Format: dataset.FormatDSBench}
	in, err := dataset.ImportAll(t.Context(), c)
	require.NoError(t, err)
	require.Len(t, in.Prompts, 3)
	require.Equal(t, "00000001-question6", in.Prompts[0].ID)
	require.Equal(t, "A firm sells chips.\n\nWhich option?\n\nData files: Model.xlsx", in.Prompts[0].Question)
	require.Equal(t, "Model.xlsx", in.Prompts[0].Files[0].Name)
	require.Equal(t, []string{"D", "1661626", `{"x":1}`}, []string{in.References[0].Text, in.References[1].Text, in.References[2].Text})
	require.JSONEq(t, `{"challenge":"00000001","judge_task":"closed"}`, string(in.References[0].Meta))

	require.NoError(t, os.Remove(filepath.Join(dir, "data/00000001/question7.txt")))
	_, err = dataset.ImportAll(t.Context(), c)
	require.ErrorContains(t, err, `data.json:1: questions: "00000001/question7.txt": no such file`)
}

// Made-up data in the public layout of QRData.
func TestQRDataQuestionsCarryTheirChoicesAndTheirPlaceAsID(t *testing.T) {
	t.Parallel()
	dir := place(t, map[string]string{
		"QRData.json": `[{"data_description":"Rows are people.","question":"Mean age?","data_files":["a.csv"],"meta_data":{"question_type":"numerical","keywords":["mean"]},"answer":"31.5"},
{"question":"Does x cause y?","data_files":["a.csv"],"meta_data":{"question_type":"multiple_choice","multiple_choices":["yes","no"]},"answer":"no"}]`,
		"data/a.csv": "age\n1\n",
	})
	c := dataset.ImportConfig{Prompts: filepath.Join(dir, "QRData.json"), DataDir: filepath.Join(dir, "data"), Format: dataset.FormatQRData}
	in, err := dataset.ImportAll(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, []string{"0", "1"}, []string{in.Prompts[0].ID, in.Prompts[1].ID})
	require.Equal(t, "Rows are people.\n\nMean age?\n\nData files: a.csv\n\nState the answer as @answer[value].", in.Prompts[0].Question)
	require.Contains(t, in.Prompts[1].Question, "Choices: yes; no")
	require.Equal(t, "31.5", in.References[0].Answers[0].Value)
	require.JSONEq(t, `{"question_type":"multiple_choice"}`, string(in.References[1].Meta))

	require.NoError(t, os.WriteFile(c.Prompts, []byte(`[{"question":"q","data_files":["a.csv"],"meta_data":{"question_type":"essay"},"answer":"x"}]`), 0o600))
	_, err = dataset.ImportAll(t.Context(), c)
	require.ErrorContains(t, err, `meta_data: question_type "essay" is neither`)
}

func TestResearchQuestionsKeepTheirChecklistOnTheReferenceSideAndMayLackAContextFile(t *testing.T) {
	t.Parallel()
	dir := place(t, map[string]string{
		"r.jsonl": `{"id":0,"files":["fees.json","payments.csv"],"question":"Write about fees.","checklist":"- fees","type":"Data Insight"}` + "\n" +
			`{"id":1,"files":["fees.json"],"question":"Write.","checklist":"","type":"Open"}` + "\n",
		"ctx/fees.json": "[]",
	})
	c := dataset.ImportConfig{Prompts: filepath.Join(dir, "r.jsonl"), DataDir: filepath.Join(dir, "ctx"), Format: dataset.FormatResearch}
	_, err := dataset.ImportAll(t.Context(), c)
	require.ErrorContains(t, err, `"payments.csv"`)
	c.Without = []string{"payments.csv"}
	in, err := dataset.ImportAll(t.Context(), c)
	require.NoError(t, err)
	require.NotContains(t, in.Prompts[0].Question, "- fees")
	require.NotContains(t, string(in.Prompts[0].Meta), "fees")
	require.Contains(t, in.Prompts[0].Question, "Data files: fees.json")
	require.Equal(t, "- fees", in.References[0].Text)
	require.Len(t, in.References, 2, "an open question has no checklist and is judged all the same")
}
