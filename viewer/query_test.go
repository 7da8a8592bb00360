package viewer

import (
	"cmp"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/dataset/archive"
	"github.com/verigraph/verigraph/viewer/viewertest"
)

func list(t *testing.T, r *Run, params string) ListPage {
	t.Helper()
	v, err := url.ParseQuery(params)
	require.NoError(t, err)
	q, err := parseQuery(v)
	require.NoError(t, err)
	p, err := r.list(q)
	require.NoError(t, err)
	return p
}

func ids(p ListPage) (out []string) {
	for _, r := range p.Rows {
		out = append(out, r.ID)
	}
	return out
}

// The oracle is the index file itself, read by the archive's own reader.
func TestFiltersTakeWhatTheIndexSays(t *testing.T) {
	t.Parallel()
	dir, r := grown(t, 40)
	entries, err := archive.ReadIndex(dir)
	require.NoError(t, err)
	for params, takes := range map[string]func(archive.Entry) bool{
		"termination=submitted":               func(e archive.Entry) bool { return e.Submitted },
		"termination=submitted,no_submission": func(archive.Entry) bool { return true },
		"correct=yes":                         func(e archive.Entry) bool { return e.Correct != nil && *e.Correct },
		"min.total=0.5":                       func(e archive.Entry) bool { return *e.Rewards.Total >= 0.5 },
		"max.total=0.5&min.errors=1":          func(e archive.Entry) bool { return *e.Rewards.Total <= 0.5 && e.Cells > e.CellsOK },
		"min.structural=1":                    func(e archive.Entry) bool { return e.Grounding.Structural != nil && *e.Grounding.Structural >= 1 },
		"min.replayed=0":                      func(e archive.Entry) bool { return e.Grounding.Replayed != nil },
		"group=14-2":                          func(e archive.Entry) bool { return strings.Contains(e.RolloutID, "/14-2/") },
		"prompt=6":                            func(e archive.Entry) bool { return e.PromptID == "6" },
		"flag=refused":                        func(e archive.Entry) bool { return len(e.Flags) > 0 },
		"q=FARE_child":                        func(e archive.Entry) bool { return strings.Contains(e.Answer, "fare_child") },
		"q=%22sample%22":                      func(archive.Entry) bool { return false },
		"disagree=true":                       func(e archive.Entry) bool { return e.Correct != nil && *e.Correct && e.Verdicts["not_entailed"] > 0 },
	} {
		var want []string
		for _, e := range entries {
			if takes(e) {
				want = append(want, e.RolloutID)
			}
		}
		got := list(t, r, params+"&limit=500")
		require.Equal(t, want, ids(got), params)
		require.Equal(t, len(want), got.Matched, params)
		require.Equal(t, 40, got.Total)
	}
}

func TestPagesOfASortedListJoinToTheWhole(t *testing.T) {
	t.Parallel()
	dir, r := grown(t, 50)
	entries, err := archive.ReadIndex(dir)
	require.NoError(t, err)
	slices.SortStableFunc(entries, func(a, b archive.Entry) int { return cmp.Compare(*b.Rewards.Total, *a.Rewards.Total) })
	var want, got []string
	for _, e := range entries {
		want = append(want, e.RolloutID)
	}
	for offset := range 6 {
		got = append(got, ids(list(t, r, "sort=-total&limit=10&offset="+[]string{"0", "10", "20", "30", "40", "50"}[offset]))...)
	}
	require.Equal(t, want, got)
}

func TestTextsAreSortedToo(t *testing.T) {
	t.Parallel()
	_, r := grown(t, 16)
	for _, sort := range []string{"termination", "-termination"} {
		var got []string
		for _, row := range list(t, r, "sort="+sort).Rows {
			got = append(got, row.Termination)
		}
		want := slices.Sorted(slices.Values(got))
		if sort[0] == '-' {
			slices.Reverse(want)
		}
		require.Equal(t, want, got, sort)
		require.NotEqual(t, want[0], want[len(want)-1])
	}
}

func TestNullStandsLastInBothDirections(t *testing.T) {
	t.Parallel()
	_, r := grown(t, 16)
	structural, _ := columnOf("structural")
	for _, sort := range []string{"structural", "-structural"} {
		page := list(t, r, "sort="+sort)
		last := false
		for _, row := range page.Rows {
			require.False(t, last && row.Numbers[structural] != nil, sort)
			last = row.Numbers[structural] == nil
		}
		require.True(t, last, "some rollout has no grounding")
	}
}

func TestAMistypedFilterIsRefused(t *testing.T) {
	t.Parallel()
	for _, params := range []string{"terminaton=x", "min.reward=1", "max.total=many", "min.total=NaN", "sort=best", "offset=-1", "limit=0", "disagree=perhaps"} {
		v, err := url.ParseQuery(params)
		require.NoError(t, err)
		_, err = parseQuery(v)
		key, _, _ := strings.Cut(params, "=")
		require.ErrorContains(t, err, key, params)
	}
}

