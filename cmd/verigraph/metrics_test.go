package main

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const exposedFile = root + "deploy/prometheus/exposed.txt"

var (
	sample    = regexp.MustCompile(`^(verigraph_[a-z_]+)(?:\{(.*)\})? (\S+)$`)
	labelPair = regexp.MustCompile(`([a-z_]+)="([^"]*)"`)
)

// families are the series of the project in a text of /metrics as NAME{LABEL,LABEL}, and the values by series.
func families(text string) (names []string, values map[string]string) {
	seen, values := map[string]bool{}, map[string]string{}
	for line := range strings.Lines(text) {
		m := sample.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		var labels []string
		for _, pair := range labelPair.FindAllStringSubmatch(m[2], -1) {
			labels = append(labels, pair[1])
		}
		slices.Sort(labels)
		seen[m[1]+"{"+strings.Join(labels, ",")+"}"] = true
		key, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		values[key] = m[3]
	}
	return slices.Sorted(maps.Keys(seen)), values
}

// checkMetrics compares what a reward server and a worker expose after a run with the committed list, which the
// dashboards and the alerts are checked against, and with the run's own counts.
func checkMetrics(t *testing.T, server, worker string) {
	t.Helper()
	names, values := families(server + worker)
	text := strings.Join(names, "\n") + "\n"
	if *updateDocs {
		require.NoError(t, os.WriteFile(exposedFile, []byte(text), 0o600))
	}
	want, err := os.ReadFile(exposedFile)
	require.NoError(t, err)
	require.Equal(t, string(want), text, "go test ./cmd/verigraph -run ExternalNATS -args -update")
	for series, v := range map[string]string{
		`verigraph_leader_leading`:                                   "1",
		`verigraph_ledger_rollouts{state="dispatched"}`:              "12",
		`verigraph_ledger_rollouts{state="delivered"}`:               "12",
		`verigraph_ledger_rollouts{state="in_flight"}`:               "0",
		`verigraph_ledger_unaccounted`:                               "0",
		`verigraph_batches{state="acknowledged"}`:                    "1",
		`verigraph_batch_age_versions_count`:                         "1",
		`verigraph_queue_groups{stage="prompts",state="waiting"}`:    "0",
		`verigraph_worker_groups_total{end="published"}`:             "3",
		`verigraph_reward_score_seconds_count`:                       "12",
		`verigraph_sandbox_kills_total{reason="lost"}`:               "0",
		`verigraph_rollout_phase_seconds_count{phase="generate"}`:    "12",
		`verigraph_sandbox_starts_total{result="failed"}`:            "0",
		`verigraph_sandbox_tier{tier="none"}`:                        "0",
		`verigraph_policy_endpoints{state="usable"}`:                 "1",
		`verigraph_metrics_unreadable{part="ledger"}`:                "0",
		`verigraph_rollouts_total{termination="policy_unavailable"}`: "0",
	} {
		require.Equal(t, v, values[series], series)
	}
	require.NotEqual(t, "0", values["verigraph_rollout_sampled_tokens_total"])
}

var metricName = regexp.MustCompile(`\bverigraph_[a-z_]+\b`)

// The whole PromQL is parsed by the tests of tools/helm.
func TestDashboardsAndAlertsNameOnlyMetricsThatARunExposes(t *testing.T) {
	t.Parallel()
	exposed, err := os.ReadFile(exposedFile)
	require.NoError(t, err)
	for _, path := range []string{"deploy/prometheus/alerts.yaml", "deploy/grafana/verigraph.json"} {
		data, err := os.ReadFile(root + path)
		require.NoError(t, err)
		found := metricName.FindAllString(string(data), -1)
		require.Greater(t, len(found), 10, path)
		for _, name := range found {
			require.Contains(t, "\n"+string(exposed), "\n"+name+"{", path)
		}
	}
}

var (
	makeTarget = regexp.MustCompile("`make ([a-z -]+)`")
	deployPath = regexp.MustCompile(`\b(deploy/[A-Za-z0-9_./-]*[A-Za-z0-9])`)
)

// What needs a cluster is not run; the rest of these pages is tested by the targets that they name.
func TestEveryTargetAndFileOfTheClustersPagesExists(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile(root + "Makefile")
	require.NoError(t, err)
	for _, page := range []string{"docs/kubernetes.md", "docs/observability.md"} {
		text, err := os.ReadFile(root + page)
		require.NoError(t, err)
		targets := makeTarget.FindAllStringSubmatch(string(text), -1)
		require.NotEmpty(t, targets, page)
		for _, m := range targets {
			for _, target := range strings.Fields(m[1]) {
				require.Contains(t, string(makefile), "\n"+target+":", page)
			}
		}
		for _, m := range deployPath.FindAllStringSubmatch(string(text), -1) {
			_, err := os.Stat(root + m[1])
			require.NoError(t, err, page)
		}
	}
}
