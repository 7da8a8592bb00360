package source

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/verigraph/verigraph/dataset/archive"
	"github.com/verigraph/verigraph/rollout/compose"
	"github.com/verigraph/verigraph/sft"
	"github.com/verigraph/verigraph/trajectory"
)

// openArchive reads an output directory by its index, in the order of rollout ids: the index itself is in
// the order in which groups were scored.
func openArchive(s *Source) (*Source, error) {
	entries, err := archive.ReadIndex(s.Path)
	if err != nil {
		return nil, fmt.Errorf("--in: %w", err)
	}
	type item struct{ id, file string }
	items := make([]item, len(entries))
	for i, e := range entries {
		items[i] = item{e.RolloutID, e.File}
	}
	slices.SortFunc(items, func(a, b item) int { return strings.Compare(a.id, b.id) })
	h := sha256.New()
	for _, it := range items {
		fmt.Fprintf(h, "%s %s\n", it.id, it.file)
	}
	s.Fingerprint = fmt.Sprintf("%x", h.Sum(nil))
	s.each = func() iter.Seq2[Ref, error] {
		return func(yield func(Ref, error) bool) {
			for _, it := range items {
				load := func() (sft.Record, error) { return loadArchived(s.Path, it.file) }
				if !yield(Ref{ID: it.id, Load: load}, nil) {
					return
				}
			}
		}
	}
	return s, nil
}

func loadArchived(dir, file string) (sft.Record, error) {
	path := filepath.Join(dir, file)
	data, err := os.ReadFile(path)
	if err != nil {
		return sft.Record{}, fmt.Errorf("--in: %w", err)
	}
	s := new(trajectory.Scored)
	if err := json.Unmarshal(data, s); err != nil {
		return sft.Record{}, fmt.Errorf("--in: %s: %w", path, err)
	}
	t := &s.Trajectory
	r := sft.Record{
		ID: t.ID.String(), PromptID: t.PromptID, DataSource: t.DataSource, Where: path, Scored: s, Verdicts: true,
		DataDir: filepath.Join(dir, "data"),
	}
	h := sha256.New()
	h.Write(data)
	if rest, ok := strings.CutPrefix(file, "trajectories/"); ok {
		if data, err = os.ReadFile(filepath.Join(dir, "reports", rest)); err == nil {
			r.Report = new(compose.Record)
			if err := json.Unmarshal(data, r.Report); err != nil {
				return r, fmt.Errorf("--in: %s: %w", filepath.Join(dir, "reports", rest), err)
			}
			h.Write(data)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return r, fmt.Errorf("--in: %w", err)
		}
	}
	h.Sum(r.Digest[:0])
	return r, nil
}
