package near

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// jaccard of the word shingles, computed exactly.
func jaccard(a, b string, n int) float64 {
	set := func(text string) map[string]bool {
		words := strings.Fields(text)
		out := map[string]bool{}
		for i := 0; i+n <= len(words); i++ {
			out[strings.Join(words[i:i+n], " ")] = true
		}
		return out
	}
	x, y := set(a), set(b)
	both := 0
	for s := range x {
		if y[s] {
			both++
		}
	}
	return float64(both) / float64(len(x)+len(y)-both)
}

func text(r *rand.Rand, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("w%d", r.IntN(4000))
	}
	return out
}

func TestTheEstimateIsNearTheExactSimilarity(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	s := NewSketch(5)
	worst := 0.0
	for _, changes := range []int{0, 5, 20, 60, 150, 600} {
		a := text(r, 800)
		b := append([]string(nil), a...)
		for range changes {
			b[r.IntN(len(b))] = "changed"
		}
		x, y := strings.Join(a, " "), strings.Join(b, " ")
		one, two := s.Of(x), s.Of(y)
		worst = max(worst, math.Abs(Similarity(&one, &two)-jaccard(x, y, 5)))
	}
	require.Less(t, worst, 4*0.045, "four standard errors")
}

func TestCopiesAreFoundAndOtherTextsAreNot(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	s, index := NewSketch(5), NewIndex(0.8)
	originals := make([][]string, 300)
	for i := range originals {
		originals[i] = text(r, 400)
		sig := s.Of(strings.Join(originals[i], " "))
		require.Negative(t, index.Add(&sig), "text %d is new", i)
	}
	found := 0
	for i := range originals {
		c := append([]string(nil), originals[i]...)
		c[r.IntN(len(c))] = "changed"
		sig := s.Of(strings.ToUpper(strings.Join(c, ", ")))
		if at := index.Add(&sig); at == i {
			found++
		}
	}
	require.Equal(t, 300, found, "letter case and punctuation do not count")
}

func TestShortAndEmptyTextsHaveASignature(t *testing.T) {
	t.Parallel()
	s, index := NewSketch(5), NewIndex(0.8)
	a, b, empty := s.Of("two words"), s.Of("two", "words"), s.Of("")
	require.Equal(t, a, b)
	require.Negative(t, index.Add(&a))
	require.Zero(t, index.Add(&b))
	require.Negative(t, index.Add(&empty))
}

func BenchmarkSketch(b *testing.B) {
	t := strings.Join(text(rand.New(rand.NewPCG(1, 1)), 4000), " ")
	s := NewSketch(5)
	b.SetBytes(int64(len(t)))
	for b.Loop() {
		_ = s.Of(t)
	}
}
