package servertok

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Controls are the strings of added tokens in the Qwen family.
var Controls = []string{
	"<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|object_ref_end|>", "<|box_start|>", "<|box_end|>",
	"<|quad_start|>", "<|quad_end|>", "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>",
	"<tool_call>", "</tool_call>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>", "<|repo_name|>",
	"<|file_sep|>", "<tool_response>", "</tool_response>", "<think>", "</think>",
}

// Break cuts text after the first character of every control string in it, overlapping ones included:
// the rule for text that others encode with control tokens matched. The parts join to the text, and
// none holds a control string.
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
