// Package archive keeps scored trajectories as files that a person can open:
// trajectories/DISPATCH/SAMPLE.json and one line per rollout in trajectories/index.jsonl.
//
// Invariant: the index holds each rollout once; its line is written after the rollout's file.
package archive

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/trajectory"
)

// Entry is one line of the index.
type Entry struct {
	RolloutID         string                 `json:"rollout_id"`
	PromptID          string                 `json:"prompt_id"`
	Sample            int                    `json:"sample"`
	TerminationReason trajectory.Termination `json:"termination_reason"`
	RewardStatus      trajectory.ScoreStatus `json:"reward_status"`
	Submitted         bool                   `json:"submitted"`
	Answer            string                 `json:"answer"`
	// Correct is null where no rule exists or the rollout has no score.
	Correct   *bool     `json:"correct"`
	Rewards   Rewards   `json:"rewards"`
	Grounding Grounding `json:"grounding"`
	Flags     []string  `json:"flags"`
	CellsOK   int       `json:"cells_ok"`
	Cells     int       `json:"cells"`
	// File is relative to the output directory.
	File string `json:"file"`
	// TextOnly marks a rollout without token ids: a teacher's or a baseline's.
	TextOnly bool `json:"text_only,omitempty"`
	// Error is why the rollout was lost or not scored.
	Error string `json:"error,omitempty"`
	// Claims is the number of submitted claims, the weight of Grounding in a micro mean.
	Claims int `json:"claims"`
	// Verdicts counts the judge's words by kind.
	Verdicts map[trajectory.VerdictKind]int `json:"verdicts,omitempty"`
	Timing   trajectory.Timing              `json:"timing"`
}

// Rewards are the terms before weights, and the total after shaping. All null without a score.
type Rewards struct {
	Process *float64 `json:"process"`
	Infer   *float64 `json:"infer"`
	Outcome *float64 `json:"outcome"`
	Penalty *float64 `json:"penalty"`
	Total   *float64 `json:"total"`
}

// Grounding are shares over the submitted claims; null where the part did not run or nothing was submitted.
type Grounding struct {
	Structural *float64 `json:"structural"`
	Replayed   *float64 `json:"replayed"`
	Lexical    *float64 `json:"lexical"`
	Supported  *float64 `json:"supported"`
}

// Archive writes below one output directory. Safe for concurrent use.
type Archive struct {
	dir  string
	mu   sync.Mutex
	seen map[string]bool
	file *os.File
}

const indexName = "trajectories/index.jsonl"

// Open opens the archive of an output directory, continuing an earlier one.
func Open(dir string) (*Archive, error) {
	if err := os.MkdirAll(filepath.Join(dir, "trajectories"), 0o755); err != nil {
		return nil, fmt.Errorf("archive: %w", err)
	}
	a := &Archive{dir: dir, seen: map[string]bool{}}
	if err := dropTornLine(filepath.Join(dir, indexName)); err != nil {
		return nil, err
	}
	old, err := ReadIndex(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range old {
		a.seen[e.RolloutID] = true
	}
	a.file, err = os.OpenFile(filepath.Join(dir, indexName), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("archive: %w", err)
	}
	return a, nil
}

// dropTornLine cuts off a last line without a line end: the writer was killed in it, and the next
// line would be glued to it.
func dropTornLine(path string) error {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("archive: %w", err)
	}
	whole := int64(bytes.LastIndexByte(data, '\n') + 1)
	if whole == int64(len(data)) {
		return nil
	}
	if err := os.Truncate(path, whole); err != nil {
		return fmt.Errorf("archive: %w", err)
	}
	return nil
}

// Add writes a group's rollouts; those that are there already are left alone.
func (a *Archive) Add(g trajectory.ScoredGroup) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range g.Group.Trajectories {
		s := trajectory.Scored{Trajectory: g.Group.Trajectories[i], Score: g.Scores[i]}
		if err := a.add(s); err != nil {
			return fmt.Errorf("archive: rollout %s: %w", s.Trajectory.ID, err)
		}
	}
	return nil
}

