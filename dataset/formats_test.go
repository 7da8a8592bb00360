package dataset_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/dataset"
	"github.com/verigraph/verigraph/dataset/promptfile"
	"github.com/verigraph/verigraph/dataset/table"
	"github.com/verigraph/verigraph/task"
)

const verigraphArray = "\ufeff" + `[
  {"id": "1", "source": "datainstruct-datatask", "question": "Mean age?", "answer": "It is 17.5.",
   "files": ["a.csv"], "dir_id": "d_1", "original_id": "14026"},
  {"id": "2", "source": "research", "question": "Write a report.", "answer": "", "files": ["a.csv"], "dir_id": "d_2"},
  {"id": 3, "qtype": "FactChecking", "qsubtype": "MatchBased", "question": "How many?", "answer": "02", "raw_id": "7", "files": ["a.csv"]}
]`

func TestVeriGraphRecordsBecomePromptsWithTheirFilesBelowTheirDirectory(t *testing.T) {
	t.Parallel()
	in := newInput(t, dataset.FormatVeriGraph, verigraphArray, "d_1/a.csv", "d_2/a.csv", "7/a.csv")
	got, err := dataset.ImportAll(t.Context(), in.config)
	require.NoError(t, err)
	require.Len(t, got.Prompts, 3)
	assert.Equal(t, task.Prompt{
		ID: "1", Question: "Mean age?", DataSource: "datainstruct-datatask", Meta: json.RawMessage(`{"dir_id":"d_1","original_id":"14026"}`),
		Files: []task.File{{Name: "a.csv", SHA256: digest("content of d_1/a.csv"), Size: 20}},
	}, got.Prompts[0])
	assert.Equal(t, "How many?\n\nState the answer as @answer[value].", got.Prompts[2].Question)
	assert.Equal(t, "verigraph", got.Prompts[2].DataSource)
	assert.Equal(t, [][]string{{"d_1/a.csv"}, {"d_2/a.csv"}, {"7/a.csv"}}, got.FileNames)
	require.Len(t, got.References, 2, "an empty answer is no reference")
	assert.Equal(t, "It is 17.5.", got.References[0].Text)
	assert.Equal(t, []task.NamedAnswer{{Name: "answer", Value: "02"}}, got.References[1].Answers)
}

func TestEveryProblemOfAnArrayIsNamedWithItsLine(t *testing.T) {
	t.Parallel()
	in := newInput(t, dataset.FormatVeriGraph, `[
  {"id": "1", "question": "q", "files": ["gone.csv"]},
  {"id": "1", "question": "q"},
  {"question": " ", "answer": [1]},
  {"id": "4", "question": "q", "colour": 1},
  {"id": "5", "question": "q"`)
	assert.Equal(t, []string{
		`prompts.jsonl:2: files: "gone.csv": no such file in the data directory data`,
		`prompts.jsonl:3: id: "1" stands on line 2 already`,
		`prompts.jsonl:4: id: missing: none of ["id"]`,
		`prompts.jsonl:4: question: empty`,
		`prompts.jsonl:4: answer: want a string, a number or a boolean, got [1]`,
		`prompts.jsonl:5: colour: unknown key; known are [id source question answer files dir_id original_id raw_id qtype qsubtype checklist]`,
		`prompts.jsonl:6: broken JSON: the line ends inside the object`,
	}, in.problemsOf(t))
}

const tableBenchLines = `{"id": "a", "qtype": "FactChecking", "qsubtype": "MatchBased", "question": "Which zip?", "answer": "02116", ` +
	`"table": {"columns": ["zip", "Length\n[km]", "zip"], "data": [["02116", null, "x, \"y\""], ["00501", "1.50", ""]]}}
{"id": "a", "qtype": "FactChecking", "qsubtype": "Multi-hop FactChecking", "question": "Which zip?", "answer": "02116", "table": {"columns": ["b"], "data": [[7]]}}
{"id": "c", "qtype": "Visualization", "qsubtype": "ChartGeneration", "chart_type": "bar", "question": "Draw.", "answer": "y_references = [[1]]", "table": {"columns": ["b"], "data": []}}`

