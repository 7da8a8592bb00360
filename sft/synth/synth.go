// Package synth makes synthetic trajectories over real tables, to measure builds of a corpus without a
// model. What it writes is an output directory like that of a run.
//
// Invariants: trajectory i depends on the seed, i and the tables alone; what is planted in it (a secret, a
// benchmark's question, a copy of another trajectory) is counted, so that a build can be checked against it.
package synth

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"

	"golang.org/x/sync/errgroup"

	"github.com/verigraph/verigraph/dataset/archive"
	"github.com/verigraph/verigraph/rollout/compose"
	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

// Options are one set of trajectories.
type Options struct {
	Tables []Table
	// Questions are those of a benchmark; one in 200 trajectories is planted with one.
	Questions []string
	N         int
	Seed      uint64
	// Run names the run.
	Run string
}

// Planted counts what a build should find, each trajectory once, by the first that holds.
type Planted struct {
	Trajectories int `json:"trajectories"`
	// NotSubmitted, Wrong, Contaminated, Secrets and Personal are to be rejected for that.
	NotSubmitted int `json:"not_submitted"`
	Wrong        int `json:"wrong"`
	Contaminated int `json:"contaminated"`
	Secrets      int `json:"secrets"`
	Personal     int `json:"personal"`
	// Copies are near-duplicates of a good trajectory.
	Copies int `json:"copies"`
	// Control holds control-token text in an observation and is good otherwise.
	Control int   `json:"control"`
	Reports int   `json:"reports"`
	Text    int64 `json:"text_bytes"`
}

// plant is what is special about a trajectory.
type plant int

const (
	good plant = iota
	notSubmitted
	wrong
	contaminated
	withSecret
	withPersonal
	copied
	withControl
)

// shares per thousand, in the order of the constants; the rest is good.
var shares = []struct {
	what plant
	in   int
}{{notSubmitted, 40}, {wrong, 80}, {contaminated, 5}, {withSecret, 4}, {withPersonal, 4}, {copied, 20}, {withControl, 20}}

func (o *Options) rng(i, stream int) *rand.Rand {
	return rand.New(rand.NewPCG(o.Seed, uint64(i)<<8|uint64(stream)))
}

func (o *Options) plantOf(i int) plant {
	at := o.rng(i, 0).IntN(1000)
	for _, s := range shares {
		if at -= s.in; at < 0 {
			if s.what == contaminated && len(o.Questions) == 0 || s.what == copied && i == 0 {
				return good
			}
			return s.what
		}
	}
	return good
}

// original is the good trajectory that a copy repeats: the nearest before it.
func (o *Options) original(i int) int {
	for i--; i > 0 && o.plantOf(i) != good; i-- {
	}
	return i
}

// Write writes the trajectories and what was planted (planted.json).
func Write(ctx context.Context, dir string, o Options) (Planted, error) {
	var p Planted
	a, err := archive.Open(dir)
	if err != nil {
		return p, err
	}
	if err := writeTables(dir, o.Tables); err != nil {
		return p, err
	}
	const chunk = 64
	for start := 0; start < o.N; start += chunk {
		made := make([]made, min(chunk, o.N-start))
		g, ctx := errgroup.WithContext(ctx)
		g.SetLimit(runtime.GOMAXPROCS(0))
		for k := range made {
			g.Go(func() error {
				made[k] = o.one(start + k)
				return ctx.Err()
			})
		}
		if err := g.Wait(); err != nil {
			return p, err
		}
		for k := range made {
			if err := put(a, dir, &made[k]); err != nil {
				return p, err
			}
			p.add(&made[k])
		}
	}
	data, err := json.MarshalIndent(p, "", " ")
	if err != nil {
		return p, err
	}
	if err := os.WriteFile(filepath.Join(dir, "planted.json"), append(data, '\n'), 0o644); err != nil {
		return p, err
	}
	return p, a.Close()
}

type made struct {
	plant  plant
	scored trajectory.Scored
	report *compose.Record
}

func put(a *archive.Archive, dir string, m *made) error {
	t := m.scored.Trajectory
	err := a.Add(trajectory.ScoredGroup{
		Group:  trajectory.Group{Dispatch: task.Dispatch{ID: t.ID.Dispatch, Run: t.ID.Run, GroupSize: 1}, Trajectories: []trajectory.Trajectory{t}},
		Scores: []trajectory.Score{m.scored.Score},
	})
	if err != nil || m.report == nil {
		return err
	}
	path := filepath.Join(dir, "reports", t.ID.Dispatch, strconv.Itoa(t.ID.Sample)+".json")
	data, err := json.MarshalIndent(m.report, "", " ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o644)
}

func (p *Planted) add(m *made) {
	p.Trajectories++
	for _, c := range []struct {
		what plant
		n    *int
	}{
		{notSubmitted, &p.NotSubmitted},
		{wrong, &p.Wrong},
		{contaminated, &p.Contaminated},
		{withSecret, &p.Secrets},
		{withPersonal, &p.Personal},
		{copied, &p.Copies},
		{withControl, &p.Control},
	} {
		if m.plant == c.what {
			*c.n++
		}
	}
	if m.report != nil {
		p.Reports++
	}
	for _, msg := range m.scored.Trajectory.Messages {
		p.Text += int64(len(msg.Content))
	}
}

func writeTables(dir string, tables []Table) error {
	data := filepath.Join(dir, "data")
	if err := os.MkdirAll(data, 0o755); err != nil {
		return err
	}
	for _, t := range tables {
		if err := os.WriteFile(filepath.Join(data, t.SHA256), t.raw, 0o644); err != nil {
			return fmt.Errorf("synth: %w", err)
		}
	}
	return nil
}
