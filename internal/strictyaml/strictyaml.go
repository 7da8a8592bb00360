// Package strictyaml decodes one YAML document onto a struct that holds its defaults. Every unknown
// key, duplicate key and wrong type is reported at once, with the source, the line and the key.
package strictyaml

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"

	"go.yaml.in/yaml/v3"
)

var unknownField = regexp.MustCompile(`^(line \d+): field (\S+) not found in type \S+$`)

// ErrEmpty says that there is no document; nothing was changed.
var ErrEmpty = errors.New("is empty")

// Decode decodes data onto into.
func Decode(source string, data []byte, into any) error {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(into); errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: %w", source, ErrEmpty)
	} else if err != nil {
		return fmt.Errorf("%s: %w", source, readable(err))
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: more than one document", source)
	}
	return nil
}

func readable(err error) error {
	var te *yaml.TypeError
	if !errors.As(err, &te) {
		return err
	}
	var errs []error
	for _, e := range te.Errors {
		text := fmt.Sprint(e)
		if m := unknownField.FindStringSubmatch(text); m != nil {
			text = fmt.Sprintf("%s: unknown key %q", m[1], m[2])
		}
		errs = append(errs, errors.New(text))
	}
	return errors.Join(errs...)
}