func TestTableBenchTablesAreWrittenOutAsTheyAre(t *testing.T) {
	t.Parallel()
	in := newInput(t, dataset.FormatTableBench, tableBenchLines)
	in.config.TablesDir = filepath.Join(in.dir, "tables")
	got, err := dataset.ImportAll(t.Context(), in.config)
	require.NoError(t, err)
	content, err := os.ReadFile(filepath.Join(in.config.TablesDir, "a", "table.csv"))
	require.NoError(t, err)
	assert.Equal(t, "zip,\"Length\n[km]\",zip\n02116,,\"x, \"\"y\"\"\"\n00501,1.50,\n", string(content))
	assert.Equal(t, [][]string{{"a/table.csv"}, {"a~2D2/table.csv"}, {"c/table.csv"}}, got.FileNames)
	assert.Equal(t, []string{"a", "a-2", "c"}, []string{got.Prompts[0].ID, got.Prompts[1].ID, got.Prompts[2].ID})
	assert.Equal(t, "Which zip?\n\nData file: table.csv\n\nState the answer as @answer[value].", got.Prompts[0].Question)
	assert.Equal(t, "table.csv", got.Prompts[0].Files[0].Name)
	assert.Equal(t, []task.NamedAnswer{{Name: "answer", Value: "02116"}}, got.References[0].Answers)
	assert.Equal(t, "a-2", got.References[1].PromptID)
	assert.Equal(t, "y_references = [[1]]", got.References[2].Text)
	assert.JSONEq(t, `{"qtype":"Visualization","qsubtype":"ChartGeneration","chart_type":"bar"}`, string(got.Prompts[2].Meta))
	assert.NotContains(t, string(got.Prompts[2].Meta), "y_references")
}

func TestBrokenTableBenchTablesAreNamed(t *testing.T) {
	t.Parallel()
	in := newInput(t, dataset.FormatTableBench, `{"id": "a", "qtype": "x", "question": "q", "answer": "1", "table": {"columns": ["a"], "data": [["1", "2"]]}}
{"id": "b", "qtype": "x", "question": "q", "answer": " ", "table": {"columns": []}}
{"id": "c", "qtype": "x", "question": "q", "answer": "1", "table": "{\"columns\": [\"a\"], \"data\": [[[1]]]}"}`)
	in.config.TablesDir = filepath.Join(in.dir, "tables")
	assert.Equal(t, []string{
		`prompts.jsonl:1: table: row 1 has 2 cells, the header 1`,
		`prompts.jsonl:2: table: no columns`,
		`prompts.jsonl:2: answer: missing or empty`,
		`prompts.jsonl:3: table: row 1: cell 1: want a string, a number or a boolean, got [1]`,
	}, in.problemsOf(t))
	in.config.TablesDir = ""
	require.ErrorContains(t, in.config.Validate(), "tables: a directory for the tables")
}

func dabstepInput(t *testing.T, lines string) input {
	return newInput(t, dataset.FormatDABStep, lines, "acquirer_countries.csv", "fees.json", "manual.md",
		"merchant_category_codes.csv", "merchant_data.json", "payments-readme.md", "payments.csv")
}

func TestADABStepTaskHasItsGuidelinesAndTheSharedContext(t *testing.T) {
	t.Parallel()
	in := dabstepInput(t, `{"task_id": "5", "question": "Which country?", "guidelines": "Just the code.", "level": "easy", "answer": "NL"}
{"task_id": 6, "question": "Hidden?", "guidelines": "", "level": "hard", "answer": ""}`)
	prompts, references, paths, err := dataset.Import(t.Context(), in.config)
	require.NoError(t, err)
	files := "Data files: acquirer_countries.csv, fees.json, manual.md, merchant_category_codes.csv, merchant_data.json, payments-readme.md, payments.csv"
	assert.Equal(t, "Which country?\n\nGuidelines:\nJust the code.\n\n"+files+"\n\nState the answer as @answer[value].", prompts[0].Question)
	assert.Equal(t, "Hidden?\n\n"+files+"\n\nState the answer as @answer[value].", prompts[1].Question)
	assert.Len(t, prompts[0].Files, 7)
	assert.Len(t, paths, 7)
	require.Len(t, references, 1, "an empty answer is hidden, not a reference")
	assert.Equal(t, []task.NamedAnswer{{Name: "answer", Value: "NL"}}, references[0].Answers)
	require.NoError(t, os.Remove(filepath.Join(in.config.DataDir, "payments.csv")))
	assert.Equal(t, []string{`prompts.jsonl: context: "payments.csv" in the data directory data: no such file or directory; every task may need it (data/context of adyen/DABstep)`}, in.problemsOf(t))
}

