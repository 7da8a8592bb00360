package sandbox_test

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/sandbox"
)

// nobody is a host that refuses every claim, for cells that make none.
type nobody struct{}

func (nobody) Completed(evidence.Report) {}
func (nobody) Taint(int, string)         {}
func (nobody) Bind(evidence.BindRequest) (string, string, *evidence.Refusal) {
	return "", "", &evidence.Refusal{Message: "no claims here"}
}

func (nobody) Infer(evidence.InferRequest) (string, string, *evidence.Refusal) {
	return "", "", &evidence.Refusal{Message: "no claims here"}
}

func (nobody) Submit(evidence.SubmitRequest) *evidence.Refusal {
	return &evidence.Refusal{Message: "no claims here"}
}

// A session keeps its names from cell to cell. What the model's code did is a status; an error would be ours.
func ExampleSandbox() {
	cfg := sandbox.Defaults()
	cfg.Python, _ = filepath.Abs("../.venv/sandbox/bin/python")
	cfg.MaxSessions, cfg.MinTier = 1, sandbox.TierConfined
	cfg.Preload = []string{"math"} // these cells need no pandas
	box, err := sandbox.New(cfg)
	if err != nil {
		panic(err)
	}
	defer box.Close()
	ctx := context.Background()
	session, err := box.Start(ctx, sandbox.Spec{})
	if err != nil {
		panic(err)
	}
	defer session.Close()
	for _, cell := range []string{"x = 6 * 7", "print(x)", "x / 0"} {
		r, err := session.Run(ctx, cell, nobody{})
		fmt.Printf("%s %q %s %v\n", r.Status, r.Output, r.Exception, err)
	}
	// Output:
	// ok ""  <nil>
	// ok "42\n"  <nil>
	// exception "" ZeroDivisionError <nil>
}
