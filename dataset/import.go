package dataset

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/verigraph/verigraph/task"
)

// Format names the shape of a prompts file.
type Format string

// Formats of a prompts file.
const (
	FormatJSONL   Format = "jsonl"
	FormatDABench Format = "dabench"
)

// ImportConfig says what to import.
type ImportConfig struct {
	// Prompts is the prompts file.
	Prompts string
	Format  Format
	// Labels is the labels file of a benchmark that keeps its answers apart; empty for none.
	Labels string
	// DataDir holds the data files; empty means the directory of Prompts.
	DataDir string
	// Limit keeps the first so many prompts; 0 keeps all. Files of the others are not needed.
	Limit int
}

// Validate reports every unusable setting.
func (c ImportConfig) Validate() error {
	var errs []error
	if c.Prompts == "" {
		errs = append(errs, errors.New("prompts: no file given"))
	}
	switch c.Format {
	case FormatDABench:
	case FormatJSONL:
		if c.Labels != "" {
			errs = append(errs, fmt.Errorf("labels: format %s keeps the answer in the prompts file", c.Format))
		}
	default:
		errs = append(errs, fmt.Errorf("format: %q is not one of %s, %s", c.Format, FormatJSONL, FormatDABench))
	}
	if c.Limit < 0 {
		errs = append(errs, fmt.Errorf("limit: %d is negative", c.Limit))
	}
	return errors.Join(errs...)
}

// item is one imported line before its files are looked up.
type item struct {
	line      int
	filesKey  string // the key that named the files
	files     []string
	prompt    task.Prompt
	reference *task.Reference
}

// Import reads prompts, their reference answers and their data files. The map goes from the
// SHA-256 of a data file (lower-case hex) to its path. Prompts keep the order of the file; a prompt
// without an answer has no reference. What is wrong with the input comes back as joined
// *InputError values, all of them at once.
func Import(ctx context.Context, c ImportConfig) ([]task.Prompt, []task.Reference, map[string]string, error) {
	if err := c.Validate(); err != nil {
		return nil, nil, nil, fmt.Errorf("import: %w", err)
	}
	if c.DataDir == "" {
		c.DataDir = filepath.Dir(c.Prompts)
	}
	var p problems
	var items []item
	switch c.Format {
	case FormatDABench:
		items = importDABench(ctx, c, &p)
	default:
		items = importJSONL(ctx, c, &p)
	}
	if c.Limit > 0 && len(items) > c.Limit {
		items = items[:c.Limit]
	}
	paths := resolveFiles(ctx, c, items, &p)
	if err := errors.Join(ctx.Err(), p.err()); err != nil {
		return nil, nil, nil, err
	}
	prompts := make([]task.Prompt, 0, len(items))
	references := make([]task.Reference, 0, len(items))
	for _, it := range items {
		prompts = append(prompts, it.prompt)
		if it.reference != nil {
			references = append(references, *it.reference)
		}
	}
	return prompts, references, paths, nil
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
