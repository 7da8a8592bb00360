package strictyaml_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/internal/strictyaml"
)

type limits struct {
	CellWall time.Duration `yaml:"cell_wall"`
	Files    int           `yaml:"open_files"`
}

type document struct {
	Run    string            `yaml:"run"`
	Limits limits            `yaml:"limits"`
	Judges []limits          `yaml:"judges"`
	ByName map[string]limits `yaml:"by_name"`
	Head   map[string]string `yaml:"headers"`
	limits `yaml:",inline"`
	Hidden int `yaml:"-"`
}

func TestEachMistakeIsNamedWithItsLineItsSectionAndTheNearestName(t *testing.T) {
	t.Parallel()
	for rule, c := range map[string]struct {
		yaml string
		want []string
	}{
		"a key at the top":                 {"rum: a", []string{`line 1: unknown key "rum": did you mean "run"?`}},
		"a key of a section":               {"limits:\n  cel_wall: 1s", []string{`line 2: unknown key "cel_wall" in limits: did you mean "cell_wall"?`}},
		"a key in a list":                  {"judges:\n- {}\n- open_file: 1", []string{`line 3: unknown key "open_file" in judges[1]: did you mean "open_files"?`}},
		"a key below a name":               {"by_name:\n  x:\n    open_fils: 1", []string{`unknown key "open_fils" in by_name.x: did you mean "open_files"?`}},
		"nothing is near":                  {"colour: red", []string{`line 1: unknown key "colour"`}},
		"names of a map are free":          {"headers: {anything: b}\nrun: [a]", []string{"line 2: cannot unmarshal"}},
		"an excluded field is unknown":     {"hidden: 1", []string{`unknown key "hidden"`}},
		"several mistakes, in their order": {"open_files: x\nrum: a\nlimits: {open_files: y}", []string{"line 1: cannot unmarshal", `line 2: unknown key "rum"`, "line 3: cannot unmarshal"}},
		"a key twice":                      {"run: a\nrun: b", []string{`line 2: mapping key "run" already defined at line 1`}},
	} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			err := strictyaml.Decode("a.yaml", []byte(c.yaml), &document{})
			require.Error(t, err)
			lines := strings.Split(strings.TrimPrefix(err.Error(), "a.yaml: "), "\n")
			require.Len(t, lines, len(c.want), err)
			for i, want := range c.want {
				require.Contains(t, lines[i], want)
			}
			if strings.Contains(rule, "nothing") {
				require.NotContains(t, err.Error(), "mean")
			}
		})
	}
}

func TestADocumentFillsTheDefaultsAndASecondOneIsRefused(t *testing.T) {
	t.Parallel()
	d := document{Run: "kept", Limits: limits{Files: 3}}
	require.NoError(t, strictyaml.Decode("a.yaml", []byte("limits: {cell_wall: 2s}\nopen_files: 7"), &d))
	require.Equal(t, document{Run: "kept", Limits: limits{CellWall: 2 * time.Second, Files: 3}, limits: limits{Files: 7}}, d)
	require.ErrorContains(t, strictyaml.Decode("a.yaml", []byte("run: a\n---\nrun: b"), &d), "a.yaml: more than one document")
	require.ErrorIs(t, strictyaml.Decode("a.yaml", nil, &d), strictyaml.ErrEmpty)
}
