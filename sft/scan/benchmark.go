package scan

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/verigraph/verigraph/dataset"
	"github.com/verigraph/verigraph/dataset/promptfile"
	"github.com/verigraph/verigraph/sft"
	"github.com/verigraph/verigraph/task"
)

const (
	// gram is the number of words that must stand together; overlap the share of an item's grams that must
	// stand in a record. A shorter item must stand in it whole, if it has at least minWords words.
	gram     = 8
	overlap  = 0.6
	minWords = 5
	// minAnswer is the length of name and value from which @name[value] pairs tell one item from others.
	minAnswer = 16
	// longAnswer is the number of words from which an answer's own words tell it; shorter ones are names that
	// stand in many tables.
	longAnswer = 16
)

// Hit says which benchmark item a record holds, and by what.
type Hit struct {
	Benchmark, Item, Match string
}

// Benchmarks recognises items of benchmarks. It is safe for concurrent use once loaded.
type Benchmarks struct {
	questions, answers grams
	// pairs goes from one @name[value] of an item to the items that begin with it, each with all of its pairs.
	pairs  map[string][]pairSet
	tables map[string]Hit // by SHA-256 of the file, and by fingerprint of its content
	prints sync.Map       // SHA-256 of a record's file to its fingerprint
}

type pairSet struct {
	hit   Hit
	pairs []string
}

// Load reads the benchmarks with their answers and data files.
func Load(ctx context.Context, list []sft.Benchmark) (*Benchmarks, error) {
	b := &Benchmarks{pairs: map[string][]pairSet{}, tables: map[string]Hit{}}
	b.questions.index, b.answers.index = map[uint64][]int32{}, map[uint64][]int32{}
	for i := range list {
		if err := b.load(ctx, &list[i]); err != nil {
			return nil, fmt.Errorf("decontaminate[%d] %s: %w", i, list[i].Name, err)
		}
	}
	return b, nil
}

func (b *Benchmarks) load(ctx context.Context, in *sft.Benchmark) error {
	cfg := dataset.ImportConfig{
		Prompts: in.Prompts, Format: dataset.Format(in.Format), Labels: in.Labels, DataDir: in.DataDir, ReadParquet: promptfile.ReadParquet,
	}
	if cfg.Format == dataset.FormatTableBench {
		dir, err := os.MkdirTemp("", "verigraph-tables-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		cfg.TablesDir = dir
	}
	prompts, refs, paths, err := dataset.Import(ctx, cfg)
	if err != nil {
		return err
	}
	if slices.Contains(in.Match, sft.MatchQuestions) {
		for _, p := range prompts {
			hit := Hit{in.Name, p.ID, sft.MatchQuestions}
			b.questions.add(hit, p.Question)
			// Constraints and the form of the answer follow in lines of their own: the question alone is enough.
			if first, _, more := strings.Cut(strings.TrimSpace(p.Question), "\n"); more {
				b.questions.add(hit, first)
			}
		}
	}
	if slices.Contains(in.Match, sft.MatchAnswers) {
		for i := range refs {
			b.addAnswer(in.Name, &refs[i])
		}
	}
	if slices.Contains(in.Match, sft.MatchTables) {
		for _, p := range prompts {
			for _, f := range p.Files {
				hit := Hit{in.Name, p.ID, sft.MatchTables}
				b.tables[f.SHA256] = hit
				data, err := os.ReadFile(paths[f.SHA256])
				if err != nil {
					return err
				}
				if print := Fingerprint(data); print != "" {
					b.tables[print] = hit
				}
			}
		}
	}
	return nil
}

func (b *Benchmarks) addAnswer(name string, ref *task.Reference) {
	hit := Hit{name, ref.PromptID, sft.MatchAnswers}
	if len(words(ref.Text)) >= longAnswer {
		b.answers.add(hit, ref.Text)
	}
	length := 0
	set := pairSet{hit: hit}
	for _, a := range ref.Answers {
		set.pairs = append(set.pairs, "@"+a.Name+"["+a.Value+"]")
		length += len(a.Name) + len(a.Value)
		if len(words(a.Value)) >= longAnswer {
			b.answers.add(hit, a.Value)
		}
	}
	if len(set.pairs) > 0 && length >= minAnswer {
		b.pairs[set.pairs[0]] = append(b.pairs[set.pairs[0]], set)
	}
}

// Record gives the first hit of a record: its question, what it answers, its data files.
func (b *Benchmarks) Record(r *sft.Record) (Hit, bool) {
	if h, ok := b.table(r); ok {
		return h, true
	}
	if len(b.questions.passages) > 0 {
		if h, ok := b.questions.find(r.Question()); ok {
			return h, true
		}
	}
	if len(b.answers.passages) > 0 {
		for _, m := range r.Conversation() {
			if h, ok := b.answers.find(m.Content); ok && m.Role == sft.Assistant {
				return h, true
			}
		}
	}
	return b.answered(r)
}

// table looks a record's data files up by hash, and by content where the input keeps them.
func (b *Benchmarks) table(r *sft.Record) (Hit, bool) {
	if len(b.tables) == 0 {
		return Hit{}, false
	}
	for _, sha := range r.Tables() {
		if h, ok := b.tables[sha]; ok {
			return h, true
		}
		if r.DataDir == "" {
			continue
		}
		print, known := b.prints.Load(sha)
		if !known {
			data, _ := os.ReadFile(filepath.Join(r.DataDir, sha)) // an input may have been moved without its data
			print = Fingerprint(data)
			b.prints.Store(sha, print)
		}
		if h, ok := b.tables[print.(string)]; ok {
			return h, true
		}
	}
	return Hit{}, false
}

// answered looks for the pairs of an item in what was submitted, or in a finished sample's texts.
func (b *Benchmarks) answered(r *sft.Record) (Hit, bool) {
	if len(b.pairs) == 0 {
		return Hit{}, false
	}
	text := ""
	if r.Scored != nil {
		text = r.Scored.Trajectory.Answer
	} else {
		for _, m := range r.Finished {
			text += m.Content + "\n"
		}
	}
	for at := strings.IndexByte(text, '@'); at >= 0; {
		if end := strings.IndexByte(text[at:], ']'); end > 0 {
			for _, set := range b.pairs[text[at:at+end+1]] {
				if !slices.ContainsFunc(set.pairs, func(p string) bool { return !strings.Contains(text, p) }) {
					return set.hit, true
				}
			}
		}
		next := strings.IndexByte(text[at+1:], '@')
		if next < 0 {
			break
		}
		at += 1 + next
	}
	return Hit{}, false
}
