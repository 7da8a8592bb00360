package viewer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sync"
	"time"

	"github.com/verigraph/verigraph/policy/tokenizer"
	"github.com/verigraph/verigraph/trajectory"
)

// Limits of what is read whole, a rollout's file and the small files beside it, and of what is kept of the
// rollouts that were opened last.
const (
	maxRollout     = 256 << 20
	maxSmall       = 4 << 20
	cachedRollouts = 4
	cachedBytes    = 64 << 20
)

// Run is one output directory. Safe for concurrent use.
type Run struct {
	name  string
	root  *os.Root
	index *index
	// status asks a live process; nil reads status.json.
	status func() (*Status, error)
	tokens *tokenizer.Tokenizer

	mu       sync.Mutex
	stats    Stats
	statsRev string
	cache    []cached
}

type cached struct {
	id, rev string
	size    int64 // of the file
	scored  *trajectory.Scored
}

// Open opens an output directory. tokenizerPath may be empty: OUT/tokenizer.json is then taken where there
// is one, and tokens are shown as ids where there is none.
func Open(dir, tokenizerPath string) (*Run, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("viewer: %w", err)
	}
	r := &Run{name: filepath.Base(filepath.Clean(dir)), root: root}
	r.index = newIndex(root)
	if tokenizerPath == "" {
		if _, err := root.Stat("tokenizer.json"); err != nil {
			return r, nil
		}
		tokenizerPath = filepath.Join(dir, "tokenizer.json")
	}
	if r.tokens, err = tokenizer.Load(tokenizerPath); err != nil {
		return nil, errors.Join(fmt.Errorf("viewer: %w", err), root.Close())
	}
	return r, nil
}

// Follow asks a live process for the run's status in place of the file status.json.
func (r *Run) Follow(status func() (*Status, error)) { r.status = status }

// Close closes the directory.
func (r *Run) Close() error { return r.root.Close() }

// readJSON reads a small file of the directory into v; fs.ErrNotExist where there is none.
func (r *Run) readJSON(name string, v any) (fs.FileInfo, error) {
	f, err := r.root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxSmall+1))
	switch {
	case err != nil:
		return info, err
	case len(data) > maxSmall:
		return info, fmt.Errorf("larger than %d bytes", maxSmall)
	}
	return info, json.Unmarshal(data, v)
}

// Overview is the run page.
type Overview struct {
	Rev      string          `json:"rev"`
	Name     string          `json:"name"`
	Run      json.RawMessage `json:"run"`     // run.json
	Summary  json.RawMessage `json:"summary"` // summary.json
	Status   *Status         `json:"status"`
	Live     bool            `json:"live"`
	Stats    Stats           `json:"stats"`
	Problems []Problem       `json:"problems"`
	Bad      int             `json:"bad"`
	Tokens   bool            `json:"tokens"` // a tokenizer is at hand
}

// stale is the age at which a status file no longer means a live run.
const stale = 15 * time.Second

func (r *Run) overview(now time.Time) (Overview, error) {
	s, err := r.index.refresh()
	if err != nil {
		return Overview{}, err
	}
	o := Overview{Rev: s.rev, Name: r.name, Stats: r.statsOf(s), Problems: append([]Problem{}, s.problems...), Bad: s.bad, Tokens: r.tokens != nil}
	for name, into := range map[string]*json.RawMessage{"run.json": &o.Run, "summary.json": &o.Summary} {
		if _, err := r.readJSON(name, into); err != nil && !errors.Is(err, fs.ErrNotExist) {
			*into = nil
			o.Problems = append(o.Problems, Problem{File: name, Error: err.Error()})
		}
	}
	if err := r.addStatus(&o, now); err != nil {
		from := StatusName
		if r.status != nil {
			from = "the leader"
		}
		o.Problems = append(o.Problems, Problem{File: from, Error: err.Error()})
	}
	return o, nil
}

func (r *Run) addStatus(o *Overview, now time.Time) (err error) {
	if r.status != nil {
		if o.Status, err = r.status(); err == nil {
			o.Live = !o.Status.Complete
		}
		return err
	}
	var st Status
	if _, err := r.readJSON(StatusName, &st); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	o.Status = &st
	o.Live = st.Running && now.Sub(st.Time) < stale
	return nil
}

func (r *Run) statsOf(s snapshot) Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.statsRev != s.rev {
		r.stats, r.statsRev = computeStats(s.rows), s.rev
	}
	return r.stats
}

var errNoRollout = errors.New("no such rollout")

// row finds a rollout by id.
func (s snapshot) row(id string) (*row, error) {
	for i := range s.rows {
		if s.rows[i].id == id {
			return &s.rows[i], nil
		}
	}
	return nil, fmt.Errorf("%w: %q", errNoRollout, id)
}

// rollout reads a rollout's file, or takes it from the few that were opened last.
func (r *Run) rollout(id string) (*trajectory.Scored, error) {
	s, err := r.index.refresh()
	if err != nil {
		return nil, err
	}
	row, err := s.row(id)
	if err != nil {
		return nil, err
	}
	e, err := r.index.entry(row)
	if err != nil {
		return nil, err
	}
	name := path.Clean(e.File)
	f, err := r.root.Open(name)
	if err != nil {
		return nil, fmt.Errorf("viewer: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("viewer: %w", err)
	}
	if info.Size() > maxRollout {
		return nil, fmt.Errorf("viewer: %s: %d bytes, more than %d", name, info.Size(), maxRollout)
	}
	rev := fmt.Sprint(info.Size(), info.ModTime().UnixNano())
	if hit := r.cached(id, rev); hit != nil {
		return hit, nil
	}
	var scored trajectory.Scored
	if err := json.NewDecoder(f).Decode(&scored); err != nil {
		return nil, fmt.Errorf("viewer: %s: %w", name, err)
	}
	if got := scored.Trajectory.ID.String(); got != id {
		return nil, fmt.Errorf("viewer: %s: holds rollout %s, not %s", name, got, id)
	}
	r.remember(cached{id, rev, info.Size(), &scored})
	return &scored, nil
}

func (r *Run) cached(id, rev string) *trajectory.Scored {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.cache {
		if c.id == id && c.rev == rev {
			return c.scored
		}
	}
	return nil
}

func (r *Run) remember(c cached) {
	r.mu.Lock()
	defer r.mu.Unlock()
	keep, size := []cached{c}, c.size
	for _, old := range r.cache {
		if size += old.size; old.id != c.id && len(keep) < cachedRollouts && size <= cachedBytes {
			keep = append(keep, old)
		}
	}
	r.cache = keep
}
