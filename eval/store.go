package eval

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/verigraph/verigraph/dataset/archive"
	"github.com/verigraph/verigraph/reward/items"
	"github.com/verigraph/verigraph/trajectory"
)

// Manifest is evaluation.json: what an evaluation directory holds. Each benchmark's rollouts lie in a run's
// output directory of its name.
type Manifest struct {
	Setup Setup `json:"setup"`
	Runs  []Run `json:"runs"`
}

const manifestName = "evaluation.json"

// ReadManifest reads a directory's manifest; the error wraps fs.ErrNotExist where there is none.
func ReadManifest(dir string) (Manifest, error) {
	var m Manifest
	path := filepath.Join(dir, manifestName)
	data, err := os.ReadFile(path)
	if err != nil {
		return m, fmt.Errorf("evaluation: %w", err)
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return m, fmt.Errorf("evaluation: %s: %w", path, err)
	}
	return m, nil
}

// OpenManifest opens a directory for more rollouts of setup: a new one, or one of the same setup. It writes
// nothing.
func OpenManifest(dir string, setup Setup) (Manifest, error) {
	m, err := ReadManifest(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
			return m, fmt.Errorf("%s is not empty and holds no evaluation", dir)
		}
		return Manifest{Setup: setup}, nil
	case err != nil:
		return m, err
	}
	if old := m.Setup.generated(); old != setup.generated() {
		return m, fmt.Errorf("%s holds an evaluation of another setup: %+v, not %+v", dir, old, setup.generated())
	}
	return m, nil
}

// generated is what the rollouts depend on: the rest may change when they are scored again.
func (s Setup) generated() Setup {
	return Setup{Agent: s.Agent, Model: s.Model, API: s.API, Samples: s.Samples, Seed: s.Seed, Sampling: s.Sampling}
}

// Run returns the benchmark's entry, new ones too.
func (m *Manifest) Run(benchmark string) *Run {
	i := slices.IndexFunc(m.Runs, func(r Run) bool { return r.Benchmark == benchmark })
	if i < 0 {
		m.Runs = append(m.Runs, Run{Benchmark: benchmark})
		i = len(m.Runs) - 1
	}
	return &m.Runs[i]
}

// Write replaces the manifest.
func (m Manifest) Write(dir string) error {
	return replace(filepath.Join(dir, manifestName), func(w io.Writer) error {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(m)
	})
}

// replace writes a file beside its place first, so that a kill leaves the old one or the new one.
func replace(path string, write func(io.Writer) error) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("evaluation: %w", err)
	}
	f, err := os.Create(path + ".tmp")
	if err != nil {
		return fmt.Errorf("evaluation: %w", err)
	}
	w := bufio.NewWriter(f)
	if err := errors.Join(write(w), w.Flush(), f.Close()); err != nil {
		return fmt.Errorf("evaluation: %s: %w", path, err)
	}
	return os.Rename(path+".tmp", path)
}

// Collect measures every sample of every item of one benchmark's directory, in the items' order; parallel
// rollouts at a time.
func (m Measuring) Collect(ctx context.Context, dir string, samples, parallel int) ([]Record, error) {
	all, err := items.Read(dir)
	if err != nil {
		return nil, err
	}
	files := map[string]string{}
	entries, err := archive.ReadIndex(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		files[key(e.PromptID, e.Sample)] = e.File
	}
	records := make([]Record, len(all)*samples)
	errs := make([]error, len(records))
	slots := make(chan struct{}, max(parallel, 1))
	var wg sync.WaitGroup
	for i, it := range all {
		for k := range samples {
			at := i*samples + k
			file, ok := files[key(it.Prompt.ID, k)]
			if !ok {
				records[at] = m.MissingRecord(it, k)
				continue
			}
			wg.Go(func() {
				slots <- struct{}{}
				defer func() { <-slots }()
				if ctx.Err() == nil {
					records[at], errs[at] = m.stored(ctx, it, filepath.Join(dir, file))
				}
			})
		}
	}
	wg.Wait()
	return records, errors.Join(append(errs, ctx.Err())...)
}

func key(item string, sample int) string { return fmt.Sprintf("%d/%s", sample, item) }

func (m Measuring) stored(ctx context.Context, it items.Item, path string) (Record, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Record{}, fmt.Errorf("evaluation: %w", err)
	}
	var s trajectory.Scored
	if err := json.Unmarshal(data, &s); err != nil {
		return Record{}, fmt.Errorf("evaluation: %s: %w", path, err)
	}
	return m.Record(ctx, it, &s.Trajectory)
}

const recordsName = "records.jsonl"

// WriteRecords keeps the records, one a line.
func WriteRecords(dir string, records []Record) error {
	return replace(filepath.Join(dir, recordsName), func(w io.Writer) error {
		enc := json.NewEncoder(w)
		for _, r := range records {
			if err := enc.Encode(r); err != nil {
				return err
			}
		}
		return nil
	})
}

// ReadRecords reads them back.
func ReadRecords(dir string) ([]Record, error) {
	path := filepath.Join(dir, recordsName)
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("evaluation: %w", err)
	}
	defer f.Close()
	var out []Record
	dec := json.NewDecoder(f)
	for dec.More() {
		var r Record
		if err := dec.Decode(&r); err != nil {
			return nil, fmt.Errorf("evaluation: %s: record %d: %w", path, len(out)+1, err)
		}
		out = append(out, r)
	}
	return out, nil
}

// WriteReport writes report.md, report.json and report.html.
func WriteReport(dir string, r Report) error {
	return errors.Join(
		replace(filepath.Join(dir, "report.md"), func(w io.Writer) error { return WriteMarkdown(w, r) }),
		replace(filepath.Join(dir, "report.html"), func(w io.Writer) error { return WriteHTML(w, r) }),
		replace(filepath.Join(dir, "report.json"), func(w io.Writer) error {
			enc := json.NewEncoder(w)
			enc.SetIndent("", "  ")
			return enc.Encode(r)
		}),
	)
}
