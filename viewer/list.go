package viewer

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/verigraph/verigraph/trajectory"
)

// ListRow is a rollout of the list.
type ListRow struct {
	ID          string   `json:"id"`
	Group       string   `json:"group"`
	Sample      int      `json:"sample"`
	Prompt      string   `json:"prompt"`
	Source      string   `json:"source"`
	Termination string   `json:"termination"`
	Status      string   `json:"status"`
	Correct     *bool    `json:"correct"`
	Disagree    bool     `json:"disagree"`
	Flags       []string `json:"flags"`
	Answer      string   `json:"answer"`
	Error       string   `json:"error"`
	// Numbers stand in the order of Columns of the page.
	Numbers []*float64 `json:"numbers"`
}

// ListPage is a page of a filtered and sorted list.
type ListPage struct {
	Rev     string    `json:"rev"`
	Total   int       `json:"total"`   // rollouts of the run
	Matched int       `json:"matched"` // of them taken by the filter
	Offset  int       `json:"offset"`
	Columns []string  `json:"columns"`
	Rows    []ListRow `json:"rows"`
}

const maxCellText = 240

func (r *Run) list(q query) (ListPage, error) {
	s, err := r.index.refresh()
	if err != nil {
		return ListPage{}, err
	}
	found, err := r.index.find(s, q)
	if err != nil {
		return ListPage{}, err
	}
	p := ListPage{Rev: s.rev, Total: len(s.rows), Matched: len(found), Offset: q.offset, Columns: columnNames[:], Rows: []ListRow{}}
	for _, i := range found[min(q.offset, len(found)):min(q.offset+q.limit, len(found))] {
		row, err := r.listRow(&s.rows[i], maxCellText)
		if err != nil {
			return p, err
		}
		p.Rows = append(p.Rows, row)
	}
	return p, nil
}

func (r *Run) listRow(row *row, limit int) (ListRow, error) {
	e, err := r.index.entry(row)
	if err != nil {
		return ListRow{}, err
	}
	out := ListRow{
		ID: row.id, Group: row.group, Sample: int(row.sample), Prompt: row.prompt, Source: row.source, Termination: row.termination,
		Status: row.status, Correct: e.Correct, Disagree: row.disagrees(), Flags: row.flags,
		Answer: clip(e.Answer, limit).Text, Error: clip(e.Error, limit).Text, Numbers: make([]*float64, columns),
	}
	for c := range row.num {
		if v := row.num[c]; !math.IsNaN(v) && !math.IsInf(v, 0) {
			out.Numbers[c] = &v
		}
	}
	return out, nil
}

// GroupRow is a group of the list of groups.
type GroupRow struct {
	Group    string   `json:"group"`
	Prompt   string   `json:"prompt"`
	Source   string   `json:"source"`
	Rollouts int      `json:"rollouts"`
	Scored   int      `json:"scored"`
	Correct  int      `json:"correct"`
	Judged   int      `json:"judged"`
	Mean     *float64 `json:"mean"`
	Min      *float64 `json:"min"`
	Max      *float64 `json:"max"`
	// Spread is the standard deviation of the reward; 0 teaches nothing.
	Spread *float64 `json:"spread"`
}

// GroupPage is a page of the groups that hold a rollout which the filter takes.
type GroupPage struct {
	Rev     string     `json:"rev"`
	Matched int        `json:"matched"`
	Offset  int        `json:"offset"`
	Groups  []GroupRow `json:"groups"`
}

var groupSorts = map[string]func(*GroupRow) float64{
	"mean":   func(g *GroupRow) float64 { return orNaN(g.Mean) },
	"spread": func(g *GroupRow) float64 { return orNaN(g.Spread) },
	"correct": func(g *GroupRow) float64 {
		if g.Judged == 0 {
			return math.NaN()
		}
		return float64(g.Correct) / float64(g.Judged)
	},
}

func orNaN(v *float64) float64 {
	if v == nil {
		return math.NaN()
	}
	return *v
}

