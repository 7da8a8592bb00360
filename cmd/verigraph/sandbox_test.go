package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/cmd/internal/cli"
)

func TestSandboxCheckPrintsTheTierAndEveryCheck(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := verigraph(t, "sandbox", "check", "--python", root+".venv/sandbox/bin/python", "--min-tier", "none")
	require.Zero(t, code, stderr)
	require.Regexp(t, `(?m)^environment  \S+: all packages are there$`, stdout)
	require.Regexp(t, `(?m)^tier         (strict|gvisor|confined|none)$`, stdout)
	require.Regexp(t, `(?m)^first result \d+(\.\d+)?m?s after a session is asked for$`, stdout)
	require.Regexp(t, `(?m)^  no_sockets +holds$`, stdout)
	require.Regexp(t, `(?m)^  rlimit_as +holds$`, stdout)
	require.NotContains(t, stdout, "FAILS")
}

// Sessions see a /tmp of their own and the host's /usr: neither is a fault of the host because the program stands there, as
// it does in an image.
func TestTheProgramMayStandInADirectoryThatSessionsSee(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)
	program, err := os.CreateTemp("/tmp", "verigraph-*")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.Remove(program.Name()) })
	require.NoError(t, program.Close())
	require.NoError(t, os.Remove(program.Name()))
	if os.Link(self, program.Name()) != nil { // another file system
		data, err := os.ReadFile(self)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(program.Name(), data, 0o755))
	}
	check := []string{"sandbox", "check", "--python", root + ".venv/sandbox/bin/python", "--min-tier", "none"}
	code, here, stderr := verigraph(t, check...)
	require.Zero(t, code, stderr)
	cmd := exec.CommandContext(t.Context(), program.Name(), check...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	tier := regexp.MustCompile(`(?m)^tier +\S+$`)
	require.NotEmpty(t, tier.FindString(here))
	require.Equal(t, tier.FindString(here), tier.FindString(string(out)), "a lower tier: %s", out)
}

func TestSandboxCheckNamesWhatIsMissingInOneLine(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := verigraph(t, "sandbox", "check", "--python", root+".venv/client/bin/python")
	require.Equal(t, cli.ExitFailed, code)
	require.Empty(t, stdout)
	require.Regexp(t, `^verigraph: python environment \S+: \d+ packages are missing or at another version: .*scipy 1\.17\.1 \(found none\).*; run make python\n$`, stderr)
	code, _, stderr = verigraph(t, "sandbox", "check", "--min-tier", "total")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "min_tier: want strict, gvisor, confined or none")
}

func TestSandboxRunPrintsTheObservationsOfOneSession(t *testing.T) {
	t.Parallel()
	table := filepath.Join(t.TempDir(), "table.csv")
	require.NoError(t, os.WriteFile(table, []byte("x\n1\n2\n"), 0o644))
	first := write(t, "first.py", "import pandas as pd\nm = float(pd.read_csv('table.csv').x.mean())\nc = bind('mean {m}', m=m)\nm")
	second := write(t, "second.py", "print(m + 1)\n1 / 0")
	code, stdout, stderr := verigraph(t, "sandbox", "run", first, second, "--data", table, "--python", root+".venv/sandbox/bin/python")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "cell 1\n<tool_response>\nstatus: ok\noutput:\n1.5\n")
	require.Contains(t, stdout, "mean 1.5")
	require.Contains(t, stdout, "cell 2\n<tool_response>\nstatus: exception (1 of 2 statements completed)\noutput:\n2.5\ntraceback:\n")
	require.Contains(t, stdout, "ZeroDivisionError")
	code, _, stderr = verigraph(t, "sandbox", "run", first, "--data", table+".missing", "--python", root+".venv/sandbox/bin/python")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "table.csv.missing")
	code, _, _ = verigraph(t, "sandbox", "run")
	require.Equal(t, cli.ExitUsage, code)
}
