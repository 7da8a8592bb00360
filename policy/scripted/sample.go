package scripted

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"github.com/verigraph/verigraph/policy/chat"
	"github.com/verigraph/verigraph/policy/tokenizer"
	"github.com/verigraph/verigraph/task"
)

// splitEvery is the mean distance of tokens that are sampled as two smaller ones: real samples are
// now and then not what encoding their text would give.
const splitEvery = 12

// sampler turns scripted text into the ids that the policy samples.
type sampler struct {
	tok  *tokenizer.Tokenizer
	chat *chat.ChatML
}

// turn gives all ids of a turn, its end included: a pure function of rollout, turn and text,
// whatever the attempt or the version, so that a resumed turn goes on where it stopped.
func (s sampler) turn(id task.RolloutID, turn int, text string) []int32 {
	var out []int32
	for i, token := range s.tok.Encode(text) {
		h := positionHash(id, turn, i)
		if h%splitEvery == 0 {
			if a, b, ok := s.split(token, h/splitEvery); ok {
				out = append(out, a, b)
				continue
			}
		}
		out = append(out, token)
	}
	return append(out, s.chat.EndOfTurn())
}

func positionHash(id task.RolloutID, turn, position int) uint64 {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%s.%d.%d", id, turn, position)
	return mix(h.Sum64())
}

// split finds two tokens with the bytes of one, at a place chosen by h.
func (s sampler) split(token int32, h uint64) (a, b int32, ok bool) {
	text := s.tok.TokenBytes(token)
	cuts := len(text) - 1
	for i := range cuts {
		cut := 1 + (int(h%uint64(cuts))+i)%cuts
		a, okA := s.tok.TokenID(text[:cut])
		b, okB := s.tok.TokenID(text[cut:])
		if okA && okB {
			return a, b, true
		}
	}
	return 0, 0, false
}

// rest gives what is left of a turn when the prompt holds a part of it already. The part begins
// after the last assistant header; a prompt of another form is matched by its longest ending.
func (s sampler) rest(prompt, turn []int32) []int32 {
	header := s.chat.Header()
	for i := len(prompt) - len(header); i >= 0; i-- {
		if prompt[i] != header[0] {
			continue
		}
		part := prompt[i:]
		if slices.Equal(part[:len(header)], header) && len(part)-len(header) <= len(turn) {
			part = part[len(header):]
			if slices.Equal(part, turn[:len(part)]) {
				return turn[len(part):]
			}
		}
		break
	}
	for n := min(len(prompt), len(turn)); n > 0; n-- {
		if slices.Equal(prompt[len(prompt)-n:], turn[:n]) {
			return turn[n:]
		}
	}
	return turn
}

// limits are what can end a generation.
type limits struct {
	maxTokens   int
	stop        []string
	includeStop bool
	stopIDs     []int32
}

// generation is what one call sampled.
type generation struct {
	ids      []int32
	logprobs []float32
	finish   string
	reason   any // the stop string, the stop id, or nil
	text     string
}

// generate samples from rest until something ends it. Stop strings are looked for in this call's
// text only and after each token, so the last token may run past one.
func (s sampler) generate(prompt, rest []int32, version int64, l limits) generation {
	var g generation
	hash := NewPrefixHash(prompt)
	end := s.chat.EndOfTurn()
	var text []byte
	for i := 0; ; i++ {
		id := end
		if i < len(rest) {
			id = rest[i]
		}
		g.ids = append(g.ids, id)
		g.logprobs = append(g.logprobs, hash.LogProb(id, version))
		hash = hash.Push(id)
		before := len(text)
		text = append(text, s.tok.TokenBytes(id)...)
		switch at, stop := firstStop(text, before, l.stop); {
		case id == end, slices.Contains(l.stopIDs, id):
			g.finish = "stop"
			if id != end {
				g.reason = id
			}
			if !l.includeStop {
				text = text[:before]
			}
		case stop != "":
			g.finish, g.reason = "stop", stop
			if l.includeStop {
				at += len(stop)
			}
			text = text[:at]
		case len(g.ids) == l.maxTokens:
			g.finish = "length"
		default:
			continue
		}
		g.text = strings.ToValidUTF8(string(text), "\ufffd")
		return g
	}
}

// firstStop finds the earliest stop string that ends after before.
func firstStop(text []byte, before int, stops []string) (at int, stop string) {
	for _, s := range stops {
		from := max(0, before-len(s)+1)
		if i := strings.Index(string(text[from:]), s); i >= 0 && (stop == "" || from+i < at) {
			at, stop = from+i, s
		}
	}
	return at, stop
}
