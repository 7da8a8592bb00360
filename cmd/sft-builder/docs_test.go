package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/sft"
	"github.com/verigraph/verigraph/sft/generate"
)

func document(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(root + "docs/sft.md")
	require.NoError(t, err)
	return string(data)
}

var reported = regexp.MustCompile("(?m)^\\| .+ \\| `([a-z/-]+)` \\| `(Test[A-Za-z0-9]+)` \\|$")

func TestEveryReportedFaultOfTheCorpusDocumentHasTheTestThatItNames(t *testing.T) {
	t.Parallel()
	rows := reported.FindAllStringSubmatch(document(t), -1)
	require.GreaterOrEqual(t, len(rows), 20)
	for _, row := range rows {
		files, err := filepath.Glob(filepath.Join(root, row[1], "*_test.go"))
		require.NoError(t, err)
		var source []byte
		for _, f := range files {
			data, err := os.ReadFile(f)
			require.NoError(t, err)
			source = append(source, data...)
		}
		require.Contains(t, string(source), "func "+row[2]+"(", row[1])
	}
}

func TestEveryReasonOfARejectionIsDocumented(t *testing.T) {
	t.Parallel()
	for _, r := range sft.Reasons {
		require.Contains(t, document(t), "`"+string(r)+"`")
	}
}

// Commands of the document are checked as far as they go without a teacher; build, verify and inspect run on
// a real run in the tests of this package.
func TestEveryCommandOfTheCorpusDocumentExists(t *testing.T) {
	t.Parallel()
	text := strings.ReplaceAll(document(t), "\\\n", " ")
	found := 0
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 || filepath.Base(words[0]) != "sft-builder" || !strings.HasPrefix(line, "    ") && !strings.HasPrefix(line, "bin/") {
			continue
		}
		found++
		cmd, rest, err := newRoot().Find(words[1:])
		require.NoError(t, err, line)
		require.NotEqual(t, "sft-builder", cmd.Name(), line)
		require.NoError(t, cmd.ParseFlags(rest), line)
		require.NoError(t, cmd.Args(cmd, cmd.Flags().Args()), line)
		for _, w := range words {
			if strings.HasPrefix(w, "configs/") {
				require.FileExists(t, root+w, line)
			}
		}
	}
	require.Equal(t, 4, found)
	makefile, err := os.ReadFile(root + "Makefile")
	require.NoError(t, err)
	for _, m := range regexp.MustCompile("`make ([a-z-]+)`").FindAllStringSubmatch(text, -1) {
		require.Contains(t, string(makefile), "\n"+m[1]+":")
	}
}

func TestTheShippedPlanOfATeacherParsesAndItsPromptsImport(t *testing.T) {
	t.Parallel()
	c, err := generate.Load(root + "configs/sft/generate.yaml")
	require.NoError(t, err)
	for i := range c.Sources {
		s := &c.Sources[i]
		s.Prompts, s.Labels, s.DataDir = root+s.Prompts, root+s.Labels, root+s.DataDir
	}
	in, files, err := prompts(t.Context(), c)
	require.NoError(t, err)
	require.Len(t, in.Prompts[0], 22)
	require.Len(t, in.References, 22)
	require.NotEmpty(t, files)
}
