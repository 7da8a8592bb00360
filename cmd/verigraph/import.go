package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/verigraph/verigraph/blob"
	"github.com/verigraph/verigraph/cmd/internal/cli"
	"github.com/verigraph/verigraph/dataset"
	"github.com/verigraph/verigraph/dataset/promptfile"
)

func newImport() *cobra.Command {
	var o importOptions
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Turn prompts of another format into JSONL or verl Parquet, and check their data files",
		Example: "  verigraph import rl_data.json --format verigraph --data-dir context --out prompts.jsonl --blob store\n" +
			"  verigraph import TableBench.jsonl --format tablebench --tables tables --out train.parquet\n" +
			"  verigraph import tasks.jsonl --data-dir data --encoding 'sales_*.csv=latin-1' --out prompts.jsonl",
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args[0]) },
	}
	f := cmd.Flags()
	f.StringVar(&o.format, "format", string(dataset.FormatJSONL), "format of FILE: "+dataset.FormatNames())
	f.StringVar(&o.out, "out", "", "file to write: .jsonl, or .parquet for verl")
	f.StringVar(&o.config.Labels, "labels", "", "labels file (dabench)")
	f.StringVar(&o.config.DataDir, "data-dir", "", "directory of the data files")
	f.StringVar(&o.config.TablesDir, "tables", "", "directory for the tables inside a tablebench file (default: beside --out)")
	f.StringSliceVar(&o.config.Without, "without", nil, "files of a shared context that are not at hand (dabstep, dabstep_research)")
	f.StringVar(&o.blob, "blob", "", "object store that gets the data files by hash")
	f.StringVar(&o.split, "split", "train", "split to state in verl Parquet")
	f.StringVar(&o.report, "report", "", "write what was found out about every data file there, as JSON")
	f.IntVar(&o.config.Limit, "limit", 0, "take only the first prompts")
	f.StringArrayVar(&o.encodings, "encoding", nil, "encoding of files, as PATTERN=NAME (repeatable)")
	f.StringArrayVar(&o.delimiters, "delimiter", nil, "delimiter of files, as PATTERN=CHARACTER (repeatable)")
	f.StringArrayVar(&o.headers, "header", nil, "line of the header of files, as PATTERN=LINE (repeatable)")
	return cmd
}

type importOptions struct {
	config                         dataset.ImportConfig
	format, out, blob, split       string
	report                         string
	encodings, delimiters, headers []string
}

func (o *importOptions) run(cmd *cobra.Command, file string) error {
	ctx := cmd.Context()
	declared, err := parseDeclarations(o.encodings, o.delimiters, o.headers)
	if err != nil {
		return cli.Usage(err)
	}
	extension := filepath.Ext(o.out)
	if extension != ".jsonl" && extension != ".parquet" {
		return cli.Usage(fmt.Errorf("--out: %q ends neither in .jsonl nor in .parquet", o.out))
	}
	o.config.Prompts, o.config.Format = file, dataset.Format(o.format)
	o.config.Table, o.config.ReadParquet = declared.of(file), promptfile.ReadParquet
	if o.config.Format == dataset.FormatTableBench && o.config.TablesDir == "" {
		o.config.TablesDir = strings.TrimSuffix(o.out, extension) + "_tables"
	}
	in, err := dataset.ImportAll(ctx, o.config)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return cli.Usage(err)
	}
	if len(in.Prompts) == 0 {
		return cli.Usage(fmt.Errorf("%s holds no prompt", file))
	}
	checked, refused := checkFiles(in, declared)
	describe(cmd.ErrOrStderr(), checked)
	if err := o.writeReport(checked); err != nil {
		return err
	}
	if refused != nil {
		return cli.Usage(refused)
	}
	if err := o.store(cmd, in); err != nil {
		return err
	}
	if err := o.write(in, extension); err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%d prompts (%d with a reference answer), %d data files: %s\n",
		len(in.Prompts), len(in.References), len(in.Paths), o.out)
	return err
}

// store puts the data files into the object store under their hash.
func (o *importOptions) store(cmd *cobra.Command, in dataset.Imported) (err error) {
	if o.blob == "" {
		return nil
	}
	store, err := blob.Open(cmd.Context(), o.blob)
	if err != nil {
		return cli.Usage(err)
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	for digest, path := range in.Paths {
		if err := store.PutFile(cmd.Context(), digest, path); err != nil {
			return err
		}
	}
	return nil
}

// write puts the prompts beside their place first, so that a failure leaves no half file.
func (o *importOptions) write(in dataset.Imported, extension string) error {
	return replaceFile(o.out, func(w io.Writer) error {
		if extension == ".parquet" {
			return promptfile.WriteVerl(w, in, o.split)
		}
		return promptfile.WriteJSONL(w, in)
	})
}

func (o *importOptions) writeReport(checked []checkedFile) error {
	if o.report == "" {
		return nil
	}
	return replaceFile(o.report, func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		return e.Encode(checked)
	})
}

func replaceFile(path string, write func(io.Writer) error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	err = errors.Join(write(file), file.Chmod(0o644), file.Sync(), file.Close())
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.Rename(file.Name(), path)
}
