package sandbox

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/verigraph/verigraph/trajectory"
)

// TestNothingSpinsAfterACellsDeadline is not parallel: it reads the CPU clock of this whole process while another session
// sleeps.
func TestNothingSpinsAfterACellsDeadline(t *testing.T) {
	s := own(t, func(c *Config) { c.Limits.CellWall, c.Limits.Grace = 300*time.Millisecond, 10*time.Second })
	late, other := start(t, s, nil), start(t, s, nil)
	res := run(t, late, "while True: pass")
	require.Equal(t, trajectory.CellTimeout, res.Status)
	require.False(t, res.NamespaceLost)
	other.(*session).limits.CellWall = time.Minute
	clock := func() (ours, its time.Duration) {
		var u syscall.Rusage
		require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
		return time.Duration(u.Utime.Nano() + u.Stime.Nano()), late.(*session).proc.cpu()
	}
	ours, its := clock()
	require.Equal(t, trajectory.CellOK, run(t, other, "import time; time.sleep(1)").Status)
	oursAfter, itsAfter := clock()
	require.Less(t, oursAfter-ours, 500*time.Millisecond, "CPU time of the supervisor in a second of waiting")
	require.Less(t, itsAfter-its, 100*time.Millisecond, "CPU time of the session whose cell was interrupted")
	require.Equal(t, "2\n", run(t, late, "1 + 1").Output)
}

func TestALimitThatCanNotBeSetRefusesTheStartAndIsNamed(t *testing.T) {
	t.Parallel()
	cfg := testConfig()
	cfg.Limits.OpenFiles = 1 << 30 // above what the kernel has for anybody
	_, err := New(cfg)
	require.ErrorContains(t, err, "open files")
}

// TestEveryReportedSituationNamesATestThatExists reads the table of docs/sandbox.md: a name in its last column is a
// test of this package or the rule of a hostile cell.
func TestEveryReportedSituationNamesATestThatExists(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	files, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	for _, file := range files {
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		require.NoError(t, err)
		for _, d := range tree.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && strings.HasPrefix(f.Name.Name, "Test") {
				names[f.Name.Name] = true
			}
		}
	}
	for _, table := range tables() {
		for _, h := range table {
			names[h.rule] = true
		}
	}
	text, err := os.ReadFile("../docs/sandbox.md")
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(text), "| situation that broke others | test |\n")
	require.True(t, found)
	quoted, rows := regexp.MustCompile("`([^`]+)`"), 0
	for line := range strings.Lines(rest) {
		if !strings.HasPrefix(line, "| ") {
			if strings.TrimSpace(line) == "" {
				break
			}
			continue
		}
		cells := strings.Split(line, "|")
		named := quoted.FindAllStringSubmatch(cells[len(cells)-2], -1)
		if strings.Contains(line, "---") {
			continue
		}
		rows++
		require.NotEmpty(t, named, line)
		for _, n := range named {
			require.True(t, names[n[1]], "%s: no test or rule is called that", n[1])
		}
	}
	require.GreaterOrEqual(t, rows, 25)
}
