package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The picture in the concepts is what the program prints for the rollout that the page describes.
func TestThePictureOfTheConceptsIsWhatTheProgramPrints(t *testing.T) {
	t.Parallel()
	out, dir := t.TempDir(), t.TempDir()
	questions := linesWith(t, root+"examples/dabench/questions.jsonl", `"id": 429,`, filepath.Join(dir, "questions.jsonl"))
	labels := linesWith(t, root+"examples/dabench/labels.jsonl", `"id": 429,`, filepath.Join(dir, "labels.jsonl"))
	script := linesWith(t, root+"examples/dabench/script.jsonl", `"prompt_id": "429"`, filepath.Join(dir, "script.jsonl"))
	code, _, stderr := verigraph(t, "run", "--prompts", questions, "--labels", labels, "--format", "dabench", "--data-dir", tables,
		"--policy", "script:"+script, "--judge", "rules", "--group-size", "2", "--python", root+".venv/sandbox/bin/python", "--out", out)
	require.Zero(t, code, stderr)
	code, graph, _ := verigraph(t, "graph", out, "local/429-0/0", "--format", "mermaid")
	require.Zero(t, code)
	page, err := os.ReadFile(root + "docs/concepts.md")
	require.NoError(t, err)
	require.Contains(t, string(page), "```mermaid\n"+strings.TrimSpace(graph)+"\n```")
}

// linesWith copies the lines of a file that hold a text.
func linesWith(t *testing.T, from, text, to string) string {
	t.Helper()
	data, err := os.ReadFile(from)
	require.NoError(t, err)
	var kept bytes.Buffer
	for line := range strings.Lines(string(data)) {
		if strings.Contains(line, text) {
			kept.WriteString(line)
		}
	}
	require.NotZero(t, kept.Len())
	require.NoError(t, os.WriteFile(to, kept.Bytes(), 0o600))
	return to
}

func TestEveryErrorTextOfTheTroubleshootingPageIsOneThatTheCodeGives(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(root + "docs/troubleshooting.md")
	require.NoError(t, err)
	texts := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)`").FindAllSubmatch(page, -1) {
		texts[string(m[1])] = false
	}
	require.Greater(t, len(texts), 25)
	for _, dir := range []string{"blob", "cmd", "dataset", "internal", "jetstream", "policy", "reward", "rollout", "sandbox"} {
		require.NoError(t, filepath.WalkDir(root+dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			source, err := os.ReadFile(path)
			for text := range texts {
				if bytes.Contains(source, []byte(text)) {
					texts[text] = true
				}
			}
			return err
		}))
	}
	for text, found := range texts {
		require.True(t, found, "no source file holds %q", text)
	}
}

// The prompt that the quick start shows is one that imports.
func TestThePromptOfTheQuickStartImports(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(root + "docs/quickstart.md")
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(page), "```json\n")
	require.True(t, ok)
	prompt, _, _ := strings.Cut(rest, "```")
	dir := t.TempDir()
	file := filepath.Join(dir, "prompts.jsonl")
	require.NoError(t, os.WriteFile(file, []byte(prompt), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "fares.csv"), []byte("name,fare\nA,34.0\nB,35.3\n"), 0o600))
	code, _, stderr := verigraph(t, "import", file, "--format", "jsonl", "--data-dir", dir, "--out", filepath.Join(dir, "out.jsonl"), "--blob", filepath.Join(dir, "store"))
	require.Zero(t, code, stderr)
}
