package eval

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
)

// Interval is a figure with its 95 % percentile bootstrap interval.
type Interval struct {
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// replicates of every bootstrap, and permutations of every test.
const replicates = 2000

// newRand is the random source of one figure: its name keeps figures independent of each other's order.
func newRand(seed uint64, name string) *rand.Rand {
	h := uint64(14695981039346656037)
	for _, c := range []byte(name) {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return rand.New(rand.NewPCG(seed, h))
}

// bootstrapMeans are sorted means of resampled values. All samples of an item are one value, so that items
// are what is drawn.
func bootstrapMeans(values []float64, rng *rand.Rand) []float64 {
	out := make([]float64, replicates)
	for i := range out {
		sum := 0.0
		for range values {
			sum += values[rng.IntN(len(values))]
		}
		out[i] = sum / float64(len(values))
	}
	return out
}

// interval is the mean with the percentiles of its replicates; nil without values.
func interval(values []float64, rng *rand.Rand) *Interval {
	if len(values) == 0 {
		return nil
	}
	return around(mean(values), bootstrapMeans(values, rng))
}

func around(value float64, means []float64) *Interval {
	sorted := slices.Sorted(slices.Values(means))
	return &Interval{value, quantile(sorted, 0.025), quantile(sorted, 0.975)}
}

// quantile interpolates linearly between order statistics (numpy's default).
func quantile(sorted []float64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	low := int(math.Floor(at))
	high := min(low+1, len(sorted)-1)
	return sorted[low] + (at-float64(low))*(sorted[high]-sorted[low])
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// ratioInterval is the ratio of two sums over items with the interval of resampled items: micro means.
func ratioInterval(num, den []float64, rng *rand.Rand) *Interval {
	total := sum(den)
	if total == 0 {
		return nil
	}
	var ratios []float64
	for range replicates {
		n, d := 0.0, 0.0
		for range num {
			i := rng.IntN(len(num))
			n, d = n+num[i], d+den[i]
		}
		if d > 0 {
			ratios = append(ratios, n/d)
		}
	}
	return around(sum(num)/total, ratios)
}

func sum(values []float64) float64 {
	s := 0.0
	for _, v := range values {
		s += v
	}
	return s
}

// PassAtK is the unbiased estimate that one of k samples is right, of which c of n were:
// 1 - C(n-c, k)/C(n, k) (Chen et al. 2021, arXiv 2107.03374).
func PassAtK(n, c, k int) float64 {
	if k > n || k < 1 {
		return math.NaN()
	}
	if n-c < k {
		return 1
	}
	none := 1.0
	for i := n - c + 1; i <= n; i++ {
		none *= 1 - float64(k)/float64(i)
	}
	return 1 - none
}

// McNemar is the exact two-sided test on b and c, the items that only one side got right: under the null
// each falls on either side like a coin.
func McNemar(b, c int) float64 {
	n := b + c
	if n == 0 {
		return 1
	}
	tail := new(big.Int)
	for i := 0; i <= min(b, c); i++ {
		tail.Add(tail, new(big.Int).Binomial(int64(n), int64(i)))
	}
	p := new(big.Rat).SetFrac(tail.Lsh(tail, 1), new(big.Int).Lsh(big.NewInt(1), uint(n)))
	v, _ := p.Float64()
	return min(v, 1)
}

// SignFlip is the paired permutation test on the mean of differences: under the null each difference is as
// likely with the other sign. Up to 14 differences that are not 0 all assignments are counted, else drawn ones, the
// given one among them.
func SignFlip(differences []float64, rng *rand.Rand) float64 {
	var d []float64
	observed := 0.0
	for _, v := range differences {
		if v != 0 {
			d = append(d, v)
			observed += v
		}
	}
	if len(d) == 0 {
		return 1
	}
	limit := math.Abs(observed) * (1 - 1e-12)
	if len(d) <= 14 {
		extreme := 0
		for bits := range 1 << len(d) {
			s := 0.0
			for i, v := range d {
				if bits>>i&1 == 1 {
					v = -v
				}
				s += v
			}
			if math.Abs(s) >= limit {
				extreme++
			}
		}
		return float64(extreme) / float64(int(1)<<len(d))
	}
	extreme := 1
	for range 5*replicates - 1 {
		s := 0.0
		for _, v := range d {
			if rng.Uint64()&1 == 1 {
				v = -v
			}
			s += v
		}
		if math.Abs(s) >= limit {
			extreme++
		}
	}
	return float64(extreme) / float64(5*replicates)
}
