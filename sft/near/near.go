// Package near finds near-duplicates: MinHash signatures over word shingles, and an index by LSH bands.
//
// The Go libraries for this were last changed in 2017, so that this is our own. Invariants: a signature depends
// on the text alone; Add compares with every record that shares a band and with no other, and two texts of
// similarity s share one with probability 1-(1-s^8)^16, which is 0.95 at 0.8 and 0.9999 at 0.9.
package near

import (
	"encoding/binary"
	"math"
	"math/bits"
	"unicode"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"
)

const (
	bands = 16
	rows  = 8
	size  = bands * rows
)

// Signature is the MinHash of a text; the zero value is that of a text without a shingle.
type Signature [size]uint32

// multipliers and offsets of the hash functions, fixed for good: stored signatures are compared.
var multipliers, offsets = func() (m, o [size]uint64) {
	x := uint64(0x9E3779B97F4A7C15)
	next := func() uint64 { // splitmix64
		x += 0x9E3779B97F4A7C15
		z := x
		z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
		z = (z ^ z>>27) * 0x94D049BB133111EB
		return z ^ z>>31
	}
	for i := range m {
		m[i], o[i] = next()|1, next()
	}
	return m, o
}()

// Sketch computes signatures. It is not safe for concurrent use.
type Sketch struct {
	shingle int
	words   []uint64 // hashes of the last words, a ring
	seen    map[uint64]struct{}
}

// NewSketch takes the number of words of a shingle.
func NewSketch(shingle int) *Sketch {
	return &Sketch{shingle: shingle, words: make([]uint64, shingle), seen: map[uint64]struct{}{}}
}

// Of gives the signature of texts, read as one. Words are runs of letters and digits in lower case. A text
// shorter than a shingle is one shingle.
func (s *Sketch) Of(texts ...string) Signature {
	clear(s.seen)
	n := 0
	for _, t := range texts {
		eachWord(t, func(w []byte) {
			s.words[n%s.shingle] = xxhash.Sum64(w)
			if n++; n >= s.shingle {
				s.seen[s.last(n)] = struct{}{}
			}
		})
	}
	var sig Signature
	if n == 0 {
		return sig
	}
	if n < s.shingle {
		s.seen[s.last(n)] = struct{}{}
	}
	for i := range sig {
		sig[i] = math.MaxUint32
	}
	for h := range s.seen {
		for i := range sig {
			if v := uint32((h*multipliers[i] + offsets[i]) >> 32); v < sig[i] {
				sig[i] = v
			}
		}
	}
	return sig
}

// last hashes the newest words in order.
func (s *Sketch) last(n int) uint64 {
	k := min(n, s.shingle)
	h := uint64(k)
	for i := n - k; i < n; i++ {
		h = bits.RotateLeft64(h, 23)*0x9E3779B97F4A7C15 ^ s.words[i%s.shingle]
	}
	return h
}

// eachWord gives the words of a text; the slice is reused.
func eachWord(text string, do func([]byte)) {
	var word []byte
	for i := 0; i < len(text); {
		c, n := rune(text[i]), 1
		if c >= utf8.RuneSelf {
			c, n = utf8.DecodeRuneInString(text[i:])
		}
		switch {
		case c >= 'a' && c <= 'z' || c >= '0' && c <= '9':
			word = append(word, byte(c))
		case c >= 'A' && c <= 'Z':
			word = append(word, byte(c+'a'-'A'))
		case c >= utf8.RuneSelf && (unicode.IsLetter(c) || unicode.IsDigit(c)):
			word = utf8.AppendRune(word, unicode.ToLower(c))
		default:
			if len(word) > 0 {
				do(word)
				word = word[:0]
			}
		}
		i += n
	}
	if len(word) > 0 {
		do(word)
	}
}

// Similarity estimates the Jaccard similarity of the shingles; its standard error is at most 0.045.
func Similarity(a, b *Signature) float64 {
	same := 0
	for i := range a {
		if a[i] == b[i] {
			same++
		}
	}
	return float64(same) / size
}

// Index holds signatures and finds the ones that are near a new one.
type Index struct {
	threshold  float64
	signatures []*Signature
	buckets    [bands]map[uint64][]int32
}

// NewIndex takes the similarity from which two texts are near.
func NewIndex(threshold float64) *Index {
	x := &Index{threshold: threshold}
	for i := range x.buckets {
		x.buckets[i] = map[uint64][]int32{}
	}
	return x
}

// Add keeps a signature unless one that is kept is near it: then it gives that one's number, else -1. Numbers
// count what was kept, from 0.
func (x *Index) Add(s *Signature) int {
	var keys [bands]uint64
	tried := map[int32]bool{}
	for b := range keys {
		keys[b] = s.band(b)
		for _, i := range x.buckets[b][keys[b]] {
			if tried[i] {
				continue
			}
			tried[i] = true
			if Similarity(s, x.signatures[i]) >= x.threshold {
				return int(i)
			}
		}
	}
	n := int32(len(x.signatures))
	x.signatures = append(x.signatures, s)
	for b, k := range keys {
		x.buckets[b][k] = append(x.buckets[b][k], n)
	}
	return -1
}

func (s *Signature) band(b int) uint64 {
	var buf [4 * rows]byte
	for i := range rows {
		binary.LittleEndian.PutUint32(buf[4*i:], s[b*rows+i])
	}
	return xxhash.Sum64(buf[:])
}
