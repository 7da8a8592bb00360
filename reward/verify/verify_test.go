package verify_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/internal/patience"
	"github.com/verigraph/verigraph/reward/gov"
	"github.com/verigraph/verigraph/reward/verify"
)

func TestMain(m *testing.M) { patience.Main(m) }

func triangles(t *testing.T) []verify.Item {
	t.Helper()
	f, err := os.Open("testdata/number_triangle.csv")
	require.NoError(t, err)
	defer f.Close()
	items, err := verify.ReadTriangles(f)
	require.NoError(t, err)
	require.Len(t, items, 40)
	return items
}

func process(t *testing.T) []verify.Item {
	t.Helper()
	f, err := os.Open("testdata/processbench_gsm8k_24.jsonl")
	require.NoError(t, err)
	defer f.Close()
	items, err := verify.ReadProcessBench(f)
	require.NoError(t, err)
	require.Len(t, items, 24)
	return items
}

func run(t *testing.T, items []verify.Item, m verify.Method) []verify.Prediction {
	t.Helper()
	p, err := verify.Run(t.Context(), items, m, 4)
	require.NoError(t, err)
	return p
}

func requireRight(t *testing.T, predictions []verify.Prediction) {
	t.Helper()
	for _, p := range predictions {
		require.True(t, p.Right(), "%s: %d %s, label %d", p.Item.ID, p.Place, p.Failed, p.Item.Label)
	}
}

func requirePerfect(t *testing.T, predictions []verify.Prediction) {
	t.Helper()
	requireRight(t, predictions)
	for _, s := range verify.ByGroup(predictions) {
		require.InDelta(t, 1, s.F1, 0)
		t.Logf("%-6s wrong %d right %d F1 %.3f calls %d saved %d", s.Group, s.Wrong, s.Right, s.F1, s.Calls, s.Saved)
	}
}

func TestAdderSolvesEveryHandedTriangleWithoutAModel(t *testing.T) {
	t.Parallel()
	predictions := run(t, triangles(t), verify.Graph(verify.Adder{}, gov.Defaults()))
	requirePerfect(t, predictions)
	groups := verify.ByGroup(predictions)
	require.Len(t, groups, 5)
	for i, n := range []int{2, 4, 6, 8} {
		require.Equal(t, fmt.Sprintf("N=%d", n), groups[i].Group)
		require.Equal(t, 10*n*(n-1)/2, groups[i].Calls+groups[i].Saved, "N(N-1)/2 sums an item")
	}
	require.Positive(t, groups[4].Saved, "nothing is asked after the first wrong sum")
	requirePerfect(t, run(t, triangles(t), verify.Holistic(verify.Adder{})))
}

func TestGeneratedTrianglesHoldOneErrorWhereTheirLabelSays(t *testing.T) {
	t.Parallel()
	var a, b, other bytes.Buffer
	require.NoError(t, verify.WriteTriangles(&a, 7, []int{2, 4, 6, 8}, 25))
	require.NoError(t, verify.WriteTriangles(&b, 7, []int{2, 4, 6, 8}, 25))
	require.NoError(t, verify.WriteTriangles(&other, 8, []int{2, 4, 6, 8}, 25))
	require.Equal(t, a.String(), b.String(), "a function of the seed")
	require.NotEqual(t, a.String(), other.String())
	items, err := verify.ReadTriangles(&a)
	require.NoError(t, err)
	require.Len(t, items, 200)
	layers := map[int]int{}
	for _, it := range items {
		var wrong []int
		for _, u := range it.Units {
			var x, y, z int64
			_, err := fmt.Sscanf(u.Text, "%d + %d = %d", &x, &y, &z)
			require.NoError(t, err)
			if x+y != z {
				wrong = append(wrong, u.Place)
			}
		}
		if it.Label == verify.NoError {
			require.Empty(t, wrong, it.ID)
			continue
		}
		require.Equal(t, []int{it.Label}, wrong, it.ID)
		layers[it.Label]++
	}
	for layer := 1; layer <= 7; layer++ {
		require.Positive(t, layers[layer], "errors stand in every layer")
	}
	requirePerfect(t, run(t, items, verify.Graph(verify.Adder{}, gov.Defaults())))
	require.ErrorContains(t, verify.WriteTriangles(&a, 1, []int{1}, 1), "size 1")
}

func TestAdderSeesOperandsThatComeFromNowhere(t *testing.T) {
	t.Parallel()
	text := "id,problem,N,number,response,final_answer,label\n" +
		`x,"Given 3 numbers at layer 0: 1, 2, 3. Sum.",3,"1, 2, 3","Step 1 (Calculating Layer 1 from Layer 0):` + "\n  1 + 2 = 3\n  2 + 3 = 5\n\n" +
		"Step 2 (Calculating Layer 2 from Layer 1):\n  %s\n" + `Final Answer: 8.",True,%d` + "\n"
	for sum, label := range map[string]int{"3 + 5 = 8": -1, "3 + 6 = 9": 2, "3 + 5 = 9": 2} {
		items, err := verify.ReadTriangles(strings.NewReader(fmt.Sprintf(text, sum, label)))
		require.NoError(t, err)
		requireRight(t, run(t, items, verify.Graph(verify.Adder{}, gov.Defaults())))
	}
	items, err := verify.ReadTriangles(strings.NewReader(fmt.Sprintf(text, "no sum here", -1)))
	require.NoError(t, err)
	require.Len(t, items[0].Units, 2)
	items, err = verify.ReadTriangles(strings.NewReader(fmt.Sprintf(text, "3 + 5 = 8\n  5 + 8 = 13", -1)))
	require.NoError(t, err)
	p := run(t, items, verify.Graph(verify.Adder{}, gov.Defaults()))
	require.Contains(t, p[0].Failed, "more sums than pairs")
	require.False(t, p[0].Right(), "what can't be read is no 'no error'")
}

