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
	namedTest   = regexp.MustCompile("`(Test[A-Z]\\w+|test_\\w+)`")
	definedTest = regexp.MustCompile(`(?m)^(?:func|def) ([Tt]est\w+)\(`)
)

func TestEveryTestThatTheDocumentsNameExists(t *testing.T) {
	t.Parallel()
	defined := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		name := filepath.Base(path)
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(name, ".") && path != root || d.IsDir() && (name == "out" || name == "build"):
			return fs.SkipDir
		case !strings.HasSuffix(name, "_test.go") && !(strings.HasPrefix(name, "test_") && strings.HasSuffix(name, ".py")):
			return nil
		}
		data, err := os.ReadFile(path)
		for _, m := range definedTest.FindAllStringSubmatch(string(data), -1) {
			defined[m[1]] = true
		}
		return err
	})
	require.NoError(t, err)
	named := 0
	for _, doc := range []string{"trainer.md", "import.md", "delivery.md"} {
		data, err := os.ReadFile(root + "docs/" + doc)
		require.NoError(t, err)
		for _, m := range namedTest.FindAllStringSubmatch(string(data), -1) {
			named++
			require.True(t, defined[m[1]], "%s names %s", doc, m[1])
		}
	}
	require.Greater(t, named, 60)
}