func TestDABStepsOwnTasksAreReadWhole(t *testing.T) {
	t.Parallel()
	tasks, err := os.ReadFile("testdata/dabstep_dev.jsonl")
	require.NoError(t, err)
	in := dabstepInput(t, string(tasks))
	prompts, references, _, err := dataset.Import(t.Context(), in.config)
	require.NoError(t, err)
	require.Len(t, prompts, 10)
	var answers []string
	for i, line := range strings.Split(strings.TrimSpace(string(tasks)), "\n") {
		var own struct{ ID, Question, Guidelines, Answer string }
		require.NoError(t, json.Unmarshal([]byte(strings.ReplaceAll(line, `"task_id"`, `"id"`)), &own))
		require.Equal(t, own.ID, prompts[i].ID)
		require.Contains(t, prompts[i].Question, own.Question+"\n\nGuidelines:\n"+own.Guidelines)
		answers = append(answers, own.Answer)
	}
	for i, r := range references {
		require.Equal(t, []task.NamedAnswer{{Name: "answer", Value: answers[i]}}, r.Answers)
	}
	require.Len(t, references, 10)
	for _, name := range []string{"fees.json", "payments.csv"} {
		require.NoError(t, os.Remove(filepath.Join(in.config.DataDir, name)))
	}
	require.Len(t, in.problemsOf(t), 2, "each missing file once, not once per task")
}

const verlLines = `{"prompt": [{"role": "system", "content": "S"}, {"role": "user", "content": "Mean?"}], "data_source": "mine", "ability": "x", ` +
	`"reward_model": {"style": "rule", "ground_truth": "@m[02]"}, "extra_info": {"index": 4, "files": ["a.csv"], "split": "train"}, "anything": [1]}
{"prompt": [{"role": "user", "content": "Why?"}], "reward_model": {"style": "llm_judge", "ground_truth": "Sales fell."}}
{"prompt": [{"role": "user", "content": "None?"}], "reward_model": {"style": "rule", "ground_truth": ""}, "extra_info": {"id": "z"}}`

func TestVerlRowsBecomePrompts(t *testing.T) {
	t.Parallel()
	in := newInput(t, dataset.FormatVerl, verlLines, "a.csv")
	prompts, references, _, err := dataset.Import(t.Context(), in.config)
	require.NoError(t, err)
	assert.Equal(t, task.Prompt{
		ID: "4", Question: "Mean?\n\nState the answer as @m[value].", DataSource: "mine", Meta: json.RawMessage(`{"ability":"x"}`),
		Files: []task.File{{Name: "a.csv", SHA256: digest("content of a.csv"), Size: 16}},
	}, prompts[0])
	assert.Equal(t, []string{"row-2", "z"}, []string{prompts[1].ID, prompts[2].ID})
	require.Len(t, references, 2)
	assert.Equal(t, []task.NamedAnswer{{Name: "m", Value: "02"}}, references[0].Answers)
	assert.Equal(t, "Sales fell.", references[1].Text)
}

func TestVerlPromptsThatCannotBeRepresentedAreNamed(t *testing.T) {
	t.Parallel()
	in := newInput(t, dataset.FormatVerl, `{"prompt": "text"}
{"prompt": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}]}
{"prompt": [{"role": "user", "content": "a"}, {"role": "user", "content": "c"}]}
{"prompt": [{"role": "user", "content": [{"type": "image"}]}]}
{"prompt": [{"role": "user", "content": "a"}], "extra_info": {"task_json": "{\"id\": \"x\"}"}}`)
	assert.Equal(t, []string{
		`prompts.jsonl:1: prompt: want a list of messages {role, content}`,
		`prompts.jsonl:2: prompt: message 1 is of role "assistant": a prompt with earlier turns cannot be imported`,
		`prompts.jsonl:3: prompt: 2 user messages with text, want one`,
		`prompts.jsonl:4: prompt: message 0: the content is no text`,
		`prompts.jsonl:5: question: missing`,
	}, in.problemsOf(t))
	in.config.Prompts = filepath.Join(in.dir, "p.parquet")
	in.write(t, "p.parquet", "PAR1")
	assert.Equal(t, []string{"p.parquet: Parquet prompts are read by verigraph import"}, in.problemsOf(t))
	in.config.ReadParquet = promptfile.ReadParquet
	assert.Contains(t, in.problemsOf(t)[0], "p.parquet: no Parquet file: ")
}