// oracle knows the labels; it keeps what it was shown, and fails on items of fail.
type oracle struct {
	items []verify.Item
	fail  string
	lazy  bool // always right
	shown atomic.Int64
}

func (o *oracle) find(problem, unit string) (verify.Item, int) {
	for _, it := range o.items {
		if it.Problem == problem {
			if i := slices.IndexFunc(it.Units, func(u verify.Unit) bool { return u.Text == unit }); i >= 0 {
				return it, i
			}
		}
	}
	return verify.Item{}, -1
}

func (o *oracle) Correct(_ context.Context, problem string, earlier []string, unit string) (bool, error) {
	it, at := o.find(problem, unit)
	if it.ID == o.fail {
		return false, errors.New("judge is down")
	}
	if len(earlier) != at {
		return false, fmt.Errorf("unit %d of %s was shown beside %d earlier ones", at, it.ID, len(earlier))
	}
	o.shown.Add(1)
	return o.lazy || at != it.Label, nil
}

func inclusive() gov.Config {
	c := gov.Defaults()
	c.Granularity, c.Context = gov.Block, gov.Inclusive
	return c
}

func TestProcessBenchIsVerifiedStepByStepBesideAllEarlierSteps(t *testing.T) {
	t.Parallel()
	items := process(t)
	judge := &oracle{items: items}
	predictions := run(t, items, verify.Graph(judge, inclusive()))
	requirePerfect(t, predictions)
	want := 0
	for _, it := range items {
		if it.Label == verify.NoError {
			want += len(it.Units)
		} else {
			want += it.Label + 1
		}
	}
	require.EqualValues(t, want, judge.shown.Load(), "nothing after the first wrong step")
}

func TestMetricIsTheHarmonicMeanAndFailuresAreWrong(t *testing.T) {
	t.Parallel()
	items := process(t)
	lazy := verify.Measure("", run(t, items, verify.Graph(&oracle{items: items, lazy: true}, inclusive())))
	require.InDelta(t, 1, lazy.CorrectAccuracy, 0)
	require.Zero(t, lazy.ErrorAccuracy)
	require.Zero(t, lazy.F1, "agreeing with everything is worth nothing")

	right := items[slices.IndexFunc(items, func(it verify.Item) bool { return it.Label == verify.NoError })]
	s := verify.Measure("", run(t, items, verify.Graph(&oracle{items: items, fail: right.ID}, inclusive())))
	require.Equal(t, 1, s.Failed)
	require.InDelta(t, 11.0/12, s.CorrectAccuracy, 1e-12)
	require.InDelta(t, 1, s.ErrorAccuracy, 0)
	require.InDelta(t, 2*(11.0/12)/(1+11.0/12), s.F1, 1e-12)
	require.Equal(t, verify.Score{}, verify.Measure("", nil))
}

// whole answers the holistic question by the label, off by one, or out of range.
type whole struct {
	items []verify.Item
	shift int
}

func (w whole) FirstError(_ context.Context, problem string, units []string) (int, error) {
	for _, it := range w.items {
		if it.Problem == problem && len(it.Units) == len(units) && it.Units[0].Text == units[0] {
			return it.Label + w.shift, nil
		}
	}
	return 0, errors.New("unknown item")
}

func TestHolisticBaselineIsOneCallAnItemAndOutOfRangeIsWrong(t *testing.T) {
	t.Parallel()
	items := process(t)
	predictions := run(t, items, verify.Holistic(whole{items, 0}))
	requirePerfect(t, predictions)
	require.Equal(t, 24, verify.Measure("", predictions).Calls)
	for _, p := range run(t, items, verify.Holistic(whole{items, 100})) {
		require.NotEmpty(t, p.Failed)
		require.False(t, p.Right())
	}
}

func TestBrokenFilesAreRefusedByLine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"id": "a-1", "steps": ["x"], "label": 1}`: "line 1", `{"id": "a-1", "steps": ["x"]}`: "label is missing", `{`: "line 1",
	} {
		_, err := verify.ReadProcessBench(strings.NewReader(text))
		require.ErrorContains(t, err, want)
	}
	_, err := verify.ReadTriangles(strings.NewReader("a,b\n"))
	require.ErrorContains(t, err, "first line")
	_, err = verify.ReadTriangles(strings.NewReader("id,problem,N,number,response,final_answer,label\na,b,2,c,d,True,x\n"))
	require.ErrorContains(t, err, "record 1: label")
}
