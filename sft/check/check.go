// Package check looks at the finished files of a corpus and at nothing else: every invariant is found again
// in what a trainer will read.
//
// Invariant: a check that cannot be made is a problem, never a pass.
package check

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/verigraph/verigraph/sft"
	"github.com/verigraph/verigraph/sft/build"
	"github.com/verigraph/verigraph/sft/output"
)

// Problem is a broken invariant at one place.
type Problem struct {
	// Where is FILE:ROW, or a file.
	Where, What string
}

func (p Problem) String() string { return p.Where + ": " + p.What }

// maxProblems bounds what is kept; one broken rule breaks many rows.
const maxProblems = 100

// Report is what was looked at and what is wrong.
type Report struct {
	Files, Rows int
	// Kinds counts samples by kind, from the rows of one format.
	Kinds    map[sft.Kind]int
	Problems []Problem
	// More counts problems beyond those kept.
	More int
}

func (r *Report) add(where, format string, args ...any) {
	if len(r.Problems) == maxProblems {
		r.More++
		return
	}
	r.Problems = append(r.Problems, Problem{where, fmt.Sprintf(format, args...)})
}

// checker holds what the formats have to agree on.
type checker struct {
	Report
	m   *build.Manifest
	dir string
	// samples goes from a sample's id to the digest of its messages and flags, by format.
	samples map[string]map[string]seen
	escaper *sft.Escaper
}

// seen is a sample as one format holds it.
type seen struct {
	text [8]byte // of the messages, without flags
	// flags are T and c for trained and context turns; empty where a format has none.
	flags string
	turns int // trained ones
	split string
}

// Dir checks a finished build.
func Dir(ctx context.Context, dir string) (Report, *build.Manifest, error) {
	m, err := build.ReadManifest(dir)
	if err != nil {
		return Report{}, nil, err
	}
	c := &checker{m: m, dir: dir, samples: map[string]map[string]seen{}, escaper: sft.NewEscaper(nil)}
	c.Kinds = map[sft.Kind]int{}
	for _, f := range m.Files {
		if err := ctx.Err(); err != nil {
			return c.Report, m, err
		}
		c.Files++
		before := c.Rows
		c.file(f)
		if got := c.Rows - before; got != f.Rows {
			c.add(f.Path, "%d rows, the manifest says %d", got, f.Rows)
		}
	}
	c.strangers()
	c.agree()
	c.totals()
	return c.Report, m, nil
}

func (c *checker) file(f build.File) {
	path := filepath.Join(c.dir, filepath.FromSlash(f.Path))
	if err := c.digest(path, f); err != nil {
		c.add(f.Path, "%v", err)
		return
	}
	if c.samples[f.Format] == nil {
		c.samples[f.Format] = map[string]seen{}
	}
	var err error
	switch f.Format {
	case "swift":
		err = eachLine(path, func(n int, row *output.SwiftRow) { c.swift(f, n, row) })
	case "chat":
		err = eachLine(path, func(n int, row *output.ChatRow) { c.chat(f, n, row) })
	case "verl":
		err = eachRow(output.ReadVerl(path), func(n int, row *output.VerlRow) { c.verl(f, n, row) })
	case "tokenized":
		err = eachRow(output.ReadTokenized(path), func(n int, row *output.TokenizedRow) { c.tokenized(f, n, row) })
	default:
		err = fmt.Errorf("format %q is not known", f.Format)
	}
	if err != nil {
		c.add(f.Path, "%v", err)
	}
}

func (c *checker) digest(path string, f build.File) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	h := sha256.New()
	n, err := io.Copy(h, file)
	if err != nil {
		return err
	}
	if n != f.Bytes || hex.EncodeToString(h.Sum(nil)) != f.SHA256 {
		return fmt.Errorf("%d bytes whose SHA-256 is not the manifest's (%d bytes)", n, f.Bytes)
	}
	return nil
}

// strangers are files beside those of the manifest: a trainer that is given a glob would read them.
func (c *checker) strangers() {
	known := map[string]bool{}
	for _, f := range c.m.Files {
		known[f.Path] = true
	}
	for _, format := range []string{"swift", "verl", "chat", "tokenized"} {
		entries, _ := os.ReadDir(filepath.Join(c.dir, format)) // a format that is off has no directory
		for _, e := range entries {
			path := format + "/" + e.Name()
			if ext := filepath.Ext(path); (ext == ".jsonl" || ext == ".parquet" || ext == ".tmp") && !known[path] {
				c.add(path, "does not stand in the manifest")
			}
		}
	}
}

// agree compares the formats sample by sample.
func (c *checker) agree() {
	formats := slices.Sorted(maps.Keys(c.samples))
	if len(formats) == 0 {
		c.add(build.ManifestName, "no file")
		return
	}
	first := c.samples[formats[0]]
	for _, other := range formats[1:] {
		rows := c.samples[other]
		if len(rows) != len(first) {
			c.add(other, "%d samples, %s has %d", len(rows), formats[0], len(first))
		}
		for _, id := range slices.Sorted(maps.Keys(first)) {
			a, b := first[id], rows[id]
			switch {
			case b.split == "":
				c.add(other, "sample %s is missing", id)
			case a.split != b.split:
				c.add(other, "sample %s is in %s, in %s it is in %s", id, b.split, formats[0], a.split)
			case a.turns != b.turns:
				c.add(other, "sample %s has %d trained turns, in %s %d", id, b.turns, formats[0], a.turns)
			case a.flags != b.flags && a.flags != "" && b.flags != "":
				c.add(other, "sample %s has turns %s, in %s %s", id, b.flags, formats[0], a.flags)
			case a.text != b.text && a.text != [8]byte{} && b.text != [8]byte{}:
				c.add(other, "the messages of sample %s differ from those in %s", id, formats[0])
			}
		}
	}
}

// totals compares with the manifest.
func (c *checker) totals() {
	want, rejected := 0, 0
	for kind, k := range c.m.Kinds {
		want += k.Samples
		if got, counted := c.Kinds[kind]; counted && got != k.Samples {
			c.add(build.ManifestName, "%d samples of %s, the manifest says %d", got, kind, k.Samples)
		}
	}
	for _, format := range slices.Sorted(maps.Keys(c.samples)) {
		if got := len(c.samples[format]); got != want {
			c.add(format, "%d samples, the manifest says %d", got, want)
		}
	}
	for _, n := range c.m.Rejected {
		rejected += n
	}
	if c.m.Taken+rejected != c.m.Read {
		c.add(build.ManifestName, "%d records taken and %d rejected of %d read", c.m.Taken, rejected, c.m.Read)
	}
}