func TestACSVOfPromptsKeepsItsTextAndIsNeverGuessed(t *testing.T) {
	t.Parallel()
	in := newInput(t, dataset.FormatCSV, "\ufeff\"id\",question,files,answer,data_source\n"+
		"007,\"Which zip,\nplease?\",a.csv; b.csv,02116,mine\n8,Two?,,\"[[\"\"x\"\", \"\"1\"\"]]\",\n", "a.csv", "b.csv")
	got, err := dataset.ImportAll(t.Context(), in.config)
	require.NoError(t, err)
	assert.Equal(t, []string{"007", "8"}, []string{got.Prompts[0].ID, got.Prompts[1].ID})
	assert.Equal(t, [][]string{{"a.csv", "b.csv"}, nil}, got.FileNames)
	assert.Equal(t, []task.NamedAnswer{{Name: "answer", Value: "02116"}}, got.References[0].Answers)
	assert.Equal(t, []task.NamedAnswer{{Name: "x", Value: "1"}}, got.References[1].Answers)
	for content, want := range map[string]string{
		"id,question\n1,q,\n2,q,\n":        "prompts.jsonl:1: the header has 2 names, every row more (line 2 has 3 fields): readers shift the columns",
		"id,question,id\n1,q,2\n":          `prompts.jsonl:1: columns 1 and 3 are both called "id": readers rename or drop one`,
		"id,frage\n1,q\n":                  "prompts.jsonl:1: frage: unknown column; known are [id question files answer data_source meta]",
		"id,question\n1,caf\xe9\n":         "prompts.jsonl: not utf-8 at byte 17 of the file (e9 0a); the whole file decodes as windows-1252, latin-1: declare the right one",
		"":                                 "prompts.jsonl: the file is empty",
		"id,question\n1,q\n1,q\n":          `prompts.jsonl:3: id: "1" stands on line 2 already`,
		"id,question,answer\n1,\"q\n\",\n": "",
	} {
		in.write(t, "prompts.jsonl", content)
		if want == "" {
			_, err := dataset.ImportAll(t.Context(), in.config)
			require.NoError(t, err)
			continue
		}
		assert.Equal(t, want, in.problemsOf(t)[0], content)
	}
	in.write(t, "prompts.jsonl", "id;question\n1;caf\xe9\n")
	in.config.Table = table.Options{Encoding: "latin-1", Delimiter: ';'}
	got, err = dataset.ImportAll(t.Context(), in.config)
	require.NoError(t, err)
	assert.Equal(t, "café", got.Prompts[0].Question)
}

// TestWhatIsWrittenReadsBackAsTheSamePrompts goes from every format to JSONL and to verl Parquet and back.
func TestWhatIsWrittenReadsBackAsTheSamePrompts(t *testing.T) {
	t.Parallel()
	tableBench := newInput(t, dataset.FormatTableBench, tableBenchLines)
	tableBench.config.TablesDir = filepath.Join(tableBench.dir, "tables")
	for name, in := range map[string]input{
		"verigraph":  newInput(t, dataset.FormatVeriGraph, verigraphArray, "d_1/a.csv", "d_2/a.csv", "7/a.csv"),
		"tablebench": tableBench,
		"verl":       newInput(t, dataset.FormatVerl, verlLines, "a.csv"),
		"dabstep":    dabstepInput(t, `{"task_id": "5", "question": "<b> & c?", "guidelines": "g", "level": "easy", "answer": "a, b"}`),
		"dabench":    newInput(t, dataset.FormatDABench, dabenchLine, "a.csv"),
	} {
		t.Run(name, func(t *testing.T) {
			want, err := dataset.ImportAll(t.Context(), in.config)
			require.NoError(t, err)
			for _, extension := range []string{".jsonl", ".parquet"} {
				var b bytes.Buffer
				format := dataset.FormatJSONL
				if extension == ".parquet" {
					format = dataset.FormatVerl
					require.NoError(t, promptfile.WriteVerl(&b, want, "train"))
				} else {
					require.NoError(t, promptfile.WriteJSONL(&b, want))
				}
				in.write(t, "again"+extension, b.String())
				got, err := dataset.ImportAll(t.Context(), dataset.ImportConfig{
					Prompts: filepath.Join(in.dir, "again"+extension), Format: format, DataDir: want.DataDir, ReadParquet: promptfile.ReadParquet,
				})
				require.NoError(t, err)
				assert.Equal(t, want.FileNames, got.FileNames)
				assert.Equal(t, normal(want.Prompts), normal(got.Prompts))
				require.Len(t, got.References, len(want.References))
				for i, r := range want.References {
					assert.Equal(t, r.Answers, got.References[i].Answers)
					assert.Equal(t, r.Text, got.References[i].Text)
				}
			}
		})
	}
}

// normal leaves out the blanks inside meta, which writing may change.
func normal(prompts []task.Prompt) []task.Prompt {
	out := append([]task.Prompt(nil), prompts...)
	for i, p := range out {
		if p.Meta != nil {
			var b bytes.Buffer
			if err := json.Compact(&b, p.Meta); err != nil {
				panic(err)
			}
			out[i].Meta = b.Bytes()
		}
	}
	return out
}

func TestAnImportOfAnyFormatStopsWhenItsContextEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	in := newInput(t, dataset.FormatVeriGraph, verigraphArray, "d_1/a.csv", "d_2/a.csv", "7/a.csv")
	_, err := dataset.ImportAll(ctx, in.config)
	require.ErrorIs(t, err, context.Canceled)
}
