package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/verigraph/verigraph/trajectory"
)

func TestEveryLineOfARequirementsFileIsAPinOrAnError(t *testing.T) {
	t.Parallel()
	all, err := parseRequirements("r.txt", "# a comment\n\npandas==3.1.1\nPyYAML == 6.0.2 # why\nuvicorn[standard]==0.30.1 ; python_version >= '3.11'\nx-y==1.0 \\\n    --hash=sha256:00\n")
	require.NoError(t, err)
	require.Equal(t, []requirement{{"pandas", "3.1.1"}, {"PyYAML", "6.0.2"}, {"uvicorn", "0.30.1"}, {"x-y", "1.0"}}, all)
	_, err = parseRequirements("r.txt", "numpy==2.0.0\npandas>=2\n-r more.txt\nscipy==1.*\ngit+https://host/x\n")
	require.EqualError(t, err, "r.txt: line 2: \"pandas>=2\": want name==version\nr.txt: line 3: \"-r more.txt\": want name==version\n"+
		"r.txt: line 4: \"scipy==1.*\": want name==version\nr.txt: line 5: \"git+https://host/x\": want name==version")
}

// TestEnvironmentsLiveSideBySide makes a second environment with a package of its own and without pandas, beside that of the other tests.
func TestEnvironmentsLiveSideBySide(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp(filepath.Dir(filepath.Dir(filepath.Dir(python))), "second-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755))
	out, err := exec.CommandContext(t.Context(), python, "-m", "venv", "--without-pip", dir).CombinedOutput()
	require.NoError(t, err, string(out))
	second := filepath.Join(dir, "bin", "python")
	places, err := filepath.Glob(filepath.Join(dir, "lib", "python3*", "site-packages"))
	require.NoError(t, err)
	require.Len(t, places, 1)
	require.NoError(t, os.WriteFile(filepath.Join(places[0], "only_here.py"), []byte("answer = 42\n"), 0o644))
	about := filepath.Join(places[0], "only_here-1.5.dist-info")
	require.NoError(t, os.Mkdir(about, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(about, "METADATA"), []byte("Metadata-Version: 2.1\nName: only_here\nVersion: 1.5\n"), 0o644))

	list := filepath.Join(t.TempDir(), "requirements.txt")
	require.NoError(t, os.WriteFile(list, []byte("only-here==1.5\n"), 0o644))
	cfg := testConfig()
	cfg.Python, cfg.Requirements = second, list
	require.NoError(t, CheckPython(t.Context(), cfg))
	require.NoError(t, os.WriteFile(list, []byte("only-here==1.6\n"), 0o644))
	require.ErrorContains(t, CheckPython(t.Context(), cfg), "1 package is missing or at another version: only-here 1.6 (found 1.5); install "+list+" in it")
	cfg.Requirements = ""
	require.ErrorContains(t, CheckPython(t.Context(), cfg), "pandas")

	if engine == EngineZygote {
		helper, err := findHelper(inspected(t))
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(helperName)), 0o755))
		copyFile(t, helper, filepath.Join(dir, helperName))
	}
	box(t)
	s := own(t, func(c *Config) { c.Python, c.Preload = second, []string{"json", "only_here"} })
	require.Equal(t, engine, s.Stats().Engine, s.Stats().Fallback)
	code := "import importlib.util as u\n[u.find_spec(n) is not None for n in ('only_here', 'pandas')]"
	one, two := start(t, box(t), nil), start(t, s, nil)
	require.Equal(t, "[False, True]\n", run(t, one, code).Output)
	require.Equal(t, "[True, False]\n", run(t, two, code).Output)
	res := run(t, two, "import only_here; only_here.answer")
	require.Equal(t, "42\n", res.Output, res.Traceback)
	require.Equal(t, trajectory.CellOK, run(t, one, "import pandas").Status)
}
