package reward

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	presets "github.com/verigraph/verigraph/configs/reward"
	"github.com/verigraph/verigraph/internal/strictyaml"
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

// ParsePreset reads one YAML document strictly over Defaults and validates it. Errors name the
// source, and unknown keys their line.
func ParsePreset(source string, data []byte) (Preset, error) {
	p := Defaults()
	if err := strictyaml.Decode("reward preset "+source, data, &p); err != nil {
		return Preset{}, err
	}
	if err := p.Validate(); err != nil {
		return Preset{}, fmt.Errorf("reward preset %s: %w", source, err)
	}
	return p, nil
}
