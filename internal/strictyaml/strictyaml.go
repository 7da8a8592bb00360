// Package strictyaml decodes one YAML document onto a struct that holds its defaults. Every unknown
// key, duplicate key and wrong type is reported at once, with the source, the line and the key.
package strictyaml

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"
)

var (
	lineOf       = regexp.MustCompile(`^line (\d+): (.*)$`)
	unknownField = regexp.MustCompile(`^field (\S+) not found in type \S+$`)
)

// ErrEmpty says that there is no document; nothing was changed.
var ErrEmpty = errors.New("is empty")

// Decode decodes data onto into.
func Decode(source string, data []byte, into any) error {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(into); errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: %w", source, ErrEmpty)
	} else if err != nil {
		return fmt.Errorf("%s: %w", source, errors.Join(readable(data, reflect.TypeOf(into), err)...))
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: more than one document", source)
	}
	return nil
}

// readable lists what yaml found, in the order of lines; unknown keys in our words.
func readable(data []byte, t reflect.Type, err error) []error {
	var te *yaml.TypeError
	if !errors.As(err, &te) {
		return []error{err}
	}
	var found []problem
	var doc yaml.Node
	if yaml.Unmarshal(data, &doc) == nil {
		found = unknownKeys(&doc, t, "")
	}
	named := map[int]bool{}
	for _, p := range found {
		named[p.line] = true
	}
	for _, e := range te.Errors {
		p := problem{text: fmt.Sprint(e)}
		if m := lineOf.FindStringSubmatch(p.text); m != nil {
			p.line, _ = strconv.Atoi(m[1])
			p.text = m[2]
		}
		if m := unknownField.FindStringSubmatch(p.text); m != nil {
			if named[p.line] {
				continue
			}
			p.text = fmt.Sprintf("unknown key %q", m[1])
		}
		found = append(found, p)
	}
	slices.SortStableFunc(found, func(a, b problem) int { return a.line - b.line })
	errs := make([]error, len(found))
	for i, p := range found {
		errs[i] = errors.New(p.text)
		if p.line > 0 {
			errs[i] = fmt.Errorf("line %d: %s", p.line, p.text)
		}
	}
	return errs
}
