package reward_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// docs/reward.md names a test for each fault; a renamed or deleted test must not leave the table behind.
func TestEveryTestThatTheFaultTablesNameExists(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../docs/reward.md")
	require.NoError(t, err)
	_, tables, ok := strings.Cut(string(doc), "\n## Faults of others")
	require.True(t, ok)
	tables, _, _ = strings.Cut(tables, "\n## ")
	exists := map[string]bool{}
	define := regexp.MustCompile(`(?m)^(?:func|def) ([Tt]est\w+)\(`)
	for _, dir := range []string{"../reward", "../cmd/verigraph", "../sandbox", "../clients/python/tests"} {
		require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") && !strings.HasSuffix(path, ".py") {
				return err
			}
			data, err := os.ReadFile(path)
			for _, m := range define.FindAllStringSubmatch(string(data), -1) {
				exists[m[1]] = true
			}
			return err
		}))
	}
	test := regexp.MustCompile("`([Tt]est\\w+)`")
	rows, named := 0, 0
	for line := range strings.Lines(tables) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| ---") || strings.Contains(line, "| test |") {
			continue
		}
		rows++
		found := test.FindAllStringSubmatch(line, -1)
		require.NotEmpty(t, found, line)
		for _, m := range found {
			require.True(t, exists[m[1]], "%s: there is no test %s", strings.TrimSpace(line), m[1])
			named++
		}
	}
	require.GreaterOrEqual(t, rows, 40)
	require.GreaterOrEqual(t, named, rows)
}
