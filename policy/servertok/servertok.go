// Package servertok encodes text with a policy server's /tokenize, for models whose tokenizer.json is
// not at hand.
//
// Invariant: text from tools, data and users never yields a control token, although /tokenize
// matches control-token text. The rule: wherever the text holds the string of an added token, it is
// cut after that string's first character and the parts are encoded apart. The text itself stays as
// it is, ids join to the same bytes, and every cut is counted. What still holds a control token
// afterwards is an error.
package servertok

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"unicode/utf8"
)

// Server is what asks /tokenize; *policy.Client is one.
type Server interface {
	Tokenize(ctx context.Context, text string) ([]int32, error)
}

// Controls are the strings of added tokens in the Qwen family.
var Controls = []string{
	"<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|object_ref_end|>", "<|box_start|>", "<|box_end|>",
	"<|quad_start|>", "<|quad_end|>", "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>",
	"<tool_call>", "</tool_call>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>", "<|repo_name|>",
	"<|file_sep|>", "<tool_response>", "</tool_response>", "<think>", "</think>",
}

// Encoder is safe for concurrent use.
type Encoder struct {
	server   Server
	controls []string
	ids      map[int32]string
	special  map[string]int32
	cuts     atomic.Int64
}

// New asks the server which of the strings are single tokens there. The two of ChatML must be.
func New(ctx context.Context, server Server, controls []string) (*Encoder, error) {
	e := &Encoder{server: server, ids: map[int32]string{}, special: map[string]int32{}}
	for _, text := range controls {
		ids, err := server.Tokenize(ctx, text)
		if err != nil {
			return nil, fmt.Errorf("tokenize %q: %w", text, err)
		}
		if len(ids) == 1 {
			e.ids[ids[0]], e.special[text] = text, ids[0]
			e.controls = append(e.controls, text)
		}
	}
	for _, must := range []string{"<|im_start|>", "<|im_end|>"} {
		if _, ok := e.special[must]; !ok {
			return nil, fmt.Errorf("the server's tokenizer has no %s", must)
		}
	}
	return e, nil
}

// Special is the id of a control token.
func (e *Encoder) Special(text string) (int32, bool) {
	id, ok := e.special[text]
	return id, ok
}

// Cuts counts how often a text was cut so far.
func (e *Encoder) Cuts() int64 { return e.cuts.Load() }

// Encode gives ids of text that hold no control token.
func (e *Encoder) Encode(ctx context.Context, text string) ([]int32, error) {
	parts := Break(text, e.controls)
	e.cuts.Add(int64(max(len(parts)-1, 0)))
	var out []int32
	for _, part := range parts {
		ids, err := e.server.Tokenize(ctx, part)
		if err != nil {
			return nil, err
		}
		if i := slices.IndexFunc(ids, func(id int32) bool { return e.ids[id] != "" }); i >= 0 {
			return nil, fmt.Errorf("tokenize: text without %s gave its id %d", e.ids[ids[i]], ids[i])
		}
		out = append(out, ids...)
	}
	return out, nil
}

// Break cuts text after the first character of every control string in it, overlapping ones
// included. The parts join to the text, and none holds a control string.
func Break(text string, controls []string) []string {
	var parts []string
	start := 0
	for i := 0; i < len(text); {
		_, width := utf8.DecodeRuneInString(text[i:])
		if slices.ContainsFunc(controls, func(c string) bool { return strings.HasPrefix(text[i:], c) }) {
			parts = append(parts, text[start:i+width])
			start = i + width
		}
		i += width
	}
	if start < len(text) {
		parts = append(parts, text[start:])
	}
	return parts
}
