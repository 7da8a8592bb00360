// Package archive keeps scored trajectories as files that a person can open:
// trajectories/DISPATCH/SAMPLE.json and one line per rollout in trajectories/index.jsonl.
//
// Invariant: the index holds each rollout once; its line is written after the rollout's file.
package archive

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/verigraph/verigraph/internal/linefile"
	"github.com/verigraph/verigraph/trajectory"
)

// Archive writes below one output directory. Safe for concurrent use, also by several processes: the servers
// of a run may share one, and each of them takes over what another archived.
type Archive struct {
	dir   string
	index *linefile.File
}

const indexName = "trajectories/index.jsonl"

// Open opens the archive of an output directory, continuing an earlier one.
func Open(dir string) (*Archive, error) {
	if err := os.MkdirAll(filepath.Join(dir, "trajectories"), 0o755); err != nil {
		return nil, fmt.Errorf("archive: %w", err)
	}
	index, err := linefile.Open(filepath.Join(dir, indexName), 0o644, func(line []byte) (string, error) {
		var e struct {
			RolloutID string `json:"rollout_id"`
		}
		err := json.Unmarshal(line, &e)
		return e.RolloutID, err
	})
	if err != nil {
		return nil, fmt.Errorf("archive: %w", err)
	}
	return &Archive{dir, index}, nil
}

// Add writes a group's rollouts; those that are there already are left alone.
func (a *Archive) Add(g trajectory.ScoredGroup) error {
	for i := range g.Group.Trajectories {
		s := trajectory.Scored{Trajectory: g.Group.Trajectories[i], Score: g.Scores[i]}
		id := s.Trajectory.ID.String()
		if err := a.index.Once(id, func() ([]byte, error) { return a.add(s) }); err != nil {
			return fmt.Errorf("archive: rollout %s: %w", id, err)
		}
	}
	return nil
}

// add writes a rollout's file and returns its line of the index.
func (a *Archive) add(s trajectory.Scored) ([]byte, error) {
	e := entry(s)
	e.ArchivedAt = time.Now().UTC()
	e.File = filepath.Join("trajectories", s.Trajectory.ID.Dispatch, strconv.Itoa(s.Trajectory.ID.Sample)+".json")
	data, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		return nil, err
	}
	if err := writeFile(filepath.Join(a.dir, e.File), data); err != nil {
		return nil, err
	}
	return json.Marshal(e)
}

// Close closes the index.
func (a *Archive) Close() error { return a.index.Close() }

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
