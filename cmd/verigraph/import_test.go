package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/cmd/internal/cli"
)

// runImport runs the command and returns its exit code and what it printed.
func runImport(t *testing.T, args ...string) (int, string, string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	root := newRoot()
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	root.SetArgs(append([]string{"import"}, args...))
	code := cli.ExitCode("verigraph", root.ExecuteContext(t.Context()), &stderr)
	return code, stdout.String(), stderr.String()
}

func importDir(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
	}
	return dir
}

func TestImportedDABenchPromptsRunAsJSONLAndTheirFilesAreInTheStore(t *testing.T) {
	t.Parallel()
	const examples = "../../examples/dabench/"
	dir := t.TempDir()
	out, store, report := filepath.Join(dir, "p.jsonl"), filepath.Join(dir, "store"), filepath.Join(dir, "r.json")
	code, stdout, stderr := runImport(t, examples+"questions.jsonl", "--format", "dabench", "--labels", examples+"labels.jsonl",
		"--data-dir", examples+"tables", "--out", out, "--blob", store, "--report", report)
	require.Equal(t, 0, code, stderr)
	assert.Equal(t, "22 prompts (22 with a reference answer), 21 data files: "+out+"\n", stdout)
	assert.Contains(t, stderr, "Current_Logan.csv (table, utf-8, 9 columns, 41 rows)\n")
	assert.Contains(t, stderr, "  line 1: may be a title: ")
	f := inputFlags{format: "jsonl"}
	f.Prompts, f.DataDir = out, examples+"tables"
	loaded, err := f.load(t.Context())
	require.NoError(t, err)
	assert.Len(t, loaded.references, 22)
	var files []map[string]any
	raw, err := os.ReadFile(report)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, &files))
	require.Len(t, files, 21)
	for _, file := range files {
		_, err := os.Stat(filepath.Join(store, "data", file["sha256"].(string)))
		require.NoError(t, err)
	}
}

func TestImportRefusesWhatItWouldHaveToGuessAndTakesADeclaration(t *testing.T) {
	t.Parallel()
	dir := importDir(t, map[string]string{
		"p.jsonl":      `{"id": "1", "question": "q", "files": ["sales_1.csv", "two.csv"], "answer": 1}`,
		"sales_1.csv":  "a,b\ncaf\xe9,1\n",
		"two.csv":      "a,1;b\n1,5;2\n",
		"unused.csv":   "\xff",
		"earlier.json": "{}",
	})
	out := filepath.Join(dir, "out", "p.jsonl")
	code, _, stderr := runImport(t, filepath.Join(dir, "p.jsonl"), "--out", out)
	assert.Equal(t, cli.ExitUsage, code)
	assert.Equal(t, "verigraph: sales_1.csv: not utf-8 at byte 7 of the file (e9 2c 31 0a); the whole file decodes as windows-1252, latin-1: declare the right one\n"+
		"two.csv: several delimiters suit every line (a comma gives 2 columns, a semicolon gives 2 columns): declare the right one\n", stderr)
	_, err := os.Stat(out)
	require.ErrorIs(t, err, os.ErrNotExist, "nothing is written when a file is refused")
	code, _, stderr = runImport(t, filepath.Join(dir, "p.jsonl"), "--out", out, "--encoding", "sales_*.csv=cp1252", "--delimiter", "two.csv=;")
	require.Equal(t, 0, code, stderr)
	raw, err := os.ReadFile(out)
	require.NoError(t, err)
	assert.JSONEq(t, `{"id": "1", "question": "q\n\nState the answer as @answer[value].", "files": ["sales_1.csv", "two.csv"], `+
		`"answer": [["answer", "1"]], "data_source": "jsonl"}`, string(raw))
}

func TestTableBenchBecomesVerlParquetWithItsTablesBesideIt(t *testing.T) {
	t.Parallel()
	dir := importDir(t, map[string]string{
		"tb.jsonl": `{"id": "a", "qtype": "FactChecking", "qsubtype": "MatchBased", "question": "Zip?", "answer": "02116", "table": {"columns": ["zip"], "data": [["02116"]]}}`,
	})
	out := filepath.Join(dir, "train.parquet")
	code, _, stderr := runImport(t, filepath.Join(dir, "tb.jsonl"), "--format", "tablebench", "--out", out)
	require.Equal(t, 0, code, stderr)
	assert.Contains(t, stderr, `column "zip": 1 of 1 cells have leading zeros: kept as text`)
	content, err := os.ReadFile(filepath.Join(dir, "train_tables", "a", "table.csv"))
	require.NoError(t, err)
	assert.Equal(t, "zip\n02116\n", string(content))
	code, stdout, stderr := runImport(t, out, "--format", "verl", "--data-dir", filepath.Join(dir, "train_tables"), "--out", filepath.Join(dir, "b.jsonl"))
	require.Equal(t, 0, code, stderr)
	assert.True(t, strings.HasPrefix(stdout, "1 prompts (1 with a reference answer), 1 data files"))
}

func TestWrongImportFlagsAreNamed(t *testing.T) {
	t.Parallel()
	dir := importDir(t, map[string]string{"p.jsonl": `{"id": "1", "question": "q"}`})
	file, out := filepath.Join(dir, "p.jsonl"), filepath.Join(dir, "o.jsonl")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{file}, `--out: "" ends neither in .jsonl nor in .parquet`},
		{[]string{file, "--out", out, "--format", "xml"}, `format: "xml" is not one of`},
		{[]string{file, "--out", out, "--encoding", "latin-1"}, `--encoding: "latin-1" is not PATTERN=VALUE`},
		{[]string{file, "--out", out, "--encoding", "*=klingon"}, `--encoding: encoding "klingon" is not one of`},
		{[]string{file, "--out", out, "--delimiter", "*=;;", "--header", "*=0"}, "--delimiter: \";;\" is not one character\n--header: \"0\" is no line number"},
		{[]string{filepath.Join(dir, "gone.jsonl"), "--out", out}, "no such file or directory"},
		{[]string{}, "accepts 1 arg(s)"},
	} {
		code, _, stderr := runImport(t, c.args...)
		assert.Equal(t, cli.ExitUsage, code, c.args)
		assert.Contains(t, stderr, c.want)
	}
}
