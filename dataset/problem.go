package dataset

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// InputError is one thing that is wrong with what the user handed over: the line of the file, the
// key, and the reason. An import returns all of them joined; errors.As finds the first.
type InputError struct {
	File string
	Line int    // 1-based; 0 when the file as a whole is meant
	Key  string // empty when the line as a whole is meant
	Err  error
}

func (e *InputError) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d", e.Line)
	}
	b.WriteString(": ")
	if e.Key != "" {
		b.WriteString(e.Key + ": ")
	}
	b.WriteString(e.Err.Error())
	return b.String()
}

func (e *InputError) Unwrap() error { return e.Err }

// problems collects input errors in the order in which they were found.
type problems struct{ list []*InputError }

func (p *problems) add(file string, line int, key string, err error) {
	p.list = append(p.list, &InputError{File: file, Line: line, Key: key, Err: err})
}

func (p *problems) addf(file string, line int, key, format string, args ...any) {
	p.add(file, line, key, fmt.Errorf(format, args...))
}

// err joins the problems, file by file and line by line.
func (p *problems) err() error {
	order := map[string]int{}
	for _, e := range p.list {
		if _, ok := order[e.File]; !ok {
			order[e.File] = len(order)
		}
	}
	slices.SortStableFunc(p.list, func(a, b *InputError) int {
		return cmp.Or(cmp.Compare(order[a.File], order[b.File]), cmp.Compare(a.Line, b.Line))
	})
	errs := make([]error, len(p.list))
	for i, e := range p.list {
		errs[i] = e
	}
	return errors.Join(errs...)
}
