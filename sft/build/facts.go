package build

import (
	"strings"

	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/sft"
	"github.com/verigraph/verigraph/sft/near"
)

// Facts are what is kept of a record between the phases.
type Facts struct {
	ID, PromptID, DataSource, Licence string
	Digest                            [32]byte
	Reason                            sft.Reason
	// Benchmark is the name and kind of match of a contaminated record; Findings the rules of the scan.
	Benchmark string
	Findings  []string
	Reward    float64
	Tables    []string
	Signature near.Signature
	Samples   []SampleFacts
	// TooLong are the kinds of its samples of which no trained turn fits.
	TooLong []sft.Kind

	Characters, Turns, FailedCells int
	Bind, Infer, Submit            int
	// ThinkBlocks counts blocks of reasoning in the stored turns, LeadingNewline turns that begin with a line end.
	ThinkBlocks, LeadingNewline int
	Compressed                  bool
	OtherTokenizer              bool
}

// SampleFacts are what quotas need of a sample, and how much of it fits.
type SampleFacts struct {
	ID              string
	Kind            sft.Kind
	Stage           int
	Keep            int // messages that fit
	Cut             bool
	Tokens, Trained int
}

// describe fills what the data card shows of a record, taken or not.
func (f *Facts) describe(r *sft.Record) {
	f.ID, f.PromptID, f.DataSource, f.Digest, f.Tables = r.ID, r.PromptID, r.DataSource, r.Digest, r.Tables()
	for _, m := range r.Conversation() {
		f.Characters += len([]rune(m.Content))
		if m.Role != sft.Assistant {
			continue
		}
		f.Turns++
		f.ThinkBlocks += strings.Count(m.Content, "</think>")
		if strings.HasPrefix(m.Content, "\n") {
			f.LeadingNewline++
		}
	}
	if r.Scored == nil {
		return
	}
	t := &r.Scored.Trajectory
	f.Reward = r.Scored.Score.Reward
	f.Compressed = len(t.Segments) > 1
	for i := range t.Turns {
		if t.Turns[i].HasCode && t.Turns[i].Status != "ok" {
			f.FailedCells++
		}
	}
	for i := range t.Graph.Nodes {
		switch t.Graph.Nodes[i].Kind {
		case evidence.NodeAtomic:
			f.Bind++
		case evidence.NodeDerived:
			f.Infer++
		}
	}
	if len(t.Graph.Submitted) > 0 {
		f.Submit++
	}
}
