package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
)

// shortPiece is the length up to which scanning for the best pair beats a heap.
const shortPiece = 48

const noRank = math.MaxInt32

type merge struct {
	rank int32
	id   int32
}

func pair(a, b int32) uint64 { return uint64(uint32(a))<<32 | uint64(uint32(b)) }

// mergeList reads both forms: "a b" and ["a","b"].
type mergeList [][2]string

func (l *mergeList) UnmarshalJSON(data []byte) error {
	var pairs [][]string
	if json.Unmarshal(data, &pairs) == nil {
		*l = make(mergeList, len(pairs))
		for i, p := range pairs {
			if len(p) != 2 {
				return fmt.Errorf("merge %d: want two parts, got %d", i, len(p))
			}
			(*l)[i] = [2]string{p[0], p[1]}
		}
		return nil
	}
	var lines []string
	if err := json.Unmarshal(data, &lines); err != nil {
		return errors.New("merges: want a list of \"a b\" or of [\"a\", \"b\"]")
	}
	*l = make(mergeList, len(lines))
	for i, line := range lines {
		a, b, ok := strings.Cut(line, " ")
		if !ok || strings.Contains(b, " ") {
			return fmt.Errorf("merge %d: want two parts, got %q", i, line)
		}
		(*l)[i] = [2]string{a, b}
	}
	return nil
}

func (t *Tokenizer) addMerges(list mergeList) error {
	t.merges = make(map[uint64]merge, len(list))
	for rank, m := range list {
		a, errA := fromByteLevel(m[0])
		b, errB := fromByteLevel(m[1])
		if err := errors.Join(errA, errB); err != nil {
			return fmt.Errorf("merge %d: %w", rank, err)
		}
		ida, okA := t.ids[string(a)]
		idb, okB := t.ids[string(b)]
		id, ok := t.ids[string(a)+string(b)]
		if !okA || !okB || !ok {
			return fmt.Errorf("merge %d: %q + %q: a part or the whole is not in the vocabulary", rank, m[0], m[1])
		}
		t.merges[pair(ida, idb)] = merge{rank: int32(rank), id: id}
	}
	return nil
}

func (t *Tokenizer) appendText(out []int32, text string) []int32 {
	for i := 0; i < len(text); {
		end := nextPiece(text, i)
		out = t.appendPiece(out, text[i:end])
		i = end
	}
	return out
}

func (t *Tokenizer) appendPiece(out []int32, piece string) []int32 {
	if t.ignoreMerges {
		if id, ok := t.ids[piece]; ok {
			return append(out, id)
		}
	}
	if len(piece) > shortPiece {
		return t.appendLong(out, piece)
	}
	var idBuf, rankBuf [shortPiece]int32
	ids, ranks := idBuf[:len(piece)], rankBuf[:len(piece)]
	for i := range len(piece) {
		ids[i] = t.byteIDs[piece[i]]
	}
	for i := range ids {
		ranks[i] = t.rankAt(ids, i)
	}
	for {
		best := 0
		for i, r := range ranks {
			if r < ranks[best] {
				best = i
			}
		}
		if len(ranks) == 0 || ranks[best] == noRank {
			return append(out, ids...)
		}
		ids[best] = t.merges[pair(ids[best], ids[best+1])].id
		ids = append(ids[:best+1], ids[best+2:]...)
		ranks = append(ranks[:best+1], ranks[best+2:]...)
		ranks[best] = t.rankAt(ids, best)
		if best > 0 {
			ranks[best-1] = t.rankAt(ids, best-1)
		}
	}
}

// rankAt is the rank of the pair that begins at i.
func (t *Tokenizer) rankAt(ids []int32, i int) int32 {
	if i+1 >= len(ids) {
		return noRank
	}
	if m, ok := t.merges[pair(ids[i], ids[i+1])]; ok {
		return m.rank
	}
	return noRank
}

// appendLong does the same with a linked list and a heap of pairs, lowest rank and then leftmost
// first, so that one piece of a megabyte takes n log n steps.
func (t *Tokenizer) appendLong(out []int32, piece string) []int32 {
	n := len(piece)
	l := list{t: t, ids: make([]int32, n), next: make([]int32, n), prev: make([]int32, n)}
	for i := range n {
		l.ids[i], l.next[i], l.prev[i] = t.byteIDs[piece[i]], int32(i+1), int32(i-1)
	}
	for i := range n {
		l.push(int32(i))
	}
	for len(l.heap) > 0 {
		key := l.heap.pop()
		if at := int32(uint32(key)); l.rank(at) == int32(key>>32) {
			l.merge(at)
		}
	}
	for i := int32(0); i < int32(n); i = l.next[i] {
		out = append(out, l.ids[i])
	}
	return out
}

// list is the symbols of one piece; ids is -1 where a symbol was merged into its left neighbour.
type list struct {
	t          *Tokenizer
	ids        []int32
	next, prev []int32
	heap       pairHeap
}

// rank is that of the pair that begins at i, noRank if there is none (any more).
func (l *list) rank(i int32) int32 {
	if l.ids[i] < 0 || int(l.next[i]) >= len(l.ids) {
		return noRank
	}
	if m, ok := l.t.merges[pair(l.ids[i], l.ids[l.next[i]])]; ok {
		return m.rank
	}
	return noRank
}

func (l *list) push(i int32) {
	if r := l.rank(i); r != noRank {
		l.heap.push(uint64(r)<<32 | uint64(uint32(i)))
	}
}

func (l *list) merge(i int32) {
	right := l.next[i]
	l.ids[i] = l.t.merges[pair(l.ids[i], l.ids[right])].id
	l.ids[right] = -1
	l.next[i] = l.next[right]
	if int(l.next[i]) < len(l.ids) {
		l.prev[l.next[i]] = i
	}
	l.push(i)
	if l.prev[i] >= 0 {
		l.push(l.prev[i])
	}
}
