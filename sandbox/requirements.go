package sandbox

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
)

//go:embed python/requirements.txt
var shippedRequirements string

// requirement is one pinned package.
type requirement struct{ name, version string }

// pin is one line of a requirements file: a name, extras that say what else was installed, the version.
var pin = regexp.MustCompile(`^([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?\s*==\s*([^\s;*]+)$`)

// parseRequirements reads a requirements file in which every package is pinned; anything else could be another package
// tomorrow. What follows a blank (hashes) or a semicolon (the platform that a line is for) is not compared.
func parseRequirements(file, text string) (all []requirement, err error) {
	var errs []error
	number := 0
	for line := range strings.Lines(text) {
		number++
		line, _, _ = strings.Cut(strings.TrimSpace(line), " #")
		if line == "" || line[0] == '#' || strings.HasPrefix(line, "--hash=") {
			continue
		}
		line, _, _ = strings.Cut(strings.TrimSpace(strings.TrimSuffix(line, `\`)), " --hash=")
		line, _, _ = strings.Cut(line, ";")
		m := pin.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			errs = append(errs, fmt.Errorf("%s: line %d: %q: want name==version", file, number, line))
			continue
		}
		all = append(all, requirement{m[1], m[2]})
	}
	return all, errors.Join(errs...)
}

// CheckPython verifies that the environment of cfg.Python holds every package of cfg.Requirements, or of the shipped
// list, at its version, and names those that are missing or differ in one line.
func CheckPython(ctx context.Context, cfg Config) error {
	file, text := "python/requirements.txt", shippedRequirements
	if cfg.Requirements != "" {
		b, err := os.ReadFile(cfg.Requirements)
		if err != nil {
			return fmt.Errorf("sandbox: requirements: %w", err)
		}
		file, text = cfg.Requirements, string(b)
	}
	wanted, err := parseRequirements(file, text)
	if err != nil {
		return fmt.Errorf("sandbox: requirements: %w", err)
	}
	i, err := inspect(ctx, cfg.Python)
	if err != nil {
		return err
	}
	hint := "run make python"
	if cfg.Requirements != "" {
		hint = fmt.Sprintf("install %s in it", cfg.Requirements)
	}
	return i.check(cfg.Python, wanted, hint)
}

func (i interpreter) check(python string, wanted []requirement, hint string) error {
	var wrong []string
	for _, w := range wanted {
		found := i.Packages[normalName(w.name)]
		if found == w.version {
			continue
		}
		if found == "" {
			found = "none"
		}
		wrong = append(wrong, fmt.Sprintf("%s %s (found %s)", w.name, w.version, found))
	}
	switch len(wrong) {
	case 0:
		return nil
	case 1:
		return fmt.Errorf("python environment %s: 1 package is missing or at another version: %s; %s", python, wrong[0], hint)
	}
	return fmt.Errorf("python environment %s: %d packages are missing or at another version: %s; %s", python, len(wrong), strings.Join(wrong, ", "), hint)
}

// normalName is a package's name as indexes compare it.
func normalName(name string) string {
	return strings.ReplaceAll(strings.ReplaceAll(strings.ToLower(name), "_", "-"), ".", "-")
}
