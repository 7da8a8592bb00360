// Package task holds what a rollout is asked to do: prompts, their data files and dispatches.
//
// The reference answer is deliberately not part of a Prompt: it travels apart, as a
// Reference, on a subject that only the reward server reads.
package task

import "encoding/json"

// Prompt is one task of the policy.
type Prompt struct {
	// ID is unique within a run.
	ID string `json:"id"`
	// Question is the whole text shown to the policy, constraints and answer format included.
	Question string `json:"question"`
	// Files are the task's data files, mounted read-only in every session of the task.
	Files []File `json:"files"`
	// DataSource names the benchmark or dataset; it selects the outcome rule.
	DataSource string `json:"data_source"`
	// Meta is passed through untouched (an object, or empty).
	Meta json.RawMessage `json:"meta,omitempty"`
	// Sampling overrides the worker's configuration; nil leaves it as it is.
	Sampling *Sampling `json:"sampling,omitempty"`
}

// Sampling is how one prompt wants its rollouts sampled; a nil field is as the worker is configured.
type Sampling struct {
	Temperature *float64 `json:"temperature,omitempty"`
	TopP        *float64 `json:"top_p,omitempty"`
	TopK        *int     `json:"top_k,omitempty"`
	// N is the size of the group.
	N *int `json:"n,omitempty"`
	// MaxTokens bounds one turn.
	MaxTokens *int `json:"max_tokens,omitempty"`
}

// File is one data file, addressed by content.
type File struct {
	// Name is the name that the policy sees in its data directory (no directory part).
	Name string `json:"name"`
	// SHA256 is the lower-case hex digest of the content.
	SHA256 string `json:"sha256"`
	// Size in bytes.
	Size int64 `json:"size"`
}

// Reference is the reference answer of one prompt. Only the reward side holds it.
type Reference struct {
	PromptID   string          `json:"prompt_id"`
	DataSource string          `json:"data_source"`
	Answers    []NamedAnswer   `json:"answers,omitempty"`
	Text       string          `json:"text,omitempty"` // free-text reference for LLM judges
	Meta       json.RawMessage `json:"meta,omitempty"`
}

// NamedAnswer is one required sub-answer, the pair of a DABench label.
type NamedAnswer struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Dispatch is one dispatch of one prompt: the group of GroupSize rollouts, the unit of work.
type Dispatch struct {
	// ID is NewDispatchID(prompt id, count); it is the group key (uid) everywhere.
	ID  string `json:"id"`
	Run string `json:"run"`
	// Index counts the run's dispatches in admission order, from 0.
	Index     int64  `json:"index"`
	Prompt    Prompt `json:"prompt"`
	GroupSize int    `json:"group_size"`
	// Seed is the dispatch's own seed; sample k derives its seeds from (Seed, k).
	Seed int64 `json:"seed"`
	// PolicyVersion is the newest version known at admission.
	PolicyVersion int64 `json:"policy_version"`
	// Validate marks a validation prompt, which bypasses filters and staleness.
	Validate bool `json:"validate,omitempty"`
	// Trace is the W3C traceparent of the prompt; empty where nothing is traced.
	Trace string `json:"trace,omitempty"`
}
