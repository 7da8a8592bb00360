package dataset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/verigraph/verigraph/dataset/table"
	"github.com/verigraph/verigraph/task"
)

// Format names the shape of a prompts file.
type Format string

// Formats of a prompts file.
const (
	FormatJSONL      Format = "jsonl"
	FormatDABench    Format = "dabench"
	FormatVerl       Format = "verl"
	FormatVeriGraph  Format = "verigraph"
	FormatTableBench Format = "tablebench"
	FormatDABStep    Format = "dabstep"
	FormatCSV        Format = "csv"
	FormatResearch   Format = "dabstep_research"
	FormatDSBench    Format = "dsbench"
	FormatQRData     Format = "qrdata"
)

// Formats lists every format in the order in which messages and help texts name them.
var Formats = []Format{
	FormatJSONL, FormatDABench, FormatVerl, FormatVeriGraph, FormatTableBench, FormatDABStep, FormatCSV,
	FormatResearch, FormatDSBench, FormatQRData,
}

// ImportConfig says what to import.
type ImportConfig struct {
	// Prompts is the prompts file.
	Prompts string
	Format  Format
	// Labels is the labels file of a benchmark that keeps its answers apart; empty for none.
	Labels string
	// DataDir holds the data files; empty means the directory of Prompts.
	DataDir string
	// TablesDir gets the tables that stand inside a TableBench file, as CSV; it is then the data directory.
	TablesDir string
	// Table declares encoding, delimiter and header of a CSV prompts file.
	Table table.Options
	// ReadParquet reads the rows of a Parquet file as JSON objects; nil where Parquet is not supported.
	ReadParquet func(ctx context.Context, path string) ([]json.RawMessage, error)
	// Limit keeps the first so many prompts; 0 keeps all. Files of the others are not needed.
	Limit int
	// Without names files of a shared context (DABStep) that are not at hand; questions are asked without them.
	Without []string
}

// Validate reports every unusable setting.
func (c ImportConfig) Validate() error {
	var errs []error
	if c.Prompts == "" {
		errs = append(errs, errors.New("prompts: no file given"))
	}
	switch {
	case !slices.Contains(Formats, c.Format):
		errs = append(errs, fmt.Errorf("format: %q is not one of %s", c.Format, FormatNames()))
	case c.Format != FormatDABench && c.Labels != "":
		errs = append(errs, fmt.Errorf("labels: format %s keeps the answer in the prompts file", c.Format))
	case c.Format == FormatTableBench && c.TablesDir == "":
		errs = append(errs, errors.New("tables: a directory for the tables inside a tablebench file is needed; import it with verigraph import"))
	}
	if c.Limit < 0 {
		errs = append(errs, fmt.Errorf("limit: %d is negative", c.Limit))
	}
	return errors.Join(errs...)
}

// FormatNames lists the formats for a message.
func FormatNames() string {
	names := make([]string, len(Formats))
	for i, f := range Formats {
		names[i] = string(f)
	}
	return strings.Join(names, ", ")
}

// item is one imported line before its files are looked up.
type item struct {
	line      int
	filesKey  string // the key that named the files
	files     []string
	prompt    task.Prompt
	reference *task.Reference
}

// Imported is what a prompts file held.
type Imported struct {
	// Prompts keep the order of the file.
	Prompts []task.Prompt
	// References are the reference answers; a prompt without an answer has none.
	References []task.Reference
	// Paths goes from the SHA-256 of a data file (lower-case hex) to its path.
	Paths map[string]string
	// FileNames are the names of each prompt's files below DataDir, in the order of its Files.
	FileNames [][]string
	DataDir   string
}

// Import reads prompts, their reference answers and their data files; see Imported. What is wrong with
// the input comes back as joined *InputError values, all of them at once.
func Import(ctx context.Context, c ImportConfig) ([]task.Prompt, []task.Reference, map[string]string, error) {
	in, err := ImportAll(ctx, c)
	return in.Prompts, in.References, in.Paths, err
}

// ImportAll is Import with the names of the files as the prompts file has them.
func ImportAll(ctx context.Context, c ImportConfig) (Imported, error) {
	if err := c.Validate(); err != nil {
		return Imported{}, fmt.Errorf("import: %w", err)
	}
	if c.Format == FormatTableBench {
		c.DataDir = c.TablesDir
	}
	if c.DataDir == "" {
		c.DataDir = filepath.Dir(c.Prompts)
	}
	var p problems
	items := readers[c.Format](ctx, c, &p)
	if c.Limit > 0 && len(items) > c.Limit {
		items = items[:c.Limit]
	}
	in := Imported{Paths: resolveFiles(ctx, c, items, &p), DataDir: c.DataDir}
	if err := errors.Join(ctx.Err(), p.err()); err != nil {
		return Imported{}, err
	}
	for _, it := range items {
		in.Prompts, in.FileNames = append(in.Prompts, it.prompt), append(in.FileNames, it.files)
		if it.reference != nil {
			in.References = append(in.References, *it.reference)
		}
	}
	return in, nil
}

// readers read a prompts file into items without duplicate ids.
var readers = map[Format]func(context.Context, ImportConfig, *problems) []item{
	FormatJSONL:      importJSONL,
	FormatDABench:    importDABench,
	FormatVerl:       importVerl,
	FormatVeriGraph:  importVeriGraph,
	FormatTableBench: importTableBench,
	FormatDABStep:    importDABStep,
	FormatCSV:        importCSV,
	FormatResearch:   importResearch,
	FormatDSBench:    importDSBench,
	FormatQRData:     importQRData,
}

// dropDuplicates reports every id that appears again and keeps the first.
func dropDuplicates(file string, items []item, p *problems) []item {
	first := make(map[string]int, len(items))
	kept := items[:0]
	for _, it := range items {
		if line, ok := first[it.prompt.ID]; ok {
			p.addf(file, it.line, "id", "%q stands on line %d already", it.prompt.ID, line)
			continue
		}
		first[it.prompt.ID] = it.line
		kept = append(kept, it)
	}
	return kept
}
