package replay

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/sandbox"
)

// enough is the number of changed runs that must have made a claim before it is judged.
const enough = 2

// sensitivity runs the cells on changed copies of the data and marks the numbers that never change.
func (r *Replayer) sensitivity(ctx context.Context, g *evidence.Export, p *plan, task evidence.Task, spec sandbox.Spec, results []evidence.ReplayResult) error {
	dir, err := os.MkdirTemp("", "verigraph-replay-")
	if err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil { // sessions run under other uids
		return fmt.Errorf("replay: %w", err)
	}
	changes, changed, err := copies(dir, spec.Files, spells(p.cells))
	if err != nil {
		return err
	}
	if err := r.structuredCopies(ctx, dir, spec.Files, spells(p.cells), changes, changed); err != nil {
		return err
	}
	judged := judgeable(g, p.wanted, changed)
	if len(judged) == 0 {
		return nil
	}
	runs := make([]*performance, len(changes))
	// What a conclusion states is compared nowhere here; refusing it would only hide what follows.
	cfg := r.Evidence
	if cfg == (evidence.Config{}) {
		cfg = evidence.Defaults()
	}
	cfg.NumberRule = evidence.NumberAllow
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(2)
	for i, files := range changes {
		work.Go(func() (err error) {
			runs[i], err = r.play(ctx, p, task, cfg, sandbox.Spec{Files: files, Seed: spec.Seed})
			return err
		})
	}
	if err := work.Wait(); err != nil {
		return err
	}
	for i, n := range p.wanted {
		if fields, ok := judged[n.ID]; ok && results[i].Outcome == evidence.ReplaySame {
			results[i].Constant, results[i].Dodged = judge(p, n, fields, runs)
		}
	}
	return nil
}

// judgeable are the atomic claims that bind numbers and depend on changed files only, with the
// fields to look at. What also depends on a file that could not be changed may rightly stay.
func judgeable(g *evidence.Export, wanted []evidence.Node, changed map[string]bool) map[string][]int {
	out := map[string][]int{}
	for _, n := range wanted {
		if n.Kind != evidence.NodeAtomic {
			continue
		}
		sources := g.SourcesUnder(n.ID)
		fields := n.BoundNumbers()
		unchanged := func(name string) bool { return !changed[name] }
		if len(fields) > 0 && len(sources) > 0 && !slices.ContainsFunc(sources, unchanged) {
			out[n.ID] = fields
		}
	}
	return out
}

// judge names the placeholders that every changed run rendered as they were stored, and those that state a
// fraction and stayed wherever the shape of the data did: a count follows from a number of rows, a
// statistic does not.
func judge(p *plan, n evidence.Node, fields []int, runs []*performance) (constant []string, dodged bool) {
	made, alike := 0, 0
	same, sameShape := map[int]int{}, map[int]int{}
	for i, run := range runs {
		got, ok := run.claims[p.places[n.ID]]
		if !ok || got.Template != n.Template || len(got.Fields) != len(n.Fields) {
			continue
		}
		shaped := changeKinds[i] == changeSame || changeKinds[i] == changeSameAgain
		made++
		if shaped {
			alike++
		}
		for _, f := range fields {
			if unmoved(n.Fields[f].Text, got.Fields[f].Text) {
				same[f]++
				if shaped {
					sameShape[f]++
				}
			}
		}
	}
	if made < enough {
		return nil, true
	}
	for _, f := range fields {
		name := n.Fields[f].Name
		byShape := alike >= enough && sameShape[f] == alike && fraction(n.Fields[f].Text)
		if (same[f] == made || byShape) && !slices.Contains(constant, name) {
			constant = append(constant, name)
		}
	}
	return constant, false
}

// fraction reports whether a text states a number that is not whole.
func fraction(text string) bool {
	for _, number := range stated.FindAllString(text, -1) {
		if _, decimals, ok := strings.Cut(number, "."); ok && strings.Trim(decimals, "0") != "" {
			return true
		}
	}
	return false
}

// stated finds the numbers of a rendered value.
var stated = regexp.MustCompile(`[-+]?(?:\d[\d,_]*(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?`)

// moved is the relative difference from which on a number counts as another. It lies above what a
// grader overlooks, so that a constant with noise behind its last digit is still one.
const moved = 1e-5

// unmoved reports whether two renderings state the same numbers in the same words.
func unmoved(a, b string) bool {
	if a == b {
		return true
	}
	x, y := stated.FindAllString(a, -1), stated.FindAllString(b, -1)
	if len(x) != len(y) || stated.ReplaceAllString(a, "#") != stated.ReplaceAllString(b, "#") {
		return false
	}
	for i := range x {
		v, errV := strconv.ParseFloat(strings.NewReplacer(",", "", "_", "").Replace(x[i]), 64)
		w, errW := strconv.ParseFloat(strings.NewReplacer(",", "", "_", "").Replace(y[i]), 64)
		if errV != nil || errW != nil || math.Abs(v-w) > moved*max(math.Abs(v), math.Abs(w)) {
			return false
		}
	}
	return true
}

// copies writes changed copies of the files and returns one set of paths for each change, and the
// names of the files that could be changed.
func copies(dir string, files map[string]string, code spelt) ([]map[string]string, map[string]bool, error) {
	changed := map[string]bool{}
	sets := make([]map[string]string, len(changeKinds))
	for i := range sets {
		sets[i] = map[string]string{}
	}
	number := 0
	for name, path := range files {
		number++
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, nil, fmt.Errorf("replay: data file %s: %w", name, err)
		}
		table, ok := parseTable(name, data)
		for i, kind := range changeKinds {
			sets[i][name] = path
			if !ok {
				continue
			}
			changed[name], table.spelt = true, code
			to := filepath.Join(dir, fmt.Sprintf("%d-%d", i, number))
			if err := os.WriteFile(to, table.changed(kind), 0o444); err != nil {
				return nil, nil, fmt.Errorf("replay: %w", err)
			}
			sets[i][name] = to
		}
	}
	return sets, changed, nil
}