func (a *Archive) add(s trajectory.Scored) error {
	id := s.Trajectory.ID.String()
	if a.seen[id] {
		return nil
	}
	e := entry(s)
	e.File = filepath.Join("trajectories", s.Trajectory.ID.Dispatch, strconv.Itoa(s.Trajectory.ID.Sample)+".json")
	data, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		return err
	}
	if err := writeFile(filepath.Join(a.dir, e.File), data); err != nil {
		return err
	}
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if _, err := a.file.Write(append(line, '\n')); err != nil {
		return err
	}
	a.seen[id] = true
	return nil
}

// Close closes the index.
func (a *Archive) Close() error { return a.file.Close() }

func writeFile(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	tmp := path + ".tmp"
	if err := os.WriteFile(tmp, data, 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

func entry(s trajectory.Scored) Entry {
	t := &s.Trajectory
	e := Entry{
		RolloutID: t.ID.String(), PromptID: t.PromptID, Sample: t.ID.Sample,
		TerminationReason: t.Termination, RewardStatus: s.Score.Status,
		Submitted: t.Termination == trajectory.Submitted, Answer: t.Answer, Correct: s.Score.Correct,
		Flags: append([]string{}, t.Flags...), Timing: t.Timing, Claims: len(t.Graph.Submitted),
		Grounding: grounding(&t.Graph), TextOnly: t.TextOnly, Error: t.Error,
	}
	e.Timing.ScoreS = s.Score.ScoreS
	for _, turn := range t.Turns {
		if turn.HasCode {
			e.Cells++
			if turn.Status == trajectory.CellOK {
				e.CellsOK++
			}
		}
	}
	if s.Score.Status != trajectory.ScoreOK {
		e.Correct = nil
		if e.Error == "" {
			e.Error = s.Score.Reason
		}
		return e
	}
	sc := s.Score
	e.Rewards = Rewards{Process: &sc.Process, Infer: &sc.Infer, Outcome: &sc.Outcome, Penalty: &sc.Penalty, Total: &sc.Reward}
	for _, v := range sc.Verdicts {
		if e.Verdicts == nil {
			e.Verdicts = map[trajectory.VerdictKind]int{}
		}
		e.Verdicts[v.Kind]++
	}
	return e
}

func grounding(g *evidence.Export) Grounding {
	share := func(part func(evidence.ClaimGrounding) *bool) *float64 {
		n, yes := 0, 0
		for _, c := range g.Grounding {
			if p := part(c); p != nil {
				n++
				if *p {
					yes++
				}
			}
		}
		if n == 0 || n < len(g.Grounding) {
			return nil
		}
		v := float64(yes) / float64(n)
		return &v
	}
	return Grounding{
		Structural: share(func(c evidence.ClaimGrounding) *bool { return c.Structural }),
		Replayed:   share(func(c evidence.ClaimGrounding) *bool { return c.Replayed }),
		Lexical:    share(func(c evidence.ClaimGrounding) *bool { return c.Lexical }),
		Supported:  share(func(c evidence.ClaimGrounding) *bool { return c.Supported }),
	}
}

// ReadIndex reads the index of an output directory. A torn last line (a crash) is left out.
func ReadIndex(dir string) ([]Entry, error) {
	path := filepath.Join(dir, indexName)
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("archive: %w", err)
	}
	var out []Entry
	sc := bufio.NewReader(bytes.NewReader(data))
	for n := 1; ; n++ {
		line, err := sc.ReadBytes('\n')
		if err != nil {
			return out, nil
		}
		var e Entry
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("archive: %s:%d: %w", path, n, err)
		}
		out = append(out, e)
	}
}

// Read reads one rollout by its id.
func Read(dir, rolloutID string) (trajectory.Scored, error) {
	entries, err := ReadIndex(dir)
	if err != nil {
		return trajectory.Scored{}, err
	}
	for _, e := range entries {
		if e.RolloutID != rolloutID {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, e.File))
		if err != nil {
			return trajectory.Scored{}, fmt.Errorf("archive: %w", err)
		}
		var s trajectory.Scored
		if err := json.Unmarshal(data, &s); err != nil {
			return s, fmt.Errorf("archive: %s: %w", e.File, err)
		}
		return s, nil
	}
	return trajectory.Scored{}, fmt.Errorf("archive: %s: no rollout %q", dir, rolloutID)
}
