package build

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/verigraph/verigraph/sft"
	"github.com/verigraph/verigraph/sft/output"
)

// part is what the files of one chunk hold.
type part struct {
	Files []File
	Kinds map[sft.Kind]*KindCount
	Text  TextCount
}

// write makes the parts that are not there yet.
func (b *builder) write(ctx context.Context, facts [][]Facts, p *plan) ([]part, error) {
	for _, f := range b.formats {
		if err := os.MkdirAll(filepath.Join(b.Out, f.Name), 0o755); err != nil {
			return nil, err
		}
	}
	total, done := 0, 0
	for _, c := range facts {
		total += len(c)
	}
	var parts []part
	err := b.chunks(ctx, func(c chunk) error {
		if c.n >= len(facts) || len(c.refs) != len(facts[c.n]) {
			return errChanged
		}
		path := filepath.Join(b.Out, workName, fmt.Sprintf("part-%05d.json", c.n))
		made, err := readPart(path)
		if err == nil && made == nil {
			made, err = b.part(ctx, c, facts[c.n], p)
			if err == nil {
				err = writePart(path, made)
				b.kept()
			}
		}
		if err != nil {
			return err
		}
		parts = append(parts, *made)
		done += len(c.refs)
		b.progress.show("write", done, total)
		return nil
	})
	if err == nil && len(parts) != len(facts) {
		err = errChanged
	}
	return parts, err
}

func readPart(path string) (*part, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	p := new(part)
	if err := json.Unmarshal(data, p); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}

func writePart(path string, p *part) error {
	data, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return writeFile(path, data)
}

// bucket is one file of a chunk in every format.
type bucket struct {
	stage int
	split string
}

// buckets in the order of the manifest.
var buckets = []bucket{{1, Train}, {1, Validation}, {2, Train}, {2, Validation}}

// part makes the files of one chunk.
func (b *builder) part(ctx context.Context, c chunk, facts []Facts, p *plan) (*part, error) {
	perRecord := make([][]output.Row, len(c.refs))
	err := each(ctx, b.workers, len(c.refs), func(i int) (err error) {
		if facts[i].Reason == "" {
			perRecord[i], err = b.rows(c, i, &facts[i], p)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	made := &part{Kinds: map[sft.Kind]*KindCount{}}
	rows := map[bucket][]output.Row{}
	for i, list := range perRecord {
		split := Train
		if p.validation[facts[i].ID] {
			split = Validation
		}
		for k := range list {
			at := bucket{list[k].Sample.Stage, split}
			rows[at] = append(rows[at], list[k])
			made.count(&list[k], split)
		}
	}
	type job struct {
		format output.Format
		bucket bucket
	}
	var jobs []job
	for _, f := range b.formats {
		for _, at := range buckets {
			if len(rows[at]) > 0 {
				jobs = append(jobs, job{f, at})
			}
		}
	}
	made.Files = make([]File, len(jobs))
	err = each(ctx, b.workers, len(jobs), func(i int) (err error) {
		made.Files[i], err = b.file(jobs[i].format, jobs[i].bucket, c.n, rows[jobs[i].bucket])
		return err
	})
	return made, err
}

// rows loads a taken record again and gives its samples that are written.
func (b *builder) rows(c chunk, i int, f *Facts, p *plan) ([]output.Row, error) {
	r, err := c.refs[i].Load()
	if err != nil {
		return nil, err
	}
	if r.Digest != f.Digest {
		return nil, fmt.Errorf("%s: record %s: %w", r.Where, r.ID, errChanged)
	}
	samples, err := b.Config.Samples(&r)
	if err != nil {
		return nil, err
	}
	var out []output.Row
	at := 0
	for k := range samples {
		s := &samples[k]
		if at == len(f.Samples) || f.Samples[at].ID != s.ID {
			continue // too long
		}
		sf := &f.Samples[at]
		at++
		if !p.takes(sf) {
			continue
		}
		row := output.Row{Sample: s}
		if b.Config.Outputs.Tokenized {
			t, err := b.tokens.Fit(s, b.Config.Target.MaxTokens)
			if err != nil {
				return nil, err
			}
			row.Tokens = &t
		}
		s.Messages, s.Cut, s.Tokens, s.TrainedTokens = s.Messages[:sf.Keep], sf.Cut, sf.Tokens, sf.Trained
		row.Messages, row.Escaped = b.escaper.Escape(s)
		out = append(out, row)
	}
	return out, nil
}

// file writes one file and gives its line in the manifest.
func (b *builder) file(f output.Format, at bucket, n int, rows []output.Row) (File, error) {
	out := File{
		Path:   fmt.Sprintf("%s/stage%d-%s-%05d%s", f.Name, at.stage, at.split, n, f.Extension),
		Format: f.Name, Stage: at.stage, Split: at.split, Samples: len(rows),
	}
	for i := range rows {
		out.Rows += f.Rows(rows[i].Sample)
	}
	path := filepath.Join(b.Out, filepath.FromSlash(out.Path))
	file, err := os.Create(path + ".tmp")
	if err != nil {
		return out, err
	}
	defer file.Close()
	h := sha256.New()
	buffered := bufio.NewWriterSize(file, 1<<18)
	size := &counter{w: io.MultiWriter(buffered, h)}
	if err := errors.Join(f.Write(size, rows), buffered.Flush(), file.Close()); err != nil {
		return out, fmt.Errorf("%s: %w", path, err)
	}
	out.Bytes, out.SHA256 = size.n, hex.EncodeToString(h.Sum(nil))
	return out, os.Rename(path+".tmp", path)
}

type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// count adds a sample to the part's totals.
func (p *part) count(r *output.Row, split string) {
	s := r.Sample
	k := p.Kinds[s.Kind]
	if k == nil {
		k = &KindCount{}
		p.Kinds[s.Kind] = k
	}
	k.Samples++
	if split == Validation {
		k.Validation++
	}
	k.TrainedTurns += s.TrainedTurns()
	k.Tokens += s.Tokens
	k.TrainedTokens += s.TrainedTokens
	if s.Cut {
		k.Cut++
	}
	p.Text.Escaped += r.Escaped
	for _, m := range s.Messages {
		k.Characters += len([]rune(m.Content))
		if m.Role == sft.Assistant {
			k.ThinkBlocks += strings.Count(m.Content, "</think>")
			if !m.Trained() {
				k.ContextTurns++
			}
		}
	}
}
