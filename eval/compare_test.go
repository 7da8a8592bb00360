package eval

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestComparisonLooksAtSharedItemsOnlyAndStatesTheOthers(t *testing.T) {
	t.Parallel()
	var a, b []Record
	for i := range 30 {
		item := string(rune('A' + i))
		x, y := 1.0, 1.0
		switch {
		case i < 9:
			y = 0 // A alone is right
		case i < 12:
			x = 0
		}
		a, b = append(a, record(DABench, item, 0, x)), append(b, record(DABench, item, 0, y))
	}
	a = append(a, record(DABench, "only a", 0, 1), record(TableBench, "t", 0, 1))
	b = append(b, Record{Benchmark: DABench, Item: "lost", State: Lost}, record(DABench, "only b", 0, 1))
	a = append(a, record(DABench, "lost", 0, 1))
	got := Compare(a, b, 1)
	require.Len(t, got, 2)
	c := got[0]
	require.Equal(t, [4]int{30, 1, 1, 1}, [4]int{c.Shared, c.OnlyA, c.OnlyB, c.Open})
	require.InDelta(t, 90, c.A, 1e-9)
	require.InDelta(t, 70, c.B, 1e-9)
	require.InDelta(t, 20, c.Difference.Value, 1e-9)
	require.Equal(t, "mcnemar", c.Test)
	require.InDelta(t, 0.14599609375, c.P, 1e-9, "9 against 3")
	require.Equal(t, "no item has a score on both sides", got[1].Note)
	var text strings.Builder
	require.NoError(t, WriteComparison(&text, "x", "y", got))
	require.Contains(t, text.String(), "| DABench | 30 | 90.00 | 70.00 | 20.00 [")
	require.Contains(t, text.String(), "DABench: not compared are 1 items of A alone, 1 of B alone, and 1 without a score on a side.")

	again := Compare(b, a, 1)[0]
	require.InDelta(t, -20, again.Difference.Value, 1e-9)
	require.Equal(t, c.P, again.P)
}

func TestMeansOfSeveralSamplesAreComparedBySignFlips(t *testing.T) {
	t.Parallel()
	var a, b []Record
	for i := range 6 {
		item := string(rune('A' + i))
		a = append(a, record(DABench, item, 0, 1), record(DABench, item, 1, 1))
		b = append(b, record(DABench, item, 0, 1), record(DABench, item, 1, 0))
	}
	c := Compare(a, b, 1)[0]
	require.Equal(t, "sign_flip", c.Test)
	require.InDelta(t, 2.0/64, c.P, 1e-12, "all six differ the same way: 2 of 2^6")
}
