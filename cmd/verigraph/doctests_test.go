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

func testsOfTheRepository(t *testing.T) map[string]bool {
	t.Helper()
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
	return defined
}

func TestEveryTestThatTheDocumentsNameExists(t *testing.T) {
	t.Parallel()
	defined, named := testsOfTheRepository(t), 0
	for _, doc := range []string{"trainer.md", "import.md", "delivery.md", "operations.md"} {
		data, err := os.ReadFile(root + "docs/" + doc)
		require.NoError(t, err)
		for _, m := range namedTest.FindAllStringSubmatch(string(data), -1) {
			named++
			require.True(t, defined[m[1]], "%s names %s", doc, m[1])
		}
	}
	require.Greater(t, named, 60)
}

// reports are the numbers of the reports by section.
var reports = map[string]string{
	"A": "1 3 4 5 6 7 9 10 12 13 15 16 18 19 21 22 24 25 27 28 30 31 33 34 36 37",
	"B": "39 40 42 43 45 46 48 49 50 51 52 54",
	"C": "55 57 58 60 61 63 64 66 67 69 70 72 73 75 76 78",
	"D": "79 81 82 84 85 87 88 90",
	"E": "91 92 93 94 96 97 99 100 102 103",
	"F": "105 106 107 108 109 111 112 113 114 115 117 118 120 121 123 124",
	"G": "126 127 129 130 132 133 135 136 138 139 141 142",
	"H": "144 145 147 148 150 151",
	"I": "153 154 156 157",
	"J": "159 160 162 163 165 166 168",
	"K": "169 171 172",
}

func TestEveryFieldReportNamesTestsThatExist(t *testing.T) {
	t.Parallel()
	defined := testsOfTheRepository(t)
	page, err := os.ReadFile(root + "docs/field-reports.md")
	require.NoError(t, err)
	sections := map[string][]string{}
	section := ""
	for line := range strings.Lines(string(page)) {
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			section, _, _ = strings.Cut(heading, ".")
		}
		cells := strings.Split(line, "|")
		if len(cells) != 5 || strings.HasPrefix(line, "| ---") || strings.HasPrefix(line, "| report") {
			continue
		}
		number := strings.TrimSpace(cells[1])
		sections[section] = append(sections[section], number)
		named := namedTest.FindAllStringSubmatch(cells[3], -1)
		require.NotEmpty(t, named, "report %s names no test", number)
		for _, m := range named {
			require.True(t, defined[m[1]], "report %s names %s", number, m[1])
		}
	}
	for name, want := range reports {
		require.Equal(t, strings.Fields(want), sections[name], "section %s", name)
	}
}
