// Package judgeprompts embeds the prompt templates of LLM judges. Each file defines the templates
// "system" and "user"; a judge records the SHA-256 of the file with every verdict.
package judgeprompts

import "embed"

// FS holds entails.txt and outcome.txt.
//
//go:embed *.txt
var FS embed.FS
