package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var shellBlock = regexp.MustCompile("(?s)```sh\n(.*?)```")

// commands are the command lines of all sh blocks, with continued lines joined.
func commands(t *testing.T, path string) []string {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	var out []string
	for _, block := range shellBlock.FindAllStringSubmatch(string(data), -1) {
		text := strings.ReplaceAll(block[1], "\\\n", " ")
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				out = append(out, line)
			}
		}
	}
	return out
}

// Commands that need a model or a cluster are checked as far as they go without one: the subcommand,
// its flags, and every file that they name. The others run in tests of this package and in CI.
func TestEveryCommandOfTheReadmeExists(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile(root + "Makefile")
	require.NoError(t, err)
	lines := commands(t, root+"README.md")
	require.GreaterOrEqual(t, len(lines), 8)
	viewer := commands(t, root+"docs/viewer.md")
	require.Len(t, viewer, 3)
	quickstart := commands(t, root+"docs/quickstart.md")
	require.Len(t, quickstart, 8)
	lines = append(append(lines, viewer...), quickstart...)
	for _, line := range lines {
		words := strings.Fields(line)
		switch program := filepath.Base(words[0]); program {
		case "make":
			for _, target := range words[1:] {
				require.Contains(t, string(makefile), "\n"+target+":", line)
			}
		case "verigraph":
			cmd, rest, err := newRoot().Find(words[1:])
			require.NoError(t, err, line)
			require.NotEqual(t, "verigraph", cmd.Name(), line)
			require.NoError(t, cmd.ParseFlags(rest), line)
			require.NoError(t, cmd.Args(cmd, cmd.Flags().Args()), line)
		case "reward-server", "rollout-worker":
			require.DirExists(t, root+"cmd/"+program, line)
		default:
			t.Errorf("the README runs %q, which no test knows", line)
		}
		for _, w := range words {
			if strings.HasPrefix(w, "configs/") {
				require.FileExists(t, root+w, line)
			}
		}
	}
}
