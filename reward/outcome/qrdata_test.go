package outcome_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/reward/outcome"
)

// The official column is what eval.py of the benchmark gives, its faults included.
func TestQRDataComparesNumbersWithinThreePercentAndChoices(t *testing.T) {
	t.Parallel()
	number, err := outcome.QRData("numerical")
	require.NoError(t, err)
	choice, err := outcome.QRData("multiple_choice")
	require.NoError(t, err)
	for _, c := range []struct {
		rule            outcome.Rule
		got, want       string
		official, fixed float64
	}{
		{number, "102.9", "100", 1, 1},
		{number, "103", "100", 0, 1}, // the bounds of the script are open
		{number, "103.1", "100", 0, 0},
		{number, "-2.05", "-2", 1, 1},
		{number, "2", "-2", 0, 0},
		{number, "45%", "0.45", 1, 1},
		{number, "0", "0", 0, 1},
		{number, "1,510", "1510", 0, 1},
		{number, "5 to 700", "5", 1, 0},
		{number, "about 5", "5", 1, 0},
		{number, "none", "5", 0, 0},
		{choice, "Yes", "yes", 1, 1},
		{choice, "not known", "no", 1, 0},
		{choice, "A.", "A", 1, 1},
		{choice, "the answer is A", "A", 0, 0},
	} {
		require.Equal(t, c.official, c.rule.Official(c.got, c.want), "official %q for %q", c.got, c.want)
		require.Equal(t, c.fixed, c.rule.Fixed(c.got, c.want), "fixed %q for %q", c.got, c.want)
	}
	_, err = outcome.QRData("essay")
	require.ErrorContains(t, err, `"essay"`)
}
