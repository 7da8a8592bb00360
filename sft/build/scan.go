package build

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/verigraph/verigraph/sft"
	"github.com/verigraph/verigraph/sft/near"
	"github.com/verigraph/verigraph/sft/scan"
	"github.com/verigraph/verigraph/sft/source"
	"github.com/verigraph/verigraph/sft/tokens"
)

// chunk is a run of records, numbered over all inputs. The last of an input may be short.
type chunk struct {
	n    int
	refs []source.Ref
}

// chunks calls do for every chunk in order.
func (b *builder) chunks(ctx context.Context, do func(chunk) error) error {
	c := chunk{}
	flush := func() error {
		if len(c.refs) == 0 {
			return nil
		}
		err := do(c)
		c = chunk{n: c.n + 1}
		return err
	}
	for _, s := range b.sources {
		for ref, err := range s.Refs() {
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				return err
			}
			if c.refs = append(c.refs, ref); len(c.refs) == b.Config.Chunk {
				if err := flush(); err != nil {
					return err
				}
			}
		}
		if err := flush(); err != nil {
			return err
		}
	}
	return nil
}

// scan looks at every record once, or takes from the work directory what was found before.
func (b *builder) scan(ctx context.Context) ([][]Facts, error) {
	var all [][]Facts
	total := 0
	sketches := sync.Pool{New: func() any { return near.NewSketch(b.Config.NearDuplicates.Shingle) }}
	err := b.chunks(ctx, func(c chunk) error {
		path := filepath.Join(b.Out, workName, fmt.Sprintf("facts-%05d.gob", c.n))
		facts, err := readFacts(path, len(c.refs))
		if err != nil {
			return err
		}
		if facts == nil {
			facts = make([]Facts, len(c.refs))
			err := each(ctx, b.workers, len(c.refs), func(i int) (err error) {
				sketch := sketches.Get().(*near.Sketch)
				defer sketches.Put(sketch)
				facts[i], err = b.look(c.refs[i], sketch)
				return err
			})
			if err != nil {
				return err
			}
			if err := writeFacts(path, facts); err != nil {
				return err
			}
			b.kept()
		}
		all = append(all, facts)
		total += len(facts)
		b.progress.show("scan", total, 0)
		return nil
	})
	if err == nil && total == 0 {
		err = errors.New("--in: no record")
	}
	return all, err
}

// each calls do for 0..n-1 on some workers and stops at the first error.
func each(ctx context.Context, workers, n int, do func(int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(workers)
	for i := range n {
		g.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return do(i)
		})
	}
	return g.Wait()
}

// look decides what a record shows by itself.
func (b *builder) look(ref source.Ref, sketch *near.Sketch) (Facts, error) {
	var f Facts
	r, err := ref.Load()
	if err != nil {
		return f, err
	}
	f.describe(&r)
	f.Licence = b.Config.LicenceOf(&r)
	if f.Reason = b.Config.Reject(&r); f.Reason != "" {
		return f, nil
	}
	if hit, found := b.benchs.Record(&r); found {
		f.Reason, f.Benchmark = sft.Contaminated, hit.Benchmark+"/"+hit.Match
		return f, nil
	}
	if f.Reason = b.scanText(&r, &f); f.Reason != "" {
		return f, nil
	}
	if err := b.candidates(&r, &f); err != nil || f.Reason != "" {
		return f, err
	}
	if b.Config.NearDuplicates.Threshold > 0 || b.Config.Select.Prefer == sft.PreferDiverse {
		var said []string
		for _, m := range r.Conversation() {
			if m.Role == sft.Assistant {
				said = append(said, m.Content)
			}
		}
		f.Signature = sketch.Of(said...)
	}
	return f, nil
}

func (b *builder) scanText(r *sft.Record, f *Facts) sft.Reason {
	why := sft.Reason("")
	seen := map[string]bool{}
	for _, m := range r.Conversation() {
		for _, found := range scan.Text(m.Content) {
			if !seen[found.Rule] {
				seen[found.Rule] = true
				f.Findings = append(f.Findings, found.Rule)
			}
			switch {
			case found.Class == scan.Secrets && b.Config.Scan.Secrets == sft.ActReject:
				why = sft.Secret
			case found.Class == scan.PersonalData && b.Config.Scan.Personal == sft.ActReject && why == "":
				why = sft.Personal
			}
		}
	}
	return why
}

// candidates are the samples that the record can give, with their lengths where there is a tokenizer.
func (b *builder) candidates(r *sft.Record, f *Facts) error {
	samples, err := b.Config.Samples(r)
	if err != nil {
		return err
	}
	if len(samples) == 0 {
		f.Reason = sft.NoSample
		return nil
	}
	for i := range samples {
		s := &samples[i]
		keep := len(s.Messages)
		if b.tokens != nil {
			row, err := b.tokens.Fit(s, b.Config.Target.MaxTokens)
			switch {
			case errors.Is(err, tokens.ErrContext):
				f.Reason, f.Samples = sft.OtherContext, nil
				return nil
			case errors.Is(err, tokens.ErrTooLong):
				f.TooLong = append(f.TooLong, s.Kind)
				continue
			case err != nil:
				return err
			}
			f.OtherTokenizer = f.OtherTokenizer || s.Exact != nil && !row.Stored
			keep = len(s.Messages)
		}
		f.Samples = append(f.Samples, SampleFacts{
			ID: s.ID, Kind: s.Kind, Stage: s.Stage, Keep: keep, Cut: s.Cut, Tokens: s.Tokens, Trained: s.TrainedTokens,
		})
	}
	if len(f.Samples) == 0 {
		f.Reason = sft.TooLong
	}
	return nil
}

// readFacts gives nil where the chunk was not scanned before.
func readFacts(path string, want int) ([]Facts, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var facts []Facts
	if err := gob.NewDecoder(file).Decode(&facts); err != nil || len(facts) != want {
		return nil, fmt.Errorf("%s: %d records, want %d: %w", path, len(facts), want, errors.Join(err, errChanged))
	}
	return facts, nil
}

var errChanged = errors.New("the inputs changed since the build began; choose another directory")

func writeFacts(path string, facts []Facts) error {
	var data strings.Builder
	if err := gob.NewEncoder(&data).Encode(facts); err != nil {
		return err
	}
	return writeFile(path, []byte(data.String()))
}
