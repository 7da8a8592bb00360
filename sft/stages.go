package sft

import (
	"fmt"
	"strings"

	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/rollout/compose"
	"github.com/verigraph/verigraph/trajectory"
)

// FailedCells says what becomes of a turn whose cell did not succeed.
type FailedCells string

// A failed cell stays as context that is not trained, is trained like any other, or its trajectory is
// rejected.
const (
	FailedContext FailedCells = "context"
	FailedTrain   FailedCells = "train"
	FailedReject  FailedCells = "reject"
)

// Samples are all samples that an accepted record can give, before quotas: those of stage 1 in the order
// of their turns, then those of stage 2.
func (c *Config) Samples(r *Record) ([]Sample, error) {
	base := Sample{RecordID: r.ID, PromptID: r.PromptID, DataSource: r.DataSource, Licence: c.LicenceOf(r)}
	if r.Scored == nil {
		base.ID, base.Kind, base.Stage, base.Messages = r.ID+"#"+string(Imported), Imported, 2, finished(r.Finished)
		if base.TrainedTurns() == 0 {
			return nil, nil
		}
		return []Sample{base}, nil
	}
	t := &r.Scored.Trajectory
	d, err := takeApart(t)
	if err != nil {
		return nil, fmt.Errorf("%s: record %s: %w", r.Where, r.ID, err)
	}
	var out []Sample
	if c.Stage1.Enabled {
		out = c.atomic(base, r, &d)
	}
	if c.Stage2.Enabled {
		out = append(out, c.whole(base, t, &d)...)
	}
	return out, nil
}

// finished keeps messages as they are; an assistant message without a flag is trained.
func finished(messages []Message) []Message {
	out := make([]Message, len(messages))
	for i, m := range messages {
		if m.Role == Assistant {
			m.Loss = flag(m.Trained())
		}
		out[i] = m
	}
	return out
}

func (c *Config) atomic(base Sample, r *Record, d *dialogue) []Sample {
	t := &r.Scored.Trajectory
	var out []Sample
	for k := range d.turns {
		kind := turnKind(t, k)
		if kind == "" || !c.trains(t, k) {
			continue
		}
		s := base
		s.ID, s.Stage, s.Kind, s.Turn = fmt.Sprintf("%s#%s.%d", r.ID, kind, k), 1, kind, k
		s.Messages, s.Exact = d.upTo(k), exact(t, k)
		out = append(out, s)
	}
	if r.Report != nil && r.Report.Composed {
		system, user := compose.Prompt(&t.Graph, r.Question())
		s := base
		s.ID, s.Stage, s.Kind, s.Turn = r.ID+"#"+string(Synthesis), 1, Synthesis, len(d.turns)
		s.Messages = []Message{{Role: System, Content: system}, {Role: User, Content: user}, {Role: Assistant, Content: r.Report.Output, Loss: flag(true)}}
		out = append(out, s)
	}
	return out
}

// turnKind is the one thing that a turn teaches: submitting, else inferring, else binding, else, for the
// first turn, planning. Each turn has one kind, so that no turn is trained twice in stage 1.
func turnKind(t *trajectory.Trajectory, k int) Kind {
	g := &t.Graph
	if len(g.Submitted) > 0 && g.SubmitTurn == k {
		return Submit
	}
	kind := Kind("")
	for i := range g.Nodes {
		if g.Nodes[i].Turn != k {
			continue
		}
		switch g.Nodes[i].Kind {
		case evidence.NodeDerived:
			return Infer
		case evidence.NodeAtomic:
			kind = Bind
		}
	}
	if kind == "" && k == 0 && k < len(t.Turns) && strings.Contains(t.Turns[0].Text, "</think>") {
		return Planning
	}
	return kind
}

// whole are the samples of stage 2: one with all trained turns, or with a compressed context one per turn.
func (c *Config) whole(base Sample, t *trajectory.Trajectory, d *dialogue) []Sample {
	last := len(d.turns) - 1
	for last >= 0 && !c.trains(t, last) {
		last--
	}
	if last < 0 {
		return nil
	}
	base.Stage = 2
	if !d.compressed {
		s := base
		s.ID, s.Kind, s.Turn, s.Messages, s.Exact = base.RecordID+"#"+string(Trajectory), Trajectory, last, d.upTo(last), exact(t, last)
		at := 0
		for i := range s.Messages {
			if s.Messages[i].Role == Assistant {
				s.Messages[i].Loss = flag(c.trains(t, at))
				at++
			}
		}
		return []Sample{s}
	}
	var out []Sample
	for k := range last + 1 {
		if !c.trains(t, k) {
			continue
		}
		s := base
		s.ID, s.Kind, s.Turn = fmt.Sprintf("%s#%s.%d", base.RecordID, SingleTurn, k), SingleTurn, k
		s.Messages, s.Exact = d.upTo(k), exact(t, k)
		out = append(out, s)
	}
	return out
}

// trains: a turn that ran no cell, or whose cell failed where failed cells are context, is not trained.
// A truncated turn never is.
func (c *Config) trains(t *trajectory.Trajectory, k int) bool {
	if k >= len(t.Turns) {
		return false
	}
	turn := &t.Turns[k]
	if turn.FinishReason == "length" && !turn.HasCode {
		return false
	}
	return c.FailedCells == FailedTrain || turn.Status == trajectory.CellOK
}
