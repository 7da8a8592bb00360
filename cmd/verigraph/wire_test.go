package main

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/cmd/internal/cli"
	"github.com/verigraph/verigraph/cmd/internal/config"
	"github.com/verigraph/verigraph/internal/patience"
	"github.com/verigraph/verigraph/policy/scripted"
)

// wireLimit ends one command that hangs, so that the others still run and say what they found.
const wireLimit = 2 * patience.Limit

// wire is a place with everything that a page's commands name, on real sockets where they name a host. Each page has files of
// its own; the servers and the demo, which commands only read, are shared.
type wire struct {
	dir, demo string
	hosts     *strings.Replacer
}

// fares answers the question of the pages, which has another id once it is imported.
var fares = []string{cellTurn("import glob\nimport pandas as pd\nm = float(pd.read_csv((glob.glob('fares.csv') + glob.glob('*/fares.csv'))[0]).Fare.mean())\n" +
	"a = bind('The mean fare is {m:.2f}. @mean_fare[{m:.2f}]', m=m)\n" +
	"submit_answer([a, infer([a], 'The passengers were rich.', 'The mean fare of the premise says so.')])")}

func newWire(t *testing.T) wire {
	t.Helper()
	w := wire{demo: filepath.Join(t.TempDir(), "demo")}
	script, err := scripted.LoadScript(writeScript(t, scriptLine{"q1", fares}, scriptLine{"1", fares}))
	require.NoError(t, err)
	server, err := scripted.New(script, scripted.Defaults())
	require.NoError(t, err)
	policy, stop, err := server.Start(t.Context())
	require.NoError(t, err)
	t.Cleanup(stop)
	w.hosts = strings.NewReplacer("http://HOST:8001/v1", sceptic(t), "http://HOST:8000", policy, "https://HOST", chatTeacher(t, fares).URL,
		"127.0.0.1:50051", serveFeed(t, &stillRun{}, config.Feed{}))
	execute(t, "the demo", dabenchArgs(w.demo, root+"examples/dabench/script.jsonl", "--limit", "1", "--group-size", "2"))
	return w
}

// page is the wire with files for one page.
func (w wire) page(t *testing.T) wire {
	t.Helper()
	w.dir = t.TempDir()
	const table = "name,Fare\nA,34.0\nB,35.3\n"
	for name, text := range map[string]string{
		"prompts.jsonl":      `{"id":"q1","question":"The mean fare, as @mean_fare[x]?","files":["fares.csv"],"answer":[["mean_fare","34.65"]],"data_source":"dabench"}` + "\n",
		"rl_data.json":       `[{"id":1,"source":"KramaBench","question":"What is the mean?","answer":"34.65","qtype":"numeric","files":["fares.csv"],"dir_id":"d_1"}]`,
		"data/fares.csv":     table,
		"data/d_1/fares.csv": table,
		"table.csv":          table,
		"first.py":           "x = 6 * 7\n",
		"second.py":          "print(x, open('table.csv').read())\n",
		"DIR/tokenizer.json": string(scripted.TokenizerJSON()),
	} {
		path := filepath.Join(w.dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	return w
}

// args turn the words of a documented command into those that run here: what the repository holds is taken from there, every
// other file from the page's directory.
func (w wire) args(line string) []string {
	words := strings.Fields(line)[1:]
	for i, word := range words {
		path := strings.TrimPrefix(word, "script:")
		_, err := os.Stat(root + path)
		switch {
		case word == "NAME":
			words[i] = "scripted"
		case word == "ROLLOUT_ID":
			words[i] = "local/0-0/0"
		case word == "out/demo", word == "out/other":
			words[i] = w.demo
		case word == "out/baseline":
			words[i] = filepath.Join(w.dir, "out/eval")
		case err == nil && strings.Contains(path, "/"):
			words[i] = strings.TrimSuffix(word, path) + root + path
		case strings.HasPrefix(word, "out/"),
			slices.Contains([]string{".csv", ".jsonl", ".json", ".py"}, filepath.Ext(word)),
			i > 0 && slices.Contains([]string{"--data-dir", "--blob", "--tokenizer"}, words[i-1]):
			words[i] = filepath.Join(w.dir, word)
		default:
			words[i] = w.hosts.Replace(word)
		}
	}
	return words
}

// run runs one documented command as it stands, but with the interpreter of the tests and one item of a benchmark.
func (w wire) run(t *testing.T, line string) {
	t.Helper()
	args := w.args(line)
	cmd, _, err := newRoot().Find(args)
	require.NoError(t, err, line)
	if cmd.Name() == "view" {
		address := startView(t, args[1:]...)
		code, page := fetch(t, &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, address)
		require.Equal(t, http.StatusOK, code, line)
		require.Contains(t, page, "app.js", line)
		return
	}
	if cmd.Flags().Lookup("python") != nil && !slices.Contains(args, "--python") {
		args = append(args, "--python", root+".venv/sandbox/bin/python")
	}
	if cmd.CommandPath() == "verigraph eval run" {
		args = append(args, "--limit", "1")
	}
	stdout := execute(t, line, args)
	if cmd.CommandPath() == "verigraph run" {
		require.Regexp(t, `submitted +\d+ \(100\.0 %\)`, stdout, line)
	}
}

// execute runs a program's words within the limit and returns what it prints.
func execute(t *testing.T, line string, args []string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wireLimit)
	defer cancel()
	var stdout, stderr bytes.Buffer
	program := newRoot()
	program.SetArgs(args)
	program.SetOut(&stdout)
	program.SetErr(&stderr)
	code := cli.ExitCode("verigraph", program.ExecuteContext(ctx), &stderr)
	require.NoError(t, ctx.Err(), "%s: not done within %s\n%s", line, wireLimit, stderr.String())
	require.Zero(t, code, "%s\n%s%s", line, stderr.String(), stdout.String())
	return stdout.String()
}

// Every command of every page runs here, in another test that is named, or is named as one that can't.
func TestEveryCommandOfTheDocumentsRuns(t *testing.T) {
	t.Parallel()
	here := commandsThatRunHere(t)
	require.GreaterOrEqual(t, len(here), 8, "pages with commands that run here")
	w := newWire(t)
	for page, lines := range here {
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			w := w.page(t)
			for _, line := range lines { // one after the other: a later one may read what an earlier one wrote
				t.Run(line, func(t *testing.T) { w.run(t, line) })
			}
		})
	}
}
