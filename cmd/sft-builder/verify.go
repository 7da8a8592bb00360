package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/verigraph/verigraph/cmd/internal/cli"
	"github.com/verigraph/verigraph/sft/build"
	"github.com/verigraph/verigraph/sft/check"
)

// readersScript loads the files in pyarrow, ms-swift and verl, whichever the interpreter has.
//
//go:embed readers.py
var readersScript string

type verifyOptions struct {
	pythons []string
	model   string
	limit   int
	json    bool
}

func newVerify() *cobra.Command {
	var o verifyOptions
	cmd := &cobra.Command{
		Use:   "verify DIR",
		Short: "Check every invariant on the finished files of a corpus",
		Example: `  sft-builder verify out/sft
  sft-builder verify out/sft --python .venv/verl/bin/python --python .venv/swift/bin/python --model MODEL_DIR`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runVerify(cmd.Context(), o, args[0], cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&o.pythons, "python", nil, "interpreter with pyarrow, ms-swift or verl, whose readers then load the files; repeatable")
	f.StringVar(&o.model, "model", "", "directory with the target's tokenizer for those readers, as transformers loads it")
	f.IntVar(&o.limit, "limit", 200, "rows of each file that ms-swift and verl render; 0 renders all")
	cli.OutputFlag(f, &o.json, "the report")
	return cmd
}

func runVerify(ctx context.Context, o verifyOptions, dir string, stdout io.Writer) error {
	report, m, err := check.Dir(ctx, dir)
	if err != nil {
		return cli.Usage(err)
	}
	lines := []string{}
	for _, python := range o.pythons {
		out, err := readers(ctx, o, python, dir, m)
		if err != nil {
			report.Problems = append(report.Problems, check.Problem{Where: python, What: err.Error()})
			continue
		}
		lines = append(lines, out...)
	}
	if o.json {
		if err := json.NewEncoder(stdout).Encode(report); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(stdout, "%s: %d files, %d rows\n", dir, report.Files, report.Rows)
		for _, l := range lines {
			fmt.Fprintln(stdout, l)
		}
		for _, p := range report.Problems {
			fmt.Fprintln(stdout, p)
		}
	}
	if n := len(report.Problems) + report.More; n > 0 {
		return fmt.Errorf("%d problems in %s", n, dir)
	}
	if !o.json {
		fmt.Fprintln(stdout, "all invariants hold")
	}
	return nil
}

// readers runs the script in one interpreter; it says what it loaded, or fails with what does not agree.
func readers(ctx context.Context, o verifyOptions, python, dir string, m *build.Manifest) ([]string, error) {
	type file struct {
		Path, Format string
		Rows         int
	}
	job := struct {
		Dir, Model, ChatTemplate, EndOfTurn, Rendering string
		Limit                                          int
		TrainEnd                                       bool
		Files                                          []file
	}{
		Dir: dir, Model: o.model, Limit: o.limit, TrainEnd: m.Config.Target.TrainEndOfTurn, EndOfTurn: "<|im_end|>",
		Rendering: string(m.Config.Target.Rendering),
	}
	if m.Config.Outputs.Verl {
		job.ChatTemplate = filepath.Join(dir, "verl", "chat_template.jinja")
	}
	for _, f := range m.Files {
		job.Files = append(job.Files, file{filepath.Join(dir, filepath.FromSlash(f.Path)), f.Format, f.Rows})
	}
	in, err := json.Marshal(job)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, python, "-c", readersScript)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &out, &errs
	if err := cmd.Run(); err != nil {
		text := strings.TrimSpace(errs.String())
		if len(text) > 2000 {
			text = "…" + text[len(text)-2000:]
		}
		return nil, errors.Join(err, errors.New(text))
	}
	return strings.Split(strings.TrimSpace(out.String()), "\n"), nil
}
