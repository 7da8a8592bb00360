// Package prompts embeds the shipped prompt templates (text/template).
package prompts

import _ "embed"

// System is the system prompt; it has no fields.
//
//go:embed system.txt
var System string

// User has the fields Question (string) and Files (names).
//
//go:embed user.txt
var User string

// Observation has the fields of rollout.Observation.
//
//go:embed observation.txt
var Observation string
