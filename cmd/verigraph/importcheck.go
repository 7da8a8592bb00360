package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/verigraph/verigraph/dataset"
	"github.com/verigraph/verigraph/dataset/table"
)

// declarations are what the user says about files, by patterns on their base names. The last one wins.
type declarations []declaration

type declaration struct {
	pattern string
	set     func(*table.Options)
}

func parseDeclarations(encodings, delimiters, headers []string) (declarations, error) {
	var all declarations
	var errs []error
	parse := func(flag string, values []string, value func(string) (func(*table.Options), error)) {
		for _, v := range values {
			pattern, text, ok := strings.Cut(v, "=")
			if _, err := filepath.Match(pattern, ""); !ok || err != nil || pattern == "" {
				errs = append(errs, fmt.Errorf("--%s: %q is not PATTERN=VALUE", flag, v))
				continue
			}
			set, err := value(text)
			if err != nil {
				errs = append(errs, fmt.Errorf("--%s: %w", flag, err))
				continue
			}
			all = append(all, declaration{pattern, set})
		}
	}
	parse("encoding", encodings, func(s string) (func(*table.Options), error) {
		name, err := table.CanonicalEncoding(s)
		return func(o *table.Options) { o.Encoding = name }, err
	})
	parse("delimiter", delimiters, func(s string) (func(*table.Options), error) {
		if s == `\t` || s == "tab" {
			s = "\t"
		}
		r, size := utf8.DecodeRuneInString(s)
		if size == 0 || size != len(s) || strings.ContainsRune("\r\n\"", r) {
			return nil, fmt.Errorf("%q is not one character", s)
		}
		return func(o *table.Options) { o.Delimiter = r }, nil
	})
	parse("header", headers, func(s string) (func(*table.Options), error) {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%q is no line number", s)
		}
		return func(o *table.Options) { o.Header = n }, nil
	})
	return all, errors.Join(errs...)
}

func (d declarations) of(file string) table.Options {
	var o table.Options
	for _, one := range d {
		if ok, _ := filepath.Match(one.pattern, filepath.Base(file)); ok {
			one.set(&o)
		}
	}
	return o
}

// checkedFile is one data file in the report.
type checkedFile struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256"`
	table.Profile
}

// checkFiles inspects every data file whole. The error joins what makes files unusable as they are.
func checkFiles(in dataset.Imported, declared declarations) ([]checkedFile, error) {
	var checked []checkedFile
	var errs []error
	for digest, path := range in.Paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		name, err := filepath.Rel(in.DataDir, path)
		if err != nil {
			name = path
		}
		checked = append(checked, checkedFile{name, digest, table.Inspect(name, data, declared.of(name))})
	}
	slices.SortFunc(checked, func(a, b checkedFile) int { return cmp.Compare(a.Name, b.Name) })
	for _, c := range checked {
		if f, bad := c.Fatal(); bad {
			errs = append(errs, fmt.Errorf("%s: %s", c.Name, f))
		}
	}
	return checked, errors.Join(errs...)
}

// describe prints the files that have findings or columns to look at.
func describe(w io.Writer, checked []checkedFile) {
	for _, c := range checked {
		var remarks []string
		for _, f := range c.Findings {
			if !f.Fatal {
				remarks = append(remarks, f.String())
			}
		}
		for _, col := range c.Columns {
			for _, n := range col.Notes {
				remarks = append(remarks, fmt.Sprintf("column %q: %s", col.Name, n))
			}
			if col.Kind == "empty" {
				remarks = append(remarks, fmt.Sprintf("column %q: empty", col.Name))
			}
		}
		if len(remarks) == 0 {
			continue
		}
		fmt.Fprintf(w, "%s (%s)\n", c.Name, dataset.Summary(c.Profile))
		for _, r := range remarks {
			fmt.Fprintf(w, "  %s\n", r)
		}
	}
}
