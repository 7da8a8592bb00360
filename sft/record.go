package sft

import (
	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/rollout/compose"
	"github.com/verigraph/verigraph/trajectory"
)

// Record is one stored trajectory, or one finished sample of a foreign corpus.
type Record struct {
	// ID is the rollout id, or FILE:N for a finished sample.
	ID         string
	PromptID   string
	DataSource string
	// Licence is what the record itself states.
	Licence string
	// Where is the file it came from, for messages to a person.
	Where string
	// DataDir holds the data files by their SHA-256, where the input keeps them.
	DataDir string
	// Digest is the SHA-256 of what was read.
	Digest [32]byte

	// Scored is the trajectory with its score; nil for a finished sample. Verdicts says whether the input
	// keeps verdicts on derive edges (Parquet batches do not).
	Scored   *trajectory.Scored
	Verdicts bool
	// Report is what was composed from the submitted claims, if anything.
	Report *compose.Record
	// Finished are the messages of a finished sample, as they are.
	Finished []Message
}

// Message is one chat message. Loss is set on assistant messages only.
type Message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
	Loss    *bool  `json:"loss,omitempty"`
}

// Roles of a message.
const (
	System    = "system"
	User      = "user"
	Assistant = "assistant"
)

// Trained reports whether the loss covers the message; an assistant message without a flag is trained.
func (m Message) Trained() bool { return m.Role == Assistant && (m.Loss == nil || *m.Loss) }

// Tables are the content hashes of the data files that the record's graph knows, in the graph's order.
func (r *Record) Tables() []string {
	var out []string
	if r.Scored == nil {
		return nil
	}
	for i := range r.Scored.Trajectory.Graph.Nodes {
		if n := &r.Scored.Trajectory.Graph.Nodes[i]; n.Kind == evidence.NodeSource && n.SHA256 != "" {
			out = append(out, n.SHA256)
		}
	}
	return out
}

// Conversation are the record's messages without loss flags, an empty system message left out.
func (r *Record) Conversation() []Message {
	if r.Scored == nil {
		return r.Finished
	}
	var out []Message
	for _, m := range r.Scored.Trajectory.Messages {
		if m.Role != System || m.Content != "" {
			out = append(out, Message{Role: m.Role, Content: m.Content})
		}
	}
	return out
}

// Question is the first user message.
func (r *Record) Question() string {
	for _, m := range r.Conversation() {
		if m.Role == User {
			return m.Content
		}
	}
	return ""
}
