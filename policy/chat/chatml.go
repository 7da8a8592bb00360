// Package chat renders conversations in the ChatML form of the Qwen family straight to ids.
//
// Invariants: only the template itself yields control tokens, text from users, tools and data is
// encoded as ordinary characters; and what Delta appends after a turn is exactly what one rendering
// of the whole conversation would hold there, so a token log only ever grows.
package chat

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/verigraph/verigraph/policy/tokenizer"
)

const (
	startToken = "<|im_start|>"
	endToken   = "<|im_end|>"
	padToken   = "<|endoftext|>"

	responseOpen  = "<tool_response>"
	responseClose = "</tool_response>"
)

// templateText is the template as text; its hash names the rendering in batch metadata.
const templateText = "{% if system %}<|im_start|>system\n{system}<|im_end|>\n{% endif %}" +
	"<|im_start|>user\n{user}<|im_end|>\n" +
	"{% for turn %}<|im_start|>assistant\n{ids}<|im_end|>\n<|im_start|>user\n{observation}<|im_end|>\n{% endfor %}" +
	"<|im_start|>assistant\n"

// ChatML is immutable and safe for concurrent use.
type ChatML struct {
	tok        *tokenizer.Tokenizer
	start, end int32
	pad        int32
	newline    []int32
	header     []int32
	noThink    bool
	base       []int32 // the synthetic [system, user] that deltas are rendered against
}

// Option changes the rendering.
type Option func(*ChatML)

// Thinking false is the template's enable_thinking=false: every assistant header is followed by an
// empty block of reasoning, which the policy did not write.
func Thinking(on bool) Option { return func(c *ChatML) { c.noThink = !on } }

// emptyReasoning is what the template writes after a header when thinking is off.
const emptyReasoning = "<think>\n\n</think>\n\n"

// New fails if the tokenizer lacks the control tokens, or if a conversation's rendering is not a
// prefix extension of the one before it.
func New(tok *tokenizer.Tokenizer, options ...Option) (*ChatML, error) {
	c := &ChatML{tok: tok}
	for _, o := range options {
		o(c)
	}
	var ok bool
	if c.start, ok = tok.Special(startToken); !ok {
		return nil, fmt.Errorf("chat: the tokenizer has no %s", startToken)
	}
	if c.end, ok = tok.Special(endToken); !ok {
		return nil, fmt.Errorf("chat: the tokenizer has no %s", endToken)
	}
	if c.pad, ok = tok.Special(padToken); !ok {
		c.pad = c.end
	}
	c.newline = tok.Encode("\n")
	c.header = append([]int32{c.start}, tok.Encode("assistant\n")...)
	if c.noThink {
		c.header = append(c.header, tok.EncodeSpecial(emptyReasoning)...)
	}
	c.base = c.render(baseMessages, false)
	probe := append(slices.Clone(baseMessages), message{observation, "\n observation \n"})
	full := c.render(probe, true)
	if len(full) <= len(c.base) || !slices.Equal(full[:len(c.base)], c.base) {
		return nil, fmt.Errorf("chat: rendering [system, user, user] does not extend [system, user]")
	}
	tail := append([]int32{c.end}, c.newline...)
	if !slices.Equal(c.base[len(c.base)-len(tail):], tail) {
		return nil, fmt.Errorf("chat: a turn does not end with %s and a newline", endToken)
	}
	return c, nil
}

type message struct{ role, text string }

// observation is a role of its own: its outer tags are the template's, those of a user's text are not.
const observation = "observation"

func (m message) header() string {
	if m.role == observation {
		return "user\n"
	}
	return m.role + "\n"
}

// A base with an assistant turn would be wrong: Qwen3 renders a last assistant turn differently
// from an earlier one.
var baseMessages = []message{{"system", "s"}, {"user", "u"}}

// Prompt renders the first context up to and including the assistant header. An empty system text
// leaves the system turn out.
func (c *ChatML) Prompt(system, user string) []int32 {
	var msgs []message
	if system != "" {
		msgs = append(msgs, message{"system", system})
	}
	return c.render(append(msgs, message{"user", user}), true)
}

// Delta gives the ids to append, all with mask 0, after an assistant turn: the end of the turn if
// the policy did not sample it itself (closed is false), the newline that follows it, the
// observation as a user turn and the next assistant header.
//
// An observation's outermost <tool_response> tags belong to the template: they become the
// tokenizer's added tokens where it has them. Everything between them is ordinary characters.
func (c *ChatML) Delta(closed bool, text string) []int32 {
	var out []int32
	if !closed {
		out = append(out, c.end)
	}
	out = append(out, c.newline...)
	full := c.render(append(slices.Clone(baseMessages), message{observation, text}), true)
	return append(out, full[len(c.base):]...)
}

// Header is what ends every prompt: <|im_start|>assistant and a newline, and the empty reasoning
// where thinking is off.
func (c *ChatML) Header() []int32 { return slices.Clone(c.header) }

// EndOfTurn is the id of <|im_end|>.
func (c *ChatML) EndOfTurn() int32 { return c.end }

// Pad is the id of <|endoftext|>, or of <|im_end|> where there is none.
func (c *ChatML) Pad() int32 { return c.pad }

// SHA256 is the lower-case hex digest of the template's text form.
func (c *ChatML) SHA256() string {
	text := templateText
	if c.noThink {
		text += emptyReasoning
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// render encodes each stretch between control tokens in one piece, because a text's leading
// newlines merge with the newline of the header.
func (c *ChatML) render(msgs []message, header bool) []int32 {
	var out []int32
	for _, m := range msgs {
		out = append(out, c.start)
		out = c.appendBody(out, m)
		out = append(out, c.end)
		out = append(out, c.newline...)
	}
	if header {
		out = append(out, c.header...)
	}
	return out
}

func (c *ChatML) appendBody(out []int32, m message) []int32 {
	open, hasOpen := c.tok.Special(responseOpen)
	closing, hasClose := c.tok.Special(responseClose)
	inner, ok := strings.CutPrefix(m.text, responseOpen)
	if ok {
		inner, ok = strings.CutSuffix(inner, responseClose)
	}
	if m.role != observation || !ok || !hasOpen || !hasClose {
		return append(out, c.tok.Encode(m.header()+m.text)...)
	}
	out = append(append(out, c.tok.Encode(m.header())...), open)
	return append(append(out, c.tok.Encode(inner)...), closing)
}
