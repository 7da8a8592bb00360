package feed

import "fmt"

// Mark says that everything up to a batch was trained on when a step ended.
type Mark struct {
	Step     int64 `json:"step"`
	Sequence int64 `json:"sequence"`
}

// Position is where a cursor stands: a plain value. It remembers which batches each step of the trainer
// consumed since the last committed checkpoint, so that a restore finds its place.
type Position struct {
	Acknowledged int64 `json:"acknowledged"`
	// Committed is what the last committed checkpoint holds.
	Committed Mark `json:"committed"`
	// Marks are the steps after it, in rising order of both fields.
	Marks []Mark `json:"marks,omitempty"`
}

// Ack moves the cursor forward; an older or repeated acknowledgement changes nothing. A step that is
// lower than the one before counts as that one.
func (p Position) Ack(seq, step int64) Position {
	if seq <= p.Acknowledged {
		return p
	}
	p.Acknowledged = seq
	last := p.Committed.Step
	if n := len(p.Marks); n > 0 {
		last = p.Marks[n-1].Step
	}
	step = max(step, last)
	marks := append([]Mark(nil), p.Marks...)
	if n := len(marks); n > 0 && marks[n-1].Step == step {
		marks = marks[:n-1]
	}
	p.Marks = append(marks, Mark{step, seq})
	return p
}

// At is the last batch that the checkpoint of a step holds.
func (p Position) At(step int64) (int64, error) {
	if step < p.Committed.Step {
		return 0, fmt.Errorf("%w: step %d is before the committed step %d, whose batches were freed", ErrInvalid, step, p.Committed.Step)
	}
	seq := p.Committed.Sequence
	for _, m := range p.Marks {
		if m.Step <= step {
			seq = m.Sequence
		}
	}
	return seq, nil
}

// Rewind moves the cursor back to what the checkpoint of a step holds.
func (p Position) Rewind(step int64) (Position, error) {
	seq, err := p.At(step)
	if err != nil {
		return p, err
	}
	p.Acknowledged = seq
	var marks []Mark
	for _, m := range p.Marks {
		if m.Step <= step {
			marks = append(marks, m)
		}
	}
	p.Marks = marks
	return p, nil
}

// Commit forgets the steps up to a durable checkpoint; a repeated or older one changes nothing.
func (p Position) Commit(step int64) Position {
	seq, err := p.At(step)
	if err != nil {
		return p
	}
	p.Committed = Mark{step, seq}
	var marks []Mark
	for _, m := range p.Marks {
		if m.Step > step {
			marks = append(marks, m)
		}
	}
	p.Marks = marks
	return p
}
