package sandbox

import (
	"os"
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

// TestEveryHostileCellThatAReportNamesExists reads part A of docs/field-reports.md; that its tests exist is seen in cmd/verigraph.
func TestEveryHostileCellThatAReportNamesExists(t *testing.T) {
	t.Parallel()
	rules := map[string]bool{}
	for _, table := range tables() {
		for _, h := range table {
			rules[h.rule] = true
		}
	}
	text, err := os.ReadFile("../docs/field-reports.md")
	require.NoError(t, err)
	_, part, found := strings.Cut(string(text), "## A. Sandbox exec\n")
	require.True(t, found)
	part, _, found = strings.Cut(part, "\n## B. ")
	require.True(t, found)
	named := regexp.MustCompile(`"([^"]+)"`).FindAllStringSubmatch(part, -1)
	require.GreaterOrEqual(t, len(named), 25)
	for _, n := range named {
		require.True(t, rules[n[1]], "%s: no rule is called that", n[1])
	}
}
