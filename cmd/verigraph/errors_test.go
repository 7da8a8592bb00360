package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/cmd/internal/cli"
)

// write puts text into a new file and returns its path.
func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

func TestMistakesGetOneClearLineAndExitCode2(t *testing.T) {
	t.Parallel()
	good := `{"id":"p","question":"Q","files":["test_ave.csv"],"answer":"1","data_source":"x","meta":{}}` + "\n"
	script := writeScript(t, scriptLine{"p", []string{"Done."}})
	python := root + ".venv/sandbox/bin/python"
	cases := map[string]struct {
		args []string
		want []string
	}{
		"an unknown configuration key": {
			[]string{"--prompts", write(t, "p.jsonl", good), "--data-dir", tables, "--config", write(t, "c.yaml", "rollout:\n  max_turnz: 3\n")},
			[]string{"c.yaml", "line 2", "max_turnz"},
		},
		"a wrong configuration value": {
			[]string{"--prompts", write(t, "p.jsonl", good), "--data-dir", tables, "--config", write(t, "c.yaml", "rollout: {max_turns: 0}\nleader: {group_size: 1}\n")},
			[]string{"rollout.max_turns", "leader.group_size"},
		},
		"a missing CSV file": {
			[]string{"--prompts", write(t, "p.jsonl", `{"id":"p","question":"Q","files":["nowhere.csv"],"answer":"1","data_source":"x","meta":{}}`+"\n"), "--data-dir", tables},
			[]string{"p.jsonl:1", "nowhere.csv"},
		},
		"a broken JSONL line": {
			[]string{"--prompts", write(t, "p.jsonl", good+"{\"id\":\n"), "--data-dir", tables},
			[]string{"p.jsonl:2"},
		},
		"a label without a question": {
			[]string{
				"--format", "dabench", "--data-dir", tables, "--prompts", root + "examples/dabench/questions.jsonl",
				"--labels", write(t, "l.jsonl", `{"id": 99999, "common_answers": [["a", "1"]]}`+"\n"),
			},
			[]string{"l.jsonl:1", "99999"},
		},
		"an unknown flag":   {[]string{"--promptz", "x"}, []string{"--promptz"}},
		"an unknown format": {[]string{"--prompts", write(t, "p.jsonl", good), "--format", "xlsx"}, []string{"format", "xlsx"}},
		"an unknown preset": {[]string{"--prompts", write(t, "p.jsonl", good), "--data-dir", tables, "--reward", "best"}, []string{"best", "default"}},
		"a prompt without an answer": {
			[]string{"--prompts", write(t, "p.jsonl", `{"id":"p","question":"Q","files":[],"data_source":"x"}`+"\n")},
			[]string{"p", "no reference answer"},
		},
		"a prompt that the script lacks": {
			[]string{"--prompts", write(t, "p.jsonl", `{"id":"q","question":"Q","files":[],"answer":"1","data_source":"x"}`+"\n")},
			[]string{"script", "q/0"},
		},
		"a group of one": {
			[]string{"--prompts", write(t, "p.jsonl", good), "--data-dir", tables, "--group-size", "1"},
			[]string{"group_size"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"run", "--policy", "script:" + script, "--judge", "rules", "--python", python, "--out", filepath.Join(t.TempDir(), "out")}, c.args...)
			code, _, stderr := verigraph(t, args...)
			require.Equal(t, cli.ExitUsage, code, stderr)
			for _, w := range c.want {
				require.Contains(t, stderr, w)
			}
		})
	}
}

func TestFailuresOfTheSurroundingsGetOneClearLineAndExitCode1(t *testing.T) {
	t.Parallel()
	dead := "http://127.0.0.1:" + freePort(t)
	tok := filepath.Join(root, "policy/scripted/tokenizer.json")
	prompts := write(t, "p.jsonl", `{"id":"p","question":"Q","files":[],"answer":"1","data_source":"x"}`+"\n")
	script := writeScript(t, scriptLine{"p", []string{"Done."}})

	t.Run("an unreachable policy", func(t *testing.T) {
		t.Parallel()
		code, _, stderr := verigraph(t, "run", "--prompts", prompts, "--policy", dead, "--model", "m", "--tokenizer", tok,
			"--judge", "rules", "--python", root+".venv/sandbox/bin/python", "--out", filepath.Join(t.TempDir(), "out"))
		require.Equal(t, cli.ExitFailed, code)
		require.Contains(t, stderr, dead)
	})
	t.Run("an interpreter without the packages", func(t *testing.T) {
		t.Parallel()
		code, _, stderr := verigraph(t, "run", "--prompts", prompts, "--policy", "script:"+script,
			"--judge", "rules", "--python", root+".venv/client/bin/python", "--out", filepath.Join(t.TempDir(), "out"))
		require.Equal(t, cli.ExitFailed, code)
		require.Contains(t, stderr, "scipy")
		require.Contains(t, stderr, "make python")
		require.Len(t, strings.Split(strings.TrimSpace(stderr), "\n"), 1, "one line for all packages")
	})
	t.Run("a trainer that fails", func(t *testing.T) {
		t.Parallel()
		code, _, stderr := verigraph(t, "run", "--prompts", prompts, "--policy", "script:"+script, "--judge", "rules",
			"--python", root+".venv/sandbox/bin/python", "--out", filepath.Join(t.TempDir(), "out"), "--trainer", "exit 3")
		require.Equal(t, cli.ExitFailed, code)
		require.Contains(t, stderr, "exit status 3")
		require.Contains(t, stderr, "trainer.log")
	})
}
