package dataset

import (
	"errors"
	"fmt"
	"strings"

	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

// Why a group does not become rows. A RowError wraps one of them.
var (
	ErrTextOnly     = errors.New("text-only trajectory (policy.api: chat): it holds no token ids of the engine, so it is archived and never trained on")
	ErrOverLength   = errors.New("over the trainer's length limit")
	ErrBrokenTokens = errors.New("broken token log")
	ErrNotFinite    = errors.New("not a finite number")
	ErrIncomplete   = errors.New("incomplete group")
	ErrManySegments = errors.New("several segments where the contract takes one row per rollout")
	ErrBadReward    = errors.New("reward on a rollout that ended for our reasons")
)

// RowError says which rollout of a group cannot become a row.
type RowError struct {
	Dispatch string
	// Sample is -1 when the group as a whole is meant.
	Sample int
	Err    error
}

func (e *RowError) Error() string {
	if e.Sample < 0 {
		return fmt.Sprintf("group %s: %v", e.Dispatch, e.Err)
	}
	return fmt.Sprintf("group %s: sample %d: %v", e.Dispatch, e.Sample, e.Err)
}

func (e *RowError) Unwrap() error { return e.Err }

// TooFewValidError says that a group has too few rewarded members to be compared with each other.
type TooFewValidError struct {
	Dispatch string
	Valid    int
	MinValid int
	Size     int
}

func (e *TooFewValidError) Error() string {
	return fmt.Sprintf("group %s: %d of %d members have a reward, want at least %d", e.Dispatch, e.Valid, e.Size, e.MinValid)
}

// RowOptions is what the trainer's contract asks for.
type RowOptions struct {
	Limits
	// MinValid is the number of rewarded members below which a group fails. 0 means 2, or all of a
	// smaller group: with one member left its raw reward would pass for an advantage. No group needs more
	// than it has.
	MinValid int
	// FillLost gives members without a reward a row of mask 0 that carries their valid siblings' means,
	// for trainers that need all n rows. Without it they are left out.
	FillLost bool
	// OneRow refuses rollouts of several segments, for contracts with one row per rollout.
	OneRow bool
}

func (o RowOptions) minValid(size int) int {
	if o.MinValid > 0 {
		return min(o.MinValid, size) // a prompt may ask for a smaller group
	}
	return min(2, size)
}

// Rows turns a complete scored group into rows, one per segment, numbered from startRow. It is pure,
// and it gives all rows or an error: a *TooFewValidError, or a *RowError that wraps one of the reasons.
func Rows(g trajectory.ScoredGroup, startRow int, opts RowOptions) ([]Row, error) {
	c := converter{group: g, opts: opts}
	if err := c.checkGroup(); err != nil {
		return nil, err
	}
	perSample := make([][]Row, len(g.Scores))
	var filled []int
	var valid []Row
	for i := range g.Scores {
		if g.Scores[i].Status != trajectory.ScoreOK {
			filled = append(filled, i)
			continue
		}
		rows, err := c.rollout(i)
		if err != nil {
			return nil, &RowError{g.Group.Dispatch.ID, i, err}
		}
		perSample[i] = rows
		valid = append(valid, rows[0])
	}
	if need := opts.minValid(len(g.Scores)); len(valid) < need {
		return nil, &TooFewValidError{g.Group.Dispatch.ID, len(valid), need, len(g.Scores)}
	}
	if opts.FillLost {
		for _, i := range filled {
			perSample[i] = []Row{c.filled(i, valid)}
		}
	}
	return number32(perSample, startRow), nil
}

func number32(perSample [][]Row, start int) []Row {
	var rows []Row
	for _, sample := range perSample {
		for _, r := range sample {
			r.RowIdx = int32(start + len(rows))
			rows = append(rows, r)
		}
	}
	return rows
}

// converter holds one group while it becomes rows.
type converter struct {
	group trajectory.ScoredGroup
	opts  RowOptions
}

// checkGroup makes sure that every sample of the dispatch is there once, in order.
func (c converter) checkGroup() error {
	d := c.group.Group.Dispatch
	fail := func(err error) error { return &RowError{d.ID, -1, err} }
	if d.ID == "" || strings.Contains(d.ID, "_") {
		return fail(fmt.Errorf("%w: %q cannot be a uid: empty or with an underscore", ErrIncomplete, d.ID))
	}
	n, scores := len(c.group.Group.Trajectories), len(c.group.Scores)
	if n == 0 || n != scores || n != d.GroupSize {
		return fail(fmt.Errorf("%w: %d trajectories and %d scores of %d samples", ErrIncomplete, n, scores, d.GroupSize))
	}
	for i, t := range c.group.Group.Trajectories {
		if t.ID.Sample != i || t.ID.Dispatch != d.ID {
			return fail(fmt.Errorf("%w: position %d holds %s", ErrIncomplete, i, t.ID))
		}
	}
	return nil
}

// rollout makes the rows of one rewarded member.
func (c converter) rollout(i int) ([]Row, error) {
	t, s := &c.group.Group.Trajectories[i], &c.group.Scores[i]
	switch {
	case t.TextOnly:
		return nil, ErrTextOnly
	case !t.Termination.Rewarded():
		return nil, fmt.Errorf("%w: %s", ErrBadReward, t.Termination)
	case len(t.Segments) == 0:
		return nil, fmt.Errorf("%w: no segment", ErrBrokenTokens)
	case c.opts.OneRow && len(t.Segments) > 1:
		return nil, fmt.Errorf("%w: %d", ErrManySegments, len(t.Segments))
	}
	base := c.identity(i)
	if err := base.setScore(s); err != nil {
		return nil, err
	}
	if err := base.setTrajectory(t); err != nil {
		return nil, err
	}
	rows := make([]Row, 0, len(t.Segments))
	for k := range t.Segments {
		row := base
		row.OutputIdx = int32(k)
		if err := row.setSegment(&t.Segments[k], c.opts.Limits); err != nil {
			return nil, fmt.Errorf("segment %d: %w", k, err)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// identity fills the columns that say which rollout a row belongs to.
func (c converter) identity(i int) Row {
	d, t := c.group.Group.Dispatch, &c.group.Group.Trajectories[i]
	var trace *string
	if id, sampled := task.TraceID(d.Trace); sampled {
		trace = &id
	}
	return Row{
		TraceID: trace,
		UID:     d.ID, SessionID: int32(i), RolloutID: clean(t.ID.String()), Attempt: int32(t.Attempt),
		DataSource: clean(d.Prompt.DataSource), PromptID: clean(d.Prompt.ID), Validate: d.Validate,
		RewardStatus: string(c.group.Scores[i].Status), TerminationReason: string(t.Termination),
	}
}

func (r *Row) setSegment(s *trajectory.Segment, limits Limits) error {
	if err := s.Check(); err != nil {
		return fmt.Errorf("%w: %w", ErrBrokenTokens, err)
	}
	if err := over("prompt", len(s.PromptIDs), limits.PromptLength); err != nil {
		return err
	}
	if err := over("response", len(s.ResponseIDs), limits.ResponseLength); err != nil {
		return err
	}
	r.PromptIDs, r.ResponseIDs, r.ResponseMask, r.RolloutLogProbs = s.PromptIDs, s.ResponseIDs, s.ResponseMask, s.LogProbs
	r.Spans = rowSpans(s.Spans)
	r.LossValid = true
	return nil
}

func over(what string, n, limit int) error {
	if limit > 0 && n > limit {
		return fmt.Errorf("%w: %s of %d ids, limit %d", ErrOverLength, what, n, limit)
	}
	return nil
}

// clean makes text from tools, users or errors fit for a UTF-8 column.
func clean(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
