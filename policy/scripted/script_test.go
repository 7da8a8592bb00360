package scripted_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/policy/scripted"
)

func TestLoadScriptNamesFileAndLineOfEveryMistake(t *testing.T) {
	t.Parallel()
	good := `{"prompt_id":"0","sample":0,"turns":["x"]}`
	for name, tc := range map[string]struct{ lines, want string }{
		"broken JSON":       {good + "\n{\"prompt_id\":", ":2: unexpected"},
		"not an object":     {`[1]`, ":1: json"},
		"unknown key":       {good + "\n\n" + `{"prompt_id":"1","turn":["x"]}`, `:3: json: unknown field "turn"`},
		"no turns":          {`{"prompt_id":"1"}`, ":1: turns is missing or empty"},
		"empty turns":       {`{"prompt_id":"1","turns":[]}`, ":1: turns is missing or empty"},
		"no prompt id":      {`{"turns":["x"]}`, ":1: prompt_id is missing"},
		"empty prompt id":   {`{"prompt_id":"","turns":["x"]}`, ":1: prompt_id is missing"},
		"numeric prompt id": {`{"prompt_id":0,"turns":["x"]}`, ":1: json"},
		"negative sample":   {`{"prompt_id":"1","sample":-1,"turns":["x"]}`, ":1: sample is -1"},
		"duplicate":         {good + "\n" + good, `:2: prompt_id "0" with sample 0 was given before`},
		"duplicate for all": {strings.Repeat(`{"prompt_id":"0","turns":["x"]}`+"\n", 2), `:2: prompt_id "0" without a sample was given before`},
		"two on a line":     {good + good, ":1: more than one"},
		"nothing":           {"\n \n", ": no line"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "demo.jsonl")
			require.NoError(t, os.WriteFile(path, []byte(tc.lines), 0o600))
			_, err := scripted.LoadScript(path)
			require.ErrorContains(t, err, "demo.jsonl"+tc.want)
		})
	}
	_, err := scripted.LoadScript(filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, os.ErrNotExist)

	_, err = scripted.ReadScript(strings.NewReader("{\n[\n"), "two")
	require.ErrorContains(t, err, "two:1:")
	require.ErrorContains(t, err, "two:2:")
}

func TestALineWithoutASampleIsForTheSamplesWithoutALineOfTheirOwn(t *testing.T) {
	t.Parallel()
	s, err := scripted.ReadScript(strings.NewReader(
		`{"prompt_id":"a_b/c","turns":["all"]}`+"\r\n"+`{"prompt_id":"a_b/c","sample":2,"turns":["own"]}`+"\n"+`{"prompt_id":"d","sample":1,"turns":["x"]}`), "s")
	require.NoError(t, err)
	require.True(t, s.Has("a_b/c", 0))
	require.True(t, s.Has("a_b/c", 2))
	require.True(t, s.Has("d", 1))
	require.False(t, s.Has("d", 0))
	require.False(t, s.Has("d", -1))
	require.False(t, s.Has("e", 0))
}
