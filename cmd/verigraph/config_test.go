package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/verigraph/verigraph/cmd/internal/config"
)

func TestConfigCheckReportsAllProblemsAtOnceWithTheirLines(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "bad.yaml")
	require.NoError(t, os.WriteFile(path, []byte(strings.Join([]string{
		"run: a b",                     // 1: a name with a blank
		"policy:",                      //
		"  modle: m",                   // 3: an unknown key
		"  call_timeout: -1s",          // 4: refused by the policy's own check
		"leader: {group_size: many}",   // 5: a wrong type
		"sandbox:",                     //
		"  limits: {open_files: -1}",   // 7
		"trainer:",                     //
		"  contract: both",             // 9
		"reward: {judge: oracle}",      // 10
		"feed: {token_env: NOT_SET_1}", // 11
	}, "\n")), 0o600))
	code, stdout, stderr := verigraph(t, "config", "check", path)
	require.Equal(t, 2, code)
	for _, want := range []string{
		":1: run \"a b\": ", `:3: unknown key "modle" in policy: did you mean "model"?`, ":4: policy: call_timeout: ", ":5: cannot unmarshal",
		":7: sandbox", ":9: trainer.contract: ", ":10: reward.judge: ", ":11: feed.token_env: ",
	} {
		require.Contains(t, stdout, path+want)
	}
	require.Contains(t, stderr, "8 problems")
}

func TestShippedConfigurationsHaveNoProblemsForTheirProgram(t *testing.T) {
	t.Parallel()
	for role, file := range map[string]string{
		"run": "configs/local.yaml", "rollout-worker": "configs/rollout-worker.yaml", "reward-server": "configs/reward-server.yaml",
		"preset": "configs/reward/default.yaml",
	} {
		code, stdout, stderr := verigraph(t, "config", "check", "--for", role, root+file)
		require.Zero(t, code, stdout+stderr)
	}
	code, stdout, _ := verigraph(t, "config", "check", "--for", "worker", root+"configs/local.yaml")
	require.Equal(t, 2, code)
	require.Contains(t, stdout, "run, rollout-worker, reward-server")
	code, stdout, _ = verigraph(t, "config", "check", "missing.yaml")
	require.Equal(t, 2, code)
	require.Equal(t, 1, strings.Count(stdout, "\n"), stdout)
}

func TestConfigShowPrintsAConfigurationThatMeansTheSameAndHidesKeys(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.yaml")
	require.NoError(t, os.WriteFile(path, []byte("policy: {api_key: geheim-1, headers: {X-Key: geheim-2}}\nleader: {group_size: 7}\n"), 0o600))
	code, stdout, stderr := verigraph(t, "config", "show", "--resolved", path)
	require.Zero(t, code, stderr)
	require.NotContains(t, stdout, "geheim")
	c := config.Defaults()
	require.NoError(t, yaml.Unmarshal([]byte(stdout), &c))
	require.Equal(t, 7, c.Leader.GroupSize)
	code, all, _ := verigraph(t, "config", "show")
	require.Zero(t, code)
	shown := config.Config{}
	require.NoError(t, yaml.Unmarshal([]byte(all), &shown))
	require.Equal(t, config.Defaults().Sandbox.Limits, shown.Sandbox.Limits)
}

func TestConfigSchemaIsAJSONSchemaWithTheKeys(t *testing.T) {
	t.Parallel()
	code, stdout, _ := verigraph(t, "config", "schema")
	require.Zero(t, code)
	var s struct {
		Properties map[string]struct {
			Properties map[string]any `json:"properties"`
		} `json:"properties"`
	}
	require.NoError(t, json.Unmarshal([]byte(stdout), &s))
	require.Contains(t, s.Properties["leader"].Properties, "group_size")
}
