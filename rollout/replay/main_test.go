package replay_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/internal/patience"
	"github.com/verigraph/verigraph/rollout/replay"
	"github.com/verigraph/verigraph/rollout/rollouttest"
	"github.com/verigraph/verigraph/sandbox"
)

var stage *rollouttest.Stage

const python = "../../.venv/sandbox/bin/python"

func TestMain(m *testing.M) {
	sandbox.MaybeInit()
	var err error
	if stage, err = rollouttest.Open("../.."); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if err := stage.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if code == 0 {
		if err := patience.Leak(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

const question = "What is the mean fare? Use alpha = 0.05. Report @mean_fare[value]."

// fares is a small table that the standard library reads, so that sessions start fast.
const fares = `fare,class
7.25,3
71.28,1
7.92,3
53.10,1
8.05,3
8.46,3
51.86,1
21.08,3
11.13,3
30.07,2
16.70,3
26.55,1
`

// read is the first cell of most plays.
const read = "import csv, statistics\nrows = list(csv.DictReader(open('fares.csv')))\nfares = [float(r['fare']) for r in rows if r['fare']]\n"

func files(t *testing.T, contents map[string]string) map[string]string {
	t.Helper()
	dir := t.TempDir()
	out := map[string]string{}
	for name, content := range contents {
		path := filepath.Join(dir, fmt.Sprint(len(out)))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
		out[name] = path
	}
	return out
}

// play runs cells on the fares and returns the graph with the play.
func play(t *testing.T, cells ...string) (evidence.Export, rollouttest.Play) {
	t.Helper()
	p := rollouttest.Play{Question: question, Files: files(t, map[string]string{"fares.csv": fares}), Cells: cells, Seed: 11}
	out, err := stage.Run(t.Context(), p)
	require.NoError(t, err)
	return out.Trajectory.Graph, p
}

func check(t *testing.T, g *evidence.Export, p rollouttest.Play, sensitivity bool) []evidence.ReplayResult {
	t.Helper()
	r := &replay.Replayer{Sandbox: stage.Sandbox, Sensitivity: sensitivity, Python: python}
	results, err := r.Replay(t.Context(), g, p.Question, p.Spec())
	require.NoError(t, err)
	g.ApplyReplay(results)
	require.NoError(t, g.Validate())
	return results
}
