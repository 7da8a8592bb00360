package sandbox

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestARewrittenDataFileTaintsTheSessionWhereNothingForbidsIt(t *testing.T) {
	t.Parallel()
	cfg := testConfig()
	cfg.Limits.CellWall = 20 * time.Second
	s, err := newSandbox(t.Context(), cfg, inspected(t), []Tier{TierNone})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	for name, c := range map[string]struct {
		code  string
		taint []string
	}{
		"it is read":                            {"open('a.csv').read()", nil},
		"it is touched":                         {"import os\nos.utime('a.csv', (1, 1))", nil},
		"it is written":                         {"open('a.csv', 'w').write('x\\n2\\n')", []string{"data_changed:a.csv"}},
		"it is written and its time set back":   {"import os\ns = os.stat('a.csv')\nopen('a.csv', 'w').write('x\\n2\\n')\nos.utime('a.csv', ns=(s.st_atime_ns, s.st_mtime_ns))", []string{"data_changed:a.csv"}},
		"another file takes its place":          {"import os\np = os.path.realpath('a.csv')\nopen(p + '2', 'w').write('x\\n2\\n')\nos.rename(p + '2', p)", []string{"data_changed:a.csv"}},
		"it is gone":                            {"import os\nos.unlink(os.path.realpath('a.csv'))", []string{"data_changed:a.csv"}},
		"it is written with the contents of it": {"t = open('a.csv').read()\nopen('a.csv', 'w').write(t)", nil},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "a.csv")
			require.NoError(t, os.WriteFile(path, []byte("x\n1\n"), 0o644))
			sess, err := s.Start(t.Context(), Spec{Files: map[string]string{"a.csv": path}})
			require.NoError(t, err)
			defer func() { require.NoError(t, sess.Close()) }()
			g := &graph{}
			require.Empty(t, runWith(t, sess, c.code, g).Traceback)
			require.Equal(t, c.taint, g.taints)
			g.taints = nil
			runWith(t, sess, "1", g)
			require.Equal(t, c.taint, g.taints, "it stays so")
		})
	}
}
