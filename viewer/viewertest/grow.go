package viewertest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/verigraph/verigraph/dataset/archive"
)

// Grow writes a run of n rollouts to a new directory: those of a real run again and again, each time as other
// dispatches, a moment later and at a later policy version. Only ids, times and versions are made up.
func Grow(from, to string, n int) error {
	g, err := NewGrower(from, to)
	if err != nil {
		return err
	}
	for range n {
		if err := g.Next(); err != nil {
			return err
		}
	}
	return g.Close()
}

// Grower adds rollouts one by one, as a live run does.
type Grower struct {
	to      string
	entries []archive.Entry
	files   [][]byte
	index   *os.File
	out     *bufio.Writer
	made    int
	start   time.Time
}

// NewGrower reads a run and starts another.
func NewGrower(from, to string) (*Grower, error) {
	g := &Grower{to: to, start: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	var err error
	if g.entries, err = archive.ReadIndex(from); err != nil {
		return nil, err
	}
	if len(g.entries) == 0 {
		return nil, fmt.Errorf("viewertest: %s holds no rollout", from)
	}
	for _, e := range g.entries {
		data, err := os.ReadFile(filepath.Join(from, e.File))
		if err != nil {
			return nil, err
		}
		var small bytes.Buffer
		if err := json.Compact(&small, data); err != nil {
			return nil, fmt.Errorf("viewertest: %s: %w", e.File, err)
		}
		g.files = append(g.files, small.Bytes())
	}
	if err := os.MkdirAll(filepath.Join(to, "trajectories"), 0o755); err != nil {
		return nil, err
	}
	for _, name := range []string{"run.json", "tokenizer.json"} {
		if data, err := os.ReadFile(filepath.Join(from, name)); err == nil {
			if err := os.WriteFile(filepath.Join(to, name), data, 0o644); err != nil {
				return nil, err
			}
		}
	}
	if g.index, err = os.Create(filepath.Join(to, "trajectories", "index.jsonl")); err != nil {
		return nil, err
	}
	g.out = bufio.NewWriterSize(g.index, 1<<20)
	return g, nil
}

var versions = regexp.MustCompile(`"policy_version(_end)?":\d+`)

// Next adds one rollout: its file, then its line.
func (g *Grower) Next() error {
	round, base := g.made/len(g.entries), g.made%len(g.entries)
	e := g.entries[base]
	old := strings.Split(e.RolloutID, "/")[1]
	name := e.PromptID + "-" + strconv.Itoa(round)
	version := int64(g.made / 256)
	e.RolloutID = strings.Replace(e.RolloutID, "/"+old+"/", "/"+name+"/", 1)
	e.File = filepath.Join("trajectories", name, strconv.Itoa(e.Sample)+".json")
	e.ArchivedAt = g.start.Add(time.Duration(g.made) * 120 * time.Millisecond)
	e.Versions = &[2]int64{version, version}
	data := bytes.Replace(g.files[base], []byte(`"dispatch":"`+old+`"`), []byte(`"dispatch":"`+name+`"`), 1)
	data = versions.ReplaceAll(data, []byte(`"policy_version$1":`+strconv.FormatInt(version, 10)))
	path := filepath.Join(g.to, e.File)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		return err
	}
	g.made++
	return json.NewEncoder(g.out).Encode(e)
}

// Flush makes what was added visible.
func (g *Grower) Flush() error { return g.out.Flush() }

// Close ends the run.
func (g *Grower) Close() error {
	if err := g.out.Flush(); err != nil {
		return err
	}
	return g.index.Close()
}
