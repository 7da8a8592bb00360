// Package build runs a whole build: scan every record, decide over all of them, write the parts.
//
// Invariants:
//
//   - The same inputs, configuration and seed give the same bytes, however often the build was killed: a
//     part is written under another name and renamed, and what a part holds is a function of the inputs alone.
//   - Memory is bounded by a chunk of records and by some 600 bytes for each record read.
//   - Every record read is taken or counted by one reason; the manifest's counts are those of the files.
package build

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/verigraph/verigraph/sft"
	"github.com/verigraph/verigraph/sft/output"
	"github.com/verigraph/verigraph/sft/scan"
	"github.com/verigraph/verigraph/sft/source"
	"github.com/verigraph/verigraph/sft/tokens"
)

// Options are one build.
type Options struct {
	// In are directories and files; see source.Open.
	In     []string
	Config sft.Config
	Out    string
	// Progress gets lines for a person; nil writes none.
	Progress io.Writer
	// Kept, when set, is called whenever a part of the work was made and is kept: a build that ends there goes on
	// behind it.
	Kept func()
	// Card writes the data card beside the manifest, into a directory that holds all other files.
	Card func(dir string, m *Manifest) error
}

// workName is the directory of what a killed build goes on from.
const workName = ".work"

type builder struct {
	Options
	sources  []*source.Source
	tokens   *tokens.Renderer
	escaper  *sft.Escaper
	benchs   *scan.Benchmarks
	formats  []output.Format
	workers  int
	progress progress
}

// Run builds, or goes on with a build of the same inputs and configuration.
func Run(ctx context.Context, o Options) (*Manifest, error) {
	if err := o.Config.Validate(); err != nil {
		return nil, err
	}
	b := &builder{
		Options: o, escaper: sft.NewEscaper(nil), formats: output.Formats(o.Config.Outputs), workers: runtime.GOMAXPROCS(0),
		progress: progress{w: o.Progress},
	}
	var err error
	if b.sources, err = open(o.In); err != nil {
		return nil, err
	}
	if done, err := b.claim(); done != nil || err != nil {
		return done, err
	}
	if b.Config.Target.Tokenizer != "" {
		if b.tokens, err = tokens.New(b.Config.Target, b.escaper); err != nil {
			return nil, err
		}
	}
	if b.benchs, err = scan.Load(ctx, b.Config.Decontaminate); err != nil {
		return nil, err
	}
	facts, err := b.scan(ctx)
	if err != nil {
		return nil, err
	}
	plan := b.decide(facts)
	parts, err := b.write(ctx, facts, plan)
	if err != nil {
		return nil, err
	}
	return b.finish(facts, plan, parts)
}

func open(paths []string) ([]*source.Source, error) {
	if len(paths) == 0 {
		return nil, errors.New("--in: nothing to read")
	}
	var out []*source.Source
	for _, p := range paths {
		s, err := source.Open(p)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// claim takes the output directory: new or empty, or of this very build. It gives the manifest of a build
// that is finished.
func (b *builder) claim() (*Manifest, error) {
	key, err := b.key()
	if err != nil {
		return nil, err
	}
	path := filepath.Join(b.Out, workName, "build.json")
	old, err := os.ReadFile(path)
	if err == nil {
		if string(old) != string(key) {
			return nil, fmt.Errorf("--out: %s holds an unfinished build of other inputs or another configuration; choose another directory", b.Out)
		}
		return nil, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("--out: %w", err)
	}
	if m, err := ReadManifest(b.Out); err == nil {
		if m.Build != digest(key) {
			return nil, fmt.Errorf("--out: %s holds a build of other inputs or another configuration; choose another directory", b.Out)
		}
		return m, os.RemoveAll(filepath.Join(b.Out, workName))
	}
	if entries, err := os.ReadDir(b.Out); err == nil && !onlyWork(entries) {
		return nil, fmt.Errorf("--out: %s is not empty and holds no build", b.Out)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("--out: %w", err)
	}
	return nil, writeFile(path, key)
}

// onlyWork: a build may be killed before it wrote its first file.
func onlyWork(entries []os.DirEntry) bool {
	for _, e := range entries {
		if e.Name() != workName {
			return false
		}
	}
	return true
}

// key is what makes two builds the same.
func (b *builder) key() ([]byte, error) {
	type input struct{ Name, Fingerprint string }
	k := struct {
		Schema int
		Config sft.Config
		Inputs []input
	}{Schema: Schema, Config: b.Config}
	for _, s := range b.sources {
		k.Inputs = append(k.Inputs, input{s.Name, s.Fingerprint})
	}
	return json.MarshalIndent(k, "", " ")
}

// writeFile puts a whole file in place at once.
func writeFile(path string, data []byte) error {
	tmp := path + ".tmp"
	if err := os.WriteFile(tmp, data, 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

func (b *builder) kept() {
	if b.Kept != nil {
		b.Kept()
	}
}
