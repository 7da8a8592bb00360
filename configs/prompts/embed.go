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

// CodeAct is the system prompt of the baseline that runs Python and answers in words.
//
//go:embed codeact.txt
var CodeAct string

// Direct is the system prompt of the baseline without tools.
//
//go:embed direct.txt
var Direct string

// DirectUser is the user message of that baseline: the fields of User, and Shown (name, text and note of each file).
//
//go:embed direct_user.txt
var DirectUser string

// Observation has the fields of rollout.Observation.
//
//go:embed observation.txt
var Observation string