// groups puts the rollouts that q takes into their groups; by is a key of groupSorts, "" for the order of the index.
func (r *Run) groups(q query, by string, desc bool) (GroupPage, error) {
	s, err := r.index.refresh()
	if err != nil {
		return GroupPage{}, err
	}
	q.sort, q.desc = ended, false
	found, err := r.index.find(s, q)
	if err != nil {
		return GroupPage{}, err
	}
	all := groupRows(s, found)
	if key := groupSorts[by]; key != nil {
		slices.SortStableFunc(all, func(a, b GroupRow) int { return compareNull(key(&a), key(&b), desc) })
	} else if desc {
		slices.Reverse(all)
	}
	p := GroupPage{Rev: s.rev, Matched: len(all), Offset: q.offset, Groups: []GroupRow{}}
	p.Groups = append(p.Groups, all[min(q.offset, len(all)):min(q.offset+q.limit, len(all))]...)
	return p, nil
}

// compareNull puts NaN last in both directions.
func compareNull(u, v float64, desc bool) int {
	switch {
	case math.IsNaN(u) || math.IsNaN(v):
		return cmp.Compare(flagInt(math.IsNaN(u)), flagInt(math.IsNaN(v)))
	case desc:
		return cmp.Compare(v, u)
	}
	return cmp.Compare(u, v)
}

func groupRows(s snapshot, found []int32) []GroupRow {
	at := map[string]int{}
	var out []GroupRow
	var squares []float64
	for _, i := range found {
		row := &s.rows[i]
		k, ok := at[row.group]
		if !ok {
			k = len(out)
			at[row.group] = k
			out, squares = append(out, GroupRow{Group: row.group, Prompt: row.prompt, Source: row.source}), append(squares, 0)
		}
		g := &out[k]
		g.Rollouts++
		if row.correct >= 0 {
			g.Judged++
			g.Correct += int(row.correct)
		}
		v := row.num[colTotal]
		if math.IsNaN(v) {
			continue
		}
		if g.Scored++; g.Scored == 1 {
			mean, low, high := 0.0, v, v
			g.Mean, g.Min, g.Max = &mean, &low, &high
		}
		d := v - *g.Mean // Welford: stable for equal values
		*g.Mean += d / float64(g.Scored)
		squares[k] += d * (v - *g.Mean)
		*g.Min, *g.Max = min(*g.Min, v), max(*g.Max, v)
	}
	for k := range out {
		if n := out[k].Scored; n > 0 {
			v := math.Sqrt(squares[k] / float64(n))
			out[k].Spread = &v
		}
	}
	return out
}

// GroupView is the rollouts of one group.
type GroupView struct {
	Columns []string `json:"columns"`
	Members []Member `json:"members"`
}

// Member is one rollout of a group beside the others.
type Member struct {
	ListRow
	Turns  []MemberTurn `json:"turns"`
	Claims []string     `json:"claims"` // the submitted ones' texts
	// Unread says why the rollout's file could not be read.
	Unread string `json:"unread"`
}

// MemberTurn is a turn in a few words.
type MemberTurn struct {
	Status string   `json:"status"`
	Reward *float64 `json:"reward"`
	Code   string   `json:"code"`
}

const (
	maxMembers    = 64
	maxMemberCode = 600
)

// group returns the rollouts of a group in sample order.
func (r *Run) group(name string) ([]Member, error) {
	s, err := r.index.refresh()
	if err != nil {
		return nil, err
	}
	var rows []*row
	for i := range s.rows {
		if s.rows[i].group == name && len(rows) < maxMembers {
			rows = append(rows, &s.rows[i])
		}
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("%w: group %q", errNoRollout, name)
	}
	slices.SortStableFunc(rows, func(a, b *row) int { return cmp.Compare(a.sample, b.sample) })
	out := make([]Member, len(rows))
	for i, row := range rows {
		if out[i].ListRow, err = r.listRow(row, 4000); err != nil {
			return nil, err
		}
		scored, err := r.rollout(row.id)
		if err != nil {
			out[i].Unread = err.Error()
			continue
		}
		out[i].brief(scored)
	}
	return out, nil
}

func (m *Member) brief(s *trajectory.Scored) {
	for i := range s.Trajectory.Turns {
		turn := &s.Trajectory.Turns[i]
		brief := MemberTurn{Status: string(turn.Status), Code: clip(turn.Code, maxMemberCode).Text}
		if i < len(s.Score.TurnRewards) {
			brief.Reward = &s.Score.TurnRewards[i]
		}
		m.Turns = append(m.Turns, brief)
	}
	for _, id := range s.Trajectory.Graph.Submitted {
		if n, ok := s.Trajectory.Graph.Node(id); ok {
			m.Claims = append(m.Claims, clip(n.Text, maxMemberCode).Text)
		}
	}
}
