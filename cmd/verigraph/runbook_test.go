package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	runbookMetric = regexp.MustCompile("`(verigraph_[a-z_]+)(?:\\{[a-z_,]+\\})?`")
	quotedText    = regexp.MustCompile("`\"([^`\"]+)\"`")
)

// The runbook names only metrics that the code has, texts that the code says, and commands that parse.
func TestTheRunbookNamesOnlyWhatThereIs(t *testing.T) {
	t.Parallel()
	page := readPage(t, "operations.md")
	_, rest, ok := strings.Cut(page, "## Runbook\n")
	require.True(t, ok)
	runbook, _, _ := strings.Cut(rest, "\n## ")
	texts := map[string]bool{"maximum bytes exceeded": true} // the server's own
	metrics := runbookMetric.FindAllStringSubmatch(runbook, -1)
	require.Greater(t, len(metrics), 8)
	for _, m := range metrics {
		texts[`"`+m[1]+`"`] = false
	}
	for _, m := range quotedText.FindAllStringSubmatch(runbook, -1) {
		if _, known := texts[m[1]]; !known {
			texts[m[1]] = false
		}
	}
	require.Greater(t, len(texts), len(metrics)/2+6)
	for _, dir := range []string{"cmd", "dataset", "jetstream", "lease", "rollout"} {
		require.NoError(t, filepath.WalkDir(root+dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			source, err := os.ReadFile(path)
			for text := range texts {
				texts[text] = texts[text] || strings.Contains(string(source), text)
			}
			return err
		}))
	}
	for text, found := range texts {
		require.True(t, found, "no source file holds %q", text)
	}
	for _, line := range append(commands(t, root+"docs/operations.md"), commands(t, root+"docs/sizing.md")...) {
		words := strings.Fields(line)
		switch words[0] {
		case "verigraph":
			cmd, rest, err := newRoot().Find(words[1:])
			require.NoError(t, err, line)
			require.NotEqual(t, "verigraph", cmd.Name(), line)
			require.NoError(t, cmd.ParseFlags(rest), line)
		case "nats": // make test-backup runs them
			require.Contains(t, []string{"nats backup account backup/nats --consumers --force", "nats backup restore account backup/nats"}, line)
		case "curl":
		default:
			t.Errorf("the page runs %q, which no test knows", line)
		}
	}
}
