// Package judgeprompts embeds the prompt templates of LLM judges. Each file defines the templates
// "system" and "user"; a judge records the SHA-256 of the file with every verdict.
package judgeprompts

import "embed"

// FS holds entails.txt and block.txt (derived claims), outcome.txt, closed.txt and open.txt (answers),
// support.txt and split.txt (the evidence of single claims, for evaluations), step.txt and holistic.txt (free-standing verification), and canaries.json, steps with known verdicts.
//
//go:embed *.txt canaries.json
var FS embed.FS
