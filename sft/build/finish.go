package build

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math/bits"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/verigraph/verigraph/sft"
	"github.com/verigraph/verigraph/sft/output"
)

// finish writes what stands beside the parts; the manifest comes last and the work directory goes.
func (b *builder) finish(facts [][]Facts, p *plan, parts []part) (*Manifest, error) {
	key, err := b.key()
	if err != nil {
		return nil, err
	}
	m := &Manifest{
		Schema: Schema, Build: digest(key), Config: b.Config, Rejected: map[sft.Reason]int{}, Sources: map[string]*SourceCount{},
		Kinds: map[sft.Kind]*KindCount{}, Contaminated: map[string]int{}, Findings: map[string]int{},
		Shape: Shape{Turns: map[int]int{}, Characters: map[int]int{}, Tokens: map[int]int{}},
	}
	if b.tokens != nil {
		m.Tokenizer, m.ChatTemplate = b.tokens.SHA256(), b.tokens.TemplateSHA256()
	}
	for i := range parts {
		m.addPart(&parts[i])
	}
	slices.SortFunc(m.Files, func(x, y File) int { return strings.Compare(x.Path, y.Path) })
	m.addFacts(facts, p)
	m.addInputs(b, facts)
	if b.Config.Outputs.Verl {
		if err := writeFile(filepath.Join(b.Out, "verl", "chat_template.jinja"), []byte(output.ChatTemplate(b.Config.Target))); err != nil {
			return nil, err
		}
	}
	if b.Card != nil {
		if err := b.Card(b.Out, m); err != nil {
			return nil, err
		}
	}
	data, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return nil, err
	}
	if err := writeFile(filepath.Join(b.Out, ManifestName), append(data, '\n')); err != nil {
		return nil, err
	}
	return m, os.RemoveAll(filepath.Join(b.Out, workName))
}

func (m *Manifest) addPart(p *part) {
	m.Files = append(m.Files, p.Files...)
	m.Text.Escaped += p.Text.Escaped
	for kind, k := range p.Kinds {
		sum := m.kind(kind)
		candidates := sum.Candidates
		*sum = KindCount{
			Samples: sum.Samples + k.Samples, Validation: sum.Validation + k.Validation, Candidates: candidates,
			TrainedTurns: sum.TrainedTurns + k.TrainedTurns, ContextTurns: sum.ContextTurns + k.ContextTurns,
			ThinkBlocks: sum.ThinkBlocks + k.ThinkBlocks, Characters: sum.Characters + k.Characters,
			Tokens: sum.Tokens + k.Tokens, TrainedTokens: sum.TrainedTokens + k.TrainedTokens, Cut: sum.Cut + k.Cut,
		}
	}
}

func (m *Manifest) kind(k sft.Kind) *KindCount {
	if m.Kinds[k] == nil {
		m.Kinds[k] = &KindCount{}
	}
	return m.Kinds[k]
}

func (m *Manifest) addFacts(facts [][]Facts, p *plan) {
	prompts := map[string]map[string]bool{} // of a data source: its prompts, and whether one was taken
	for _, chunk := range facts {
		for i := range chunk {
			f := &chunk[i]
			m.Read++
			s := m.Sources[f.DataSource]
			if s == nil {
				s = &SourceCount{Licences: map[string]int{}}
				m.Sources[f.DataSource], prompts[f.DataSource] = s, map[string]bool{}
			}
			s.Read++
			prompts[f.DataSource][f.PromptID] = prompts[f.DataSource][f.PromptID] || f.Reason == ""
			for _, rule := range f.Findings {
				m.Findings[rule]++
			}
			if f.Reason != "" {
				m.Rejected[f.Reason]++
				if f.Benchmark != "" {
					m.Contaminated[f.Benchmark]++
				}
				continue
			}
			m.Taken++
			s.Taken++
			s.Licences[f.Licence]++
			m.addTaken(f, p)
		}
	}
	for source, ids := range prompts {
		for _, taken := range ids {
			m.Sources[source].Prompts++
			if taken {
				m.Sources[source].TakenPrompts++
			}
		}
	}
}

func (m *Manifest) addTaken(f *Facts, p *plan) {
	m.Text.LeadingNewline += f.LeadingNewline
	m.Text.ThinkBlocks += f.ThinkBlocks
	if f.OtherTokenizer {
		m.Text.OtherTokenizer++
	}
	if f.Compressed {
		m.Text.Compressed++
	}
	m.Shape.Turns[f.Turns]++
	m.Shape.Characters[bits.Len(uint(f.Characters))]++
	m.Shape.Bind += f.Bind
	m.Shape.Infer += f.Infer
	m.Shape.Submit += f.Submit
	m.Shape.Failed += f.FailedCells
	for _, k := range f.TooLong {
		m.kind(k).TooLong++
	}
	for i := range f.Samples {
		s := &f.Samples[i]
		m.kind(s.Kind).Candidates++
		if s.Tokens > 0 && p.takes(s) {
			m.Shape.Tokens[bits.Len(uint(s.Tokens))]++
		}
	}
}

// addInputs digests the records of each input; a chunk never spans two.
func (m *Manifest) addInputs(b *builder, facts [][]Facts) {
	at := 0
	for _, s := range b.sources {
		in := Input{Name: s.Name}
		for range s.Refs() {
			in.Records++
		}
		h := sha256.New()
		for n := 0; n < in.Records; at++ {
			for i := range facts[at] {
				h.Write(facts[at][i].Digest[:])
			}
			n += len(facts[at])
		}
		in.SHA256 = hex.EncodeToString(h.Sum(nil))
		m.Inputs = append(m.Inputs, in)
	}
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
