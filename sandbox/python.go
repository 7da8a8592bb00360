package sandbox

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// partNames are the parts of the runner: python/NAME.py for each name.
var partNames = []string{"runner", "channel", "output", "describe", "trace", "primitives", "audit", "watch", "libraries", "clock", "zygote"}

//go:embed python/runner.py python/channel.py python/output.py python/describe.py python/trace.py python/primitives.py python/audit.py python/watch.py python/libraries.py python/clock.py python/zygote.py
var runnerSources embed.FS

// bootstrap defines run(part), which reads the compiled parts from the control socket and calls
// the part's main. It is the only code on the interpreter's command line.
//
//go:embed python/bootstrap.py
var bootstrap string

//go:embed python/selftest.py
var selftestSource string

//go:embed python/probe.py
var probeSource string

// interpreter is what is known about Config.Python. It is asked once, from a plain process, before
// any session exists.
type interpreter struct {
	Executable string            `json:"executable"`
	Real       string            `json:"real"`
	Prefixes   []string          `json:"prefixes"`
	SysPath    []string          `json:"sys_path"`
	Version    []int             `json:"version"`
	Packages   map[string]string `json:"packages"`
	// Helpers are where the zygote's helper may be.
	Helpers []string `json:"-"`
	// Runner is the runner's compiled code (marshal, base64): compiling it anew would be the
	// larger part of a start.
	Runner []byte `json:"runner"`
}

// hiddenByTmp names a part of the environment that lies below /tmp.
func (i interpreter) hiddenByTmp() (string, bool) {
	for _, p := range append([]string{i.Executable, i.Real}, i.Prefixes...) {
		if strings.HasPrefix(p, tmpDir+"/") {
			return p, true
		}
	}
	return "", false
}

func (i interpreter) version() string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(i.Version), " ", "."), "[]")
}

// inspect runs the probe in the interpreter.
func inspect(ctx context.Context, python string) (interpreter, error) {
	sources, err := runnerParts()
	if err != nil {
		return interpreter{}, err
	}
	return inspectWith(ctx, python, sources)
}

// inspectWith is inspect with another source of the runner, part by part.
func inspectWith(ctx context.Context, python string, sources map[string]string) (interpreter, error) {
	path, err := filepath.Abs(python)
	if err != nil {
		return interpreter{}, err
	}
	if _, err := os.Stat(path); err != nil {
		return interpreter{}, fmt.Errorf("python environment %s: no interpreter there; run make python", python)
	}
	cmd := exec.CommandContext(ctx, path, "-s", "-P", "-B", "-c", probeSource)
	cmd.Env = []string{"LANG=C.UTF-8"}
	input, err := json.Marshal(sources)
	if err != nil {
		return interpreter{}, err
	}
	cmd.Stdin = bytes.NewReader(input)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return interpreter{}, ctx.Err()
		}
		return interpreter{}, fmt.Errorf("python environment %s: %w: %s", python, err, lastLine(stderr.String()))
	}
	var i interpreter
	if err := json.Unmarshal(stdout.Bytes(), &i); err != nil {
		return interpreter{}, fmt.Errorf("python environment %s: unexpected answer: %w", python, err)
	}
	if len(i.Version) < 2 || i.Version[0] != 3 || i.Version[1] < 11 {
		return interpreter{}, fmt.Errorf("python environment %s: CPython 3.11 or newer is required, found %s", python, i.version())
	}
	i.Executable = path
	for _, prefix := range i.Prefixes {
		i.Helpers = append(i.Helpers, filepath.Join(prefix, helperName))
	}
	return i, nil
}

// runnerParts are the sources of the runner, which the probe compiles.
func runnerParts() (map[string]string, error) {
	sources := map[string]string{}
	for _, name := range partNames {
		b, err := runnerSources.ReadFile("python/" + name + ".py")
		if err != nil {
			return nil, err
		}
		sources[name] = string(b)
	}
	return sources, nil
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}
