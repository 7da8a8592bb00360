package eval

import (
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"
)

// The expected values are scipy.stats.binomtest(b, b+c, 0.5) of scipy 1.16.
func TestMcNemarIsTheExactBinomialTestOnTheItemsThatOnlyOneSideGotRight(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		b, c int
		want float64
	}{{0, 0, 1}, {0, 1, 1}, {3, 9, 0.14599609375}, {10, 10, 1}, {0, 12, 0.00048828125}, {40, 65, 0.0187409154}, {1, 8, 0.0390625}} {
		require.InDelta(t, c.want, McNemar(c.b, c.c), 1e-6, "%d and %d", c.b, c.c)
		require.InDelta(t, c.want, McNemar(c.c, c.b), 1e-6, "the sides are equals")
	}
}

func TestPassAtKIsTheUnbiasedEstimateByCountingSubsets(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 12; n++ {
		for c := 0; c <= n; c++ {
			for k := 1; k <= n; k++ {
				none := new(big.Rat).SetFrac(new(big.Int).Binomial(int64(n-c), int64(k)), new(big.Int).Binomial(int64(n), int64(k)))
				want, _ := new(big.Rat).Sub(big.NewRat(1, 1), none).Float64()
				require.InDelta(t, want, PassAtK(n, c, k), 1e-12, "n %d c %d k %d", n, c, k)
			}
		}
	}
}

// The exact value is scipy.stats.permutation_test with permutation_type "samples" over all assignments.
func TestSignFlipCountsAllAssignmentsOfFewDifferencesAndDrawsThoseOfMany(t *testing.T) {
	t.Parallel()
	d := []float64{0.5, -0.25, 1, 0.75, 0.1, -0.6, 0.3}
	require.InDelta(t, 0.28125, SignFlip(d, newRand(1, "t")), 1e-12)
	require.InDelta(t, 0.28125, SignFlip(append(d, 0, 0, 0), newRand(1, "t")), 1e-12, "ties say nothing")
	require.Equal(t, 1.0, SignFlip([]float64{0, 0}, newRand(1, "t")))

	many := make([]float64, 40) // 28 against 12 of the same size: a sign test
	for i := range many {
		many[i] = 1
		if i >= 28 {
			many[i] = -1
		}
	}
	require.InDelta(t, McNemar(28, 12), SignFlip(many, newRand(7, "t")), 0.004)
	require.Equal(t, SignFlip(many, newRand(7, "t")), SignFlip(many, newRand(7, "t")), "a seed fixes it")
}

func TestIntervalsComeFromResampledItemsAndTheirSeedFixesThem(t *testing.T) {
	t.Parallel()
	values := make([]float64, 400)
	for i := range values {
		values[i] = truth(i%4 == 0)
	}
	a := interval(values, newRand(1, "x"))
	require.Equal(t, 0.25, a.Value)
	// The normal approximation of a binomial share: 1.96*sqrt(0.25*0.75/400) = 0.0424.
	require.InDelta(t, 0.25-0.0424, a.Low, 0.006)
	require.InDelta(t, 0.25+0.0424, a.High, 0.006)
	require.Equal(t, a, interval(values, newRand(1, "x")))
	require.NotEqual(t, bootstrapMeans(values, newRand(1, "x")), bootstrapMeans(values, newRand(2, "x")))
	require.Nil(t, interval(nil, newRand(1, "x")), "no items, no figure")
	require.InDelta(t, 1.1, quantile([]float64{1, 2, 4, 8, 16}, 0.025), 1e-12, "as numpy.quantile")
	require.InDelta(t, 15.2, quantile([]float64{1, 2, 4, 8, 16}, 0.975), 1e-12)
}
