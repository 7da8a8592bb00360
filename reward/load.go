package reward

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	presets "github.com/verigraph/verigraph/configs/reward"
)

// LoadPreset reads a shipped preset by name ("default"), or a file by path (anything with a
// separator or a .yaml or .yml ending).
func LoadPreset(nameOrPath string) (Preset, error) {
	ext := filepath.Ext(nameOrPath)
	if strings.ContainsAny(nameOrPath, `/\`) || ext == ".yaml" || ext == ".yml" {
		data, err := os.ReadFile(nameOrPath)
		if err != nil {
			return Preset{}, fmt.Errorf("reward preset: %w", err)
		}
		return ParsePreset(nameOrPath, data)
	}
	data, err := presets.FS.ReadFile(nameOrPath + ".yaml")
	if err != nil {
		return Preset{}, fmt.Errorf("reward preset %q: unknown; shipped ones are %s", nameOrPath, strings.Join(PresetNames(), ", "))
	}
	return ParsePreset(nameOrPath+".yaml", data)
}

// PresetNames lists the shipped presets, sorted.
func PresetNames() []string {
	files, err := fs.Glob(presets.FS, "*.yaml")
	if err != nil {
		return nil
	}
	for i, f := range files {
		files[i] = strings.TrimSuffix(f, ".yaml")
	}
	slices.Sort(files)
	return files
}

var unknownField = regexp.MustCompile(`^(line \d+): field (\S+) not found in type \S+$`)

// ParsePreset reads one YAML document strictly over Defaults and validates it. Errors name the
// source, and unknown keys their line.
func ParsePreset(source string, data []byte) (Preset, error) {
	p := Defaults()
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(&p); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("is empty")
		}
		return Preset{}, fmt.Errorf("reward preset %s: %w", source, readable(err))
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return Preset{}, fmt.Errorf("reward preset %s: more than one document", source)
	}
	if err := p.Validate(); err != nil {
		return Preset{}, fmt.Errorf("reward preset %s: %w", source, err)
	}
	return p, nil
}

func readable(err error) error {
	var te *yaml.TypeError
	if !errors.As(err, &te) {
		return err
	}
	errs := make([]error, 0, len(te.Errors))
	for _, e := range te.Errors {
		text := fmt.Sprint(e)
		if m := unknownField.FindStringSubmatch(text); m != nil {
			text = fmt.Sprintf("%s: unknown key %q", m[1], m[2])
		}
		errs = append(errs, errors.New(text))
	}
	return errors.Join(errs...)
}
