package rollout

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var reported = regexp.MustCompile("(?m)^\\| .+ \\| `([a-z/]+)` \\| `(Test[A-Za-z0-9]+)` \\|$")

func TestEveryReportedFaultOfTheDocumentsHasTheTestThatItNames(t *testing.T) {
	t.Parallel()
	for name, atLeast := range map[string]int{"policy.md": 25, "provenance.md": 24} {
		t.Run(name, func(t *testing.T) { checkReported(t, name, atLeast) })
	}
}

func checkReported(t *testing.T, name string, atLeast int) {
	doc, err := os.ReadFile(filepath.Join("..", "docs", name))
	require.NoError(t, err)
	rows := reported.FindAllStringSubmatch(string(doc), -1)
	require.GreaterOrEqual(t, len(rows), atLeast)
	for _, row := range rows {
		files, err := filepath.Glob(filepath.Join("..", row[1], "*_test.go"))
		require.NoError(t, err)
		var source []byte
		for _, f := range files {
			data, err := os.ReadFile(f)
			require.NoError(t, err)
			source = append(source, data...)
		}
		require.True(t, strings.Contains(string(source), "func "+row[2]+"("), "%s: %s", row[1], row[2])
	}
}