func TestMeansAndDistributionsAreThoseOfTheIndex(t *testing.T) {
	t.Parallel()
	dir, r := grown(t, 40)
	entries, err := archive.ReadIndex(dir)
	require.NoError(t, err)
	o, err := r.overview(time.Now())
	require.NoError(t, err)
	total, right, claims, structural := 0.0, 0, 0.0, 0.0
	for _, e := range entries {
		total += *e.Rewards.Total
		if *e.Correct {
			right++
		}
		if e.Grounding.Structural != nil {
			claims += float64(e.Claims)
			structural += *e.Grounding.Structural * float64(e.Claims)
		}
	}
	means := map[string]*float64{}
	for _, m := range o.Stats.Means {
		means[m.Name] = m.Value
	}
	require.InDelta(t, total/40, *means["total"], 1e-12)
	require.InDelta(t, structural/claims, *means["structural"], 1e-12)
	require.Nil(t, means["replayed"], "nothing was replayed, so that there is no number")
	require.InDelta(t, float64(right)/40, *o.Stats.Accuracy, 1e-12)
	require.True(t, o.Stats.Timed)
	n := 0
	for _, b := range o.Stats.Buckets {
		n += b.N
	}
	require.Equal(t, 40, n)
	for _, h := range o.Stats.Histograms {
		sum := 0
		for _, bin := range h.Bins {
			sum += bin
		}
		require.Equal(t, 40, sum, h.Name)
	}
}

func TestAGroupsSpreadIsItsStandardDeviation(t *testing.T) {
	t.Parallel()
	_, r := grown(t, 8)
	p, err := r.groups(query{limit: 10}, "spread", true)
	require.NoError(t, err)
	require.Len(t, p.Groups, 2)
	require.GreaterOrEqual(t, *p.Groups[0].Spread, *p.Groups[1].Spread)
	for _, g := range p.Groups {
		total, _ := columnOf("total")
		sum, squares := 0.0, 0.0
		for _, row := range list(t, r, "group="+g.Group).Rows {
			sum += *row.Numbers[total]
		}
		for _, row := range list(t, r, "group="+g.Group).Rows {
			squares += math.Pow(*row.Numbers[total]-sum/4, 2)
		}
		require.InDelta(t, sum/4, *g.Mean, 1e-12)
		require.InDelta(t, math.Sqrt(squares/4), *g.Spread, 1e-12)
	}
}

func TestComparingARunWithItselfChangesNothingAndALossShowsFirst(t *testing.T) {
	t.Parallel()
	dir, a := grown(t, 8)
	same, err := compareRuns(a, a, 0, 10)
	require.NoError(t, err)
	require.Equal(t, []int{2, 0, 0}, []int{same.Both, same.Better, same.Worse})

	other := t.TempDir()
	require.NoError(t, viewertest.Grow(realRun, other, 8))
	path := filepath.Join(other, indexPath)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	lines := strings.SplitAfter(string(data), "\n")
	for i, line := range lines {
		if strings.Contains(line, `"prompt_id":"6"`) {
			lines[i] = strings.ReplaceAll(line, `"total":0.9`, `"total":0.1`)
		}
	}
	require.NoError(t, os.WriteFile(path, []byte(strings.Join(lines, "")), 0o644))
	diff, err := compareRuns(a, open(t, other), 0, 10)
	require.NoError(t, err)
	require.Equal(t, []int{2, 0, 1}, []int{diff.Both, diff.Better, diff.Worse}, dir)
	require.Equal(t, "6", diff.Pairs[0].Prompt)
	for _, h := range diff.Histograms {
		require.Equal(t, [2]float64{h[0].Min, h[0].Max}, [2]float64{h[1].Min, h[1].Max}, h[0].Name)
	}
	require.NotEqual(t, diff.Histograms[0][0].Bins, diff.Histograms[0][1].Bins)
	require.Negative(t, *diff.Pairs[0].Delta)
}

func TestJudgesDisagreeWhereAVoteIsSplitOrARightAnswerIsRefuted(t *testing.T) {
	t.Parallel()
	dir, _ := grown(t, 8)
	path := filepath.Join(dir, indexPath)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	lines := strings.SplitAfter(string(data), "\n")
	for i, line := range lines {
		switch {
		case strings.Contains(line, `"local/14-0/2"`): // refuted, and wrong by the rule
			lines[i] = strings.Replace(line, `"correct":false`, `"correct":true`, 1)
		case strings.Contains(line, `"local/6-0/0"`):
			lines[i] = strings.Replace(line, `"turns":`, `"split":2,"turns":`, 1)
		}
	}
	require.NoError(t, os.WriteFile(path, []byte(strings.Join(lines, "")), 0o644))
	r := open(t, dir)
	require.Equal(t, []string{"local/6-0/0", "local/14-0/2"}, ids(list(t, r, "disagree=true&sort=-disagree")))
	o, err := r.overview(time.Now())
	require.NoError(t, err)
	require.Equal(t, 2, o.Stats.Disagree)
}
