package rollout

import (
	"strings"
)

// Pieces stands in for a tokenizer and a chat template where a text-only policy gives no ids: it
// counts and cuts text, nothing more. A piece is up to four ASCII bytes or three others, so that counts
// come near those of a byte-level BPE. A piece ends at every '>': no text after a closing tag can hang
// on to it. The zero value is ready.
type Pieces struct{}

// pieceEnd is the id of the end of a turn, which no text yields.
const pieceEnd int32 = 0

// An id is kind<<28 | bytes: kinds 1 to 4 hold that many bytes of 7 bits, kinds 5 to 7 hold 1 to 3 of 8.
const (
	pieceKindShift = 28
	pieceWide      = 4
)

// Encode gives the pieces of text.
func (Pieces) Encode(text string) []int32 {
	out := make([]int32, 0, len(text)/3+1)
	for i := 0; i < len(text); {
		n := narrow(text[i:])
		kind, bits := int32(n), 7
		if n == 0 {
			n = wide(text[i:])
			kind, bits = int32(pieceWide+n), 8
		}
		id := int32(0)
		for _, b := range []byte(text[i : i+n]) {
			id = id<<bits | int32(b)
		}
		out = append(out, kind<<pieceKindShift|id)
		i += n
	}
	return out
}

// narrow counts the ASCII bytes of the next piece, wide the others.
func narrow(text string) int {
	for n := range min(len(text), 4) {
		if text[n] >= 0x80 {
			return n
		}
		if text[n] == '>' {
			return n + 1
		}
	}
	return min(len(text), 4)
}

func wide(text string) int {
	if i := strings.IndexFunc(text[:min(len(text), 3)], func(r rune) bool { return r < 0x80 }); i > 0 {
		return i
	}
	return min(len(text), 3)
}

// TokenBytes implements policy.Vocabulary.
func (Pieces) TokenBytes(id int32) []byte {
	n, bits := int(id>>pieceKindShift), 7
	if n > pieceWide {
		n, bits = n-pieceWide, 8
	}
	out := make([]byte, n)
	for i := n - 1; i >= 0; i-- {
		out[i] = byte(id & (1<<bits - 1))
		id >>= bits
	}
	return out
}

// Special implements policy.Vocabulary: there are no control tokens.
func (Pieces) Special(string) (int32, bool) { return 0, false }

// Decode implements Tokenizer.
func (p Pieces) Decode(ids []int32) []byte {
	var out []byte
	for _, id := range ids {
		out = append(out, p.TokenBytes(id)...)
	}
	return out
}

// Prompt implements Chat.
func (p Pieces) Prompt(system, user string) []int32 { return p.Encode(system + "\n" + user) }

// Delta implements Chat.
func (p Pieces) Delta(_ bool, observation string) []int32 { return p.Encode(observation) }

// EndOfTurn implements Chat.
func (Pieces) EndOfTurn() int32 { return pieceEnd }

var (
	_ Tokenizer = Pieces{}
	_ Chat      = Pieces{}
	_ encoder   = Pieces{}
)
