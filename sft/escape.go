package sft

import (
	"strings"

	"github.com/verigraph/verigraph/policy/servertok"
)

// Trainers tokenize the text of messages with control tokens matched, so that a printed <|im_end|> would
// become a real one. Escape breaks such text with a zero-width space after its first character.

// breaker stands inside broken control text; no tokenizer matches across it.
const breaker = "\u200b"

// mediaTags are read as images, sound and film by multimodal templates.
var mediaTags = []string{"<image>", "<video>", "<audio>", "<bbox>", "<ref-object>", "<cot-process>", "<start-image>"}

// Escaper breaks control text; Extra are the added tokens of the target's tokenizer.
type Escaper struct{ hard, all []string }

// NewEscaper knows the Qwen family's added tokens, the media tags and extra.
func NewEscaper(extra []string) *Escaper {
	e := &Escaper{}
	for _, c := range append(append(append([]string{}, servertok.Controls...), mediaTags...), extra...) {
		e.all = append(e.all, c)
		if !strings.HasSuffix(c, "think>") && !strings.HasSuffix(c, "tool_response>") {
			e.hard = append(e.hard, c)
		}
	}
	return e
}

const (
	responseOpen  = "<tool_response>"
	responseClose = "</tool_response>"
)

// Message gives the text that trainers may tokenize, and how often it was broken. In what data, tools and
// people wrote every control string is broken, but for an observation's own outer tags. In the system
// prompt and the assistant's text the tags of reasoning and of observations stay: they are the protocol.
func (e *Escaper) Message(m Message, observation bool) (string, int) {
	switch {
	case m.Role != User:
		return broken(m.Content, e.hard)
	case observation:
		if inner, ok := strings.CutPrefix(m.Content, responseOpen); ok {
			if inner, ok = strings.CutSuffix(inner, responseClose); ok {
				text, n := broken(inner, e.all)
				return responseOpen + text + responseClose, n
			}
		}
	}
	return broken(m.Content, e.all)
}

func broken(text string, controls []string) (string, int) {
	if !strings.ContainsRune(text, '<') { // every control string begins with it
		return text, 0
	}
	if !holds(text, controls) {
		return text, 0
	}
	parts := servertok.Break(text, controls)
	return strings.Join(parts, breaker), len(parts) - 1
}

// holds is a quick look, since nearly no text holds one.
func holds(text string, controls []string) bool {
	for i := strings.IndexByte(text, '<'); i >= 0; {
		for _, c := range controls {
			if strings.HasPrefix(text[i:], c) {
				return true
			}
		}
		next := strings.IndexByte(text[i+1:], '<')
		if next < 0 {
			return false
		}
		i += 1 + next
	}
	return false
}

// Escape gives a copy of the sample's messages with control text broken.
func (e *Escaper) Escape(s *Sample) ([]Message, int) {
	out, total := make([]Message, len(s.Messages)), 0
	for i, m := range s.Messages {
		text, n := e.Message(m, m.Role == User && i > 0 && s.Messages[i-1].Role == Assistant)
		m.Content = text
		out[i], total = m, total+n
	}
	return out, total
}
