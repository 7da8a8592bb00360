package helm_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// exposed are the labels of every series that a real run exposes; a test of the programs keeps the list true.
func exposed(t *testing.T) map[string][]string {
	t.Helper()
	data, err := os.ReadFile("../../deploy/prometheus/exposed.txt")
	require.NoError(t, err)
	out := map[string][]string{}
	for _, line := range strings.Fields(string(data)) {
		name, rest, _ := strings.Cut(line, "{")
		out[name] = strings.Split(strings.TrimSuffix(rest, "}"), ",")
	}
	require.Greater(t, len(out), 20)
	return out
}

// check reports what a query names and no run exposes.
func check(t *testing.T, query string, known map[string][]string) (problems []string) {
	t.Helper()
	p := parser.NewParser(parser.Options{})
	expr, err := p.ParseExpr(strings.ReplaceAll(query, "$__rate_interval", "5m"))
	if err != nil {
		return []string{err.Error()}
	}
	var labels []string
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		if v, ok := n.(*parser.VectorSelector); ok {
			have, found := known[v.Name]
			if !found {
				problems = append(problems, v.Name+" is exposed by no run")
			}
			labels = append(labels, have...)
			for _, m := range v.LabelMatchers {
				if m.Name != "__name__" && !slices.Contains(have, m.Name) {
					problems = append(problems, v.Name+" has no label "+m.Name)
				}
			}
		}
		return nil
	})
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		if a, ok := n.(*parser.AggregateExpr); ok {
			for _, g := range a.Grouping {
				if !slices.Contains(labels, g) {
					problems = append(problems, "no series of the query has the label "+g)
				}
			}
		}
		return nil
	})
	return problems
}

func TestEveryAlertAndPanelAsksForSeriesAndLabelsThatARunExposes(t *testing.T) {
	known := exposed(t)
	data, err := os.ReadFile("../../deploy/prometheus/alerts.yaml")
	require.NoError(t, err)
	var alerts ruleGroups
	require.NoError(t, yaml.UnmarshalStrict(data, &alerts))
	for _, r := range alerts.Groups[0].Rules {
		require.Empty(t, check(t, r.Expr, known), r.Alert)
		require.NotEmpty(t, r.Annotations["summary"], r.Alert)
		require.Contains(t, []string{"critical", "warning"}, r.Labels["severity"], r.Alert)
	}
	data, err = os.ReadFile("../../deploy/grafana/verigraph.json")
	require.NoError(t, err)
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	require.NoError(t, json.Unmarshal(data, &board))
	require.Greater(t, len(board.Panels), 20)
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			require.Empty(t, check(t, target.Expr, known), p.Title)
		}
	}
}

func TestTheCheckOfQueriesSeesWhatIsWrong(t *testing.T) {
	known := exposed(t)
	for query, want := range map[string]string{
		"verigraph_no_such_thing":                   "exposed by no run",
		`verigraph_ledger_rollouts{sate="stale"}`:   "no label sate",
		"sum by (stat) (verigraph_ledger_rollouts)": "no series of the query has the label stat",
		"sum(rate(verigraph_rollouts_total[5m])":    "unclosed",
	} {
		require.Contains(t, strings.Join(check(t, query, known), "; "), want)
	}
}
