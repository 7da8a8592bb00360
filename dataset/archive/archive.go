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
	"time"

	"github.com/verigraph/verigraph/trajectory"
)

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
	e.ArchivedAt = time.Now().UTC()
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
