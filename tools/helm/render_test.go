// Package helm_test renders the chart with Helm's own engine and checks what comes out, without a cluster.
package helm_test

import (
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
)

const (
	chartDir  = "../../deploy/helm/verigraph"
	valuesDir = "../../deploy/helm/values"
	goldenDir = "../../deploy/helm/golden"
)

var update = flag.Bool("update", false, "write the golden files")

// sets are the value sets of the matrix.
func sets(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(valuesDir + "/*.yaml")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(found), 6)
	return found
}

// render renders the chart as `helm template verigraph --namespace rl` does, in the order of the files' names.
func render(t *testing.T, values map[string]any) (string, error) {
	t.Helper()
	chart, err := loader.Load(chartDir)
	require.NoError(t, err)
	release := chartutil.ReleaseOptions{Name: "verigraph", Namespace: "rl", Revision: 1, IsInstall: true}
	all, err := chartutil.ToRenderValues(chart, values, release, chartutil.DefaultCapabilities)
	if err != nil {
		return "", err
	}
	eng := engine.Engine{Strict: true}
	files, err := eng.Render(chart, all)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if path.Ext(name) != ".yaml" || strings.TrimSpace(files[name]) == "" {
			continue
		}
		out.WriteString("---\n# Source: " + name + "\n")
		for line := range strings.Lines(files[name]) {
			if line = strings.TrimRight(line, " \n"); line != "" {
				out.WriteString(line + "\n")
			}
		}
	}
	return out.String(), nil
}

func readValues(t *testing.T, file string) map[string]any {
	t.Helper()
	values, err := chartutil.ReadValuesFile(file)
	require.NoError(t, err)
	return values
}

func TestEveryValueSetRendersToItsGoldenFile(t *testing.T) {
	for _, file := range sets(t) {
		text, err := render(t, readValues(t, file))
		require.NoError(t, err, file)
		golden := filepath.Join(goldenDir, filepath.Base(file))
		if *update {
			require.NoError(t, os.WriteFile(golden, []byte(text), 0o600))
		}
		want, err := os.ReadFile(golden)
		require.NoError(t, err)
		require.Equal(t, string(want), text, "make golden-helm")
	}
	if *update {
		require.NoError(t, os.WriteFile(goldenDir+"/chart.sha256", []byte(chartHash(t)+"\n"), 0o600))
	}
	want, err := os.ReadFile(goldenDir + "/chart.sha256")
	require.NoError(t, err)
	require.Equal(t, strings.TrimSpace(string(want)), chartHash(t), "make golden-helm")
}

// chartHash covers the chart and the value sets: a test that runs everywhere compares it, so that nobody changes the
// chart and forgets the golden files.
func chartHash(t *testing.T) string {
	t.Helper()
	sum := sha256.New()
	for _, dir := range []string{chartDir, valuesDir} {
		require.NoError(t, fs.WalkDir(os.DirFS(dir), ".", func(p string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			data, err := os.ReadFile(filepath.Join(dir, p))
			sum.Write([]byte(p + "\n"))
			sum.Write(data)
			return err
		}))
	}
	return hex.EncodeToString(sum.Sum(nil))
}

func TestTheChartHasNoLintWarningWithAnyValueSet(t *testing.T) {
	for _, file := range sets(t) {
		l := lint.All(chartDir, readValues(t, file), "rl", true)
		for _, m := range l.Messages {
			require.Less(t, m.Severity, support.WarningSev, "%s: %s", file, m.Error())
		}
	}
}

func TestWrongValuesAreRefusedByName(t *testing.T) {
	base := readValues(t, valuesDir+"/default.yaml")
	for want, change := range map[string]map[string]any{
		"replcas":                     {"worker": map[string]any{"replcas": 3}},
		"worker.tier":                 {"worker": map[string]any{"tier": "none"}},
		"blob.url":                    {"blob": map[string]any{"url": "ftp://x"}},
		"run":                         {"run": "a b"},
		"nats.url":                    {"nats": map[string]any{"builtin": false}},
		"networkPolicy.policy.peers":  {"networkPolicy": map[string]any{"policy": map[string]any{"peers": []any{}}}},
		"networkPolicy.blob.peers":    {"networkPolicy": map[string]any{"blob": map[string]any{"peers": []any{}}}},
		"networkPolicy.judge.peers":   {"reward": map[string]any{"judge": "openai"}},
		"networkPolicy.scorers.peers": {"reward": map[string]any{"config": map[string]any{"reward": map[string]any{"scorers": map[string]any{"a": map[string]any{"url": "http://s/"}}}}}},
		"blob.existingClaim":          {"sft": map[string]any{"enabled": true}},
		"autoscaling.natsMonitoring":  {"nats": map[string]any{"builtin": false, "url": "nats://n:4222"}, "autoscaling": map[string]any{"enabled": true}},
		"resources":                   {"worker": map[string]any{"resources": map[string]any{"limits": nil}}},
		"feedTokenSecret":             {"reward": map[string]any{"feedTokenSecret": "plain-text-token"}},
	} {
		_, err := render(t, chartutil.CoalesceTables(change, base))
		require.ErrorContains(t, err, lastPart(want), want)
	}
}

// lastPart is the key that a schema error names; errors of the templates name the whole path.
func lastPart(key string) string { return key[strings.LastIndex(key, ".")+1:] }
