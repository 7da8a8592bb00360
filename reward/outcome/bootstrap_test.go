package outcome_test

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/reward/outcome"
)

// The official script takes its ROUGE-L over a set from `evaluate`, which takes it from rouge_score's
// BootstrapAggregator: the median of the means of 1,000 resamples, drawn from numpy's global generator under
// one seed for the whole run, which evaluate reads off the generator's state (from the operating system, as
// the script sets none). A set's figure is thus a function of its items and that seed; handedSeed is one under
// which all handed figures come out, two of which differ from the mean of the items' values.
const handedSeed = 3520

// bootstrapMid is rouge_score's middle value of the scores at a place in the list of score types; the types
// before it have drawn from the generator too.
func bootstrapMid(seed uint32, place int, values []float64) float64 {
	rng := seededTwister(seed)
	const resamples = 1000
	n := len(values)
	for range place * resamples * n {
		rng.below(n)
	}
	means := make([]float64, resamples)
	for i := range means {
		for range n {
			means[i] += values[rng.below(n)]
		}
		means[i] /= float64(n)
	}
	slices.Sort(means)
	return means[resamples/2-1] + (means[resamples/2]-means[resamples/2-1])/2
}

// rougeLPlace: rouge1, rouge2, rougeL, rougeLsum.
const rougeLPlace = 2

// twister is MT19937, which numpy.random.seed(int) and numpy.random.choice stand on.
type twister struct {
	state [624]uint32
	at    int
}

func seededTwister(seed uint32) *twister {
	t := &twister{at: 624}
	for i := range t.state {
		t.state[i] = seed
		seed = 1812433253*(seed^seed>>30) + uint32(i) + 1
	}
	return t
}

func (t *twister) next() uint32 {
	if t.at == 624 {
		for i := range t.state {
			y := t.state[i]&0x80000000 | t.state[(i+1)%624]&0x7fffffff
			t.state[i] = t.state[(i+397)%624] ^ y>>1 ^ y&1*0x9908b0df
		}
		t.at = 0
	}
	y := t.state[t.at]
	t.at++
	y ^= y >> 11
	y ^= y << 7 & 0x9d2c5680
	y ^= y << 15 & 0xefc60000
	return y ^ y>>18
}

// below draws as numpy's legacy choice does: masked to the bits of n-1, what is too large drawn again.
func (t *twister) below(n int) int {
	mask := uint32(n - 1)
	for shift := 1; shift < 32; shift *= 2 {
		mask |= mask >> shift
	}
	for {
		if v := int(t.next() & mask); v < n {
			return v
		}
	}
}

// rougeOracle holds what rouge_score itself gives for the fixture.
type rougeOracle struct {
	Items map[string]float64            `json:"items"`
	Mids  map[string]map[string]float64 `json:"mids"` // by seed and set
}

func readRougeOracle(t *testing.T) rougeOracle {
	t.Helper()
	data, err := os.ReadFile("testdata/tablebench-54-rouge.json")
	require.NoError(t, err)
	var o rougeOracle
	require.NoError(t, json.Unmarshal(data, &o))
	return o
}

func TestRougeOfEveryItemIsThePackagesOwn(t *testing.T) {
	t.Parallel()
	oracle := readRougeOracle(t)
	rule, err := outcome.TableBench("DataAnalysis", "CausalAnalysis", "")
	require.NoError(t, err)
	checked := 0
	for _, it := range lines[tableItem](t, "testdata/tablebench-54.jsonl") {
		if it.QType == "Visualization" {
			continue
		}
		require.InDelta(t, oracle.Items[it.ID], rule.Official(it.prediction(t), it.Answer), 1e-15, it.ID)
		checked++
	}
	require.Equal(t, 51, checked)
	require.Len(t, oracle.Items, checked)
}

func TestBootstrapDrawsAsNumpyDoes(t *testing.T) {
	t.Parallel()
	oracle := readRougeOracle(t)
	sets := rougeSets(t)
	require.Len(t, oracle.Mids, 3)
	for name, seed := range map[string]uint32{"0": 0, "1": 1, "3520": handedSeed} {
		for set, mid := range oracle.Mids[name] {
			require.InDelta(t, mid, bootstrapMid(seed, rougeLPlace, sets[set]), 1e-12, "seed %s, %s", name, set)
		}
	}
}
