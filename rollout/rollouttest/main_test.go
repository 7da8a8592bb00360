package rollouttest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/internal/patience"
	"github.com/verigraph/verigraph/rollout/rollouttest"
	"github.com/verigraph/verigraph/sandbox"
)

var stage *rollouttest.Stage

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

// prelude reads four numbers and makes two claims.
const prelude = `import csv, statistics
xs = [float(r["x"]) for r in csv.DictReader(open("t.csv"))]
m = statistics.mean(xs)
a = bind("The mean is {m:.2f}.", m=m)
b = bind("There are {n} values.", n=len(xs))
`

// play runs cells after the prelude, in one session.
func play(t *testing.T, cells ...string) rollouttest.Played {
	t.Helper()
	path := filepath.Join(t.TempDir(), "t")
	require.NoError(t, os.WriteFile(path, []byte("x\n1.5\n2.5\n4.25\n9\n"), 0o644))
	out, err := stage.Run(t.Context(), rollouttest.Play{
		Question: "What is the mean?", Files: map[string]string{"t.csv": path}, Cells: append([]string{prelude}, cells...), Seed: 1,
	})
	require.NoError(t, err)
	require.Equal(t, "ok", string(out.Results[0].Status), out.Results[0].Traceback)
	return out
}
