// Package source reads what a corpus is built from: output directories of runs, Parquet batches, and the
// public layout of finished samples (JSON array or JSON lines).
//
// Invariants: the order of records depends on the content alone and not on when a run finished what; a file
// that cannot be read is an error that names it and its line, never a record that is missing.
package source

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/verigraph/verigraph/sft"
)

// Ref is a record that may be loaded later. Load is safe to call once, from any goroutine.
type Ref struct {
	ID   string
	Load func() (sft.Record, error)
}

// Source is one --in argument.
type Source struct {
	// Path is as given; Name is its last element, which stands in the manifest.
	Path, Name string
	// Fingerprint says cheaply whether a build that goes on still reads the same files: names and sizes.
	Fingerprint string
	each        func() iter.Seq2[Ref, error]
}

// Refs are the records in their order.
func (s *Source) Refs() iter.Seq2[Ref, error] { return s.each() }

// Open looks at a path: a run's output directory, a directory of Parquet batches, or one file.
func Open(path string) (*Source, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("--in: %w", err)
	}
	s := &Source{Path: path, Name: filepath.Base(filepath.Clean(path))}
	if !info.IsDir() {
		return openFile(s)
	}
	switch _, err := os.Stat(filepath.Join(path, indexName)); {
	case err == nil:
		return openArchive(s)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("--in: %w", err)
	}
	files, err := filepath.Glob(filepath.Join(path, "*.parquet"))
	if more, _ := filepath.Glob(filepath.Join(path, "batches", "*.parquet")); err == nil {
		files = append(files, more...)
	}
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("--in: %s holds neither %s nor Parquet files", path, indexName)
	}
	slices.Sort(files)
	return openParquet(s, files)
}

const indexName = "trajectories/index.jsonl"

func openFile(s *Source) (*Source, error) {
	switch ext := strings.ToLower(filepath.Ext(s.Path)); ext {
	case ".parquet":
		return openParquet(s, []string{s.Path})
	case ".json":
		return openFinished(s, eachOfArray)
	case ".jsonl":
		return openFinished(s, eachLine)
	default:
		return nil, fmt.Errorf("--in: %s: %q is none of .json, .jsonl, .parquet", s.Path, ext)
	}
}

// fingerprint of files by name and size.
func fingerprint(root string, files []string) (string, error) {
	h := sha256.New()
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil {
			return "", fmt.Errorf("--in: %w", err)
		}
		name, err := filepath.Rel(root, f)
		if err != nil {
			name = filepath.Base(f)
		}
		fmt.Fprintf(h, "%s %d\n", name, info.Size())
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
