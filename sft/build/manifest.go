package build

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math/bits"
	"os"
	"path/filepath"
	"slices"

	"github.com/verigraph/verigraph/sft"
	"github.com/verigraph/verigraph/sft/output"
)

// Schema is the version of the manifest and of the file layout.
const Schema = 1

// Splits.
const (
	Train      = "train"
	Validation = "validation"
)

// ManifestName is the manifest's file.
const ManifestName = "manifest.json"

// Manifest says what a build holds and what it was made of. No time and no machine stands in it.
type Manifest struct {
	Schema int `json:"schema"`
	// Build is the digest of inputs and configuration.
	Build  string     `json:"build"`
	Config sft.Config `json:"config"`
	Inputs []Input    `json:"inputs"`
	// Tokenizer and ChatTemplate are digests; empty without a tokenizer.
	Tokenizer    string `json:"tokenizer_sha256,omitempty"`
	ChatTemplate string `json:"chat_template_sha256,omitempty"`

	Read  int `json:"records_read"`
	Taken int `json:"records_taken"`
	// Rejected counts each rejected record by its first reason.
	Rejected map[sft.Reason]int      `json:"rejected"`
	Sources  map[string]*SourceCount `json:"sources"`
	Kinds    map[sft.Kind]*KindCount `json:"kinds"`
	Text     TextCount               `json:"text"`
	// Contaminated counts by benchmark and kind of match, Findings by rule of the scan, also where they were
	// only counted.
	Contaminated map[string]int `json:"contaminated"`
	Findings     map[string]int `json:"findings"`
	Shape        Shape          `json:"shape"`
	Files        []File         `json:"files"`
}

// Input is one --in.
type Input struct {
	Name    string `json:"name"`
	Records int    `json:"records"`
	// SHA256 is over the digests of its records.
	SHA256 string `json:"sha256"`
}

// SourceCount is one data source.
type SourceCount struct {
	// Licences counts the taken records of each licence; "" is none.
	Licences     map[string]int `json:"licences"`
	Read         int            `json:"read"`
	Taken        int            `json:"taken"`
	Prompts      int            `json:"prompts"`
	TakenPrompts int            `json:"taken_prompts"`
}

// KindCount is one kind of sample.
type KindCount struct {
	Samples    int `json:"samples"`
	Validation int `json:"validation"`
	// Candidates are the samples of taken records before quotas.
	Candidates   int `json:"candidates"`
	TrainedTurns int `json:"trained_turns"`
	ContextTurns int `json:"context_turns"`
	// ThinkBlocks are the blocks of reasoning in the written assistant messages.
	ThinkBlocks   int `json:"think_blocks"`
	Characters    int `json:"characters"`
	Tokens        int `json:"tokens"`
	TrainedTokens int `json:"trained_tokens"`
	Cut           int `json:"cut"`
}

// TextCount is about the text of the message files.
type TextCount struct {
	// Escaped is how often control text was broken.
	Escaped int `json:"escaped"`
	// LeadingNewline are taken turns that begin with a line end, which trainers of text merge with the header.
	LeadingNewline int `json:"leading_newline"`
	// ThinkBlocks are the blocks of reasoning in the stored turns of taken records.
	ThinkBlocks int `json:"think_blocks"`
	// OtherTokenizer are taken records whose stored ids are not of the target's tokenizer.
	OtherTokenizer int `json:"other_tokenizer"`
	Compressed     int `json:"compressed"`
}

// Shape are distributions over taken records: by number of turns, by claims, and by powers of two of characters
// (key k counts up to 2^k).
type Shape struct {
	Turns      map[int]int `json:"turns"`
	Characters map[int]int `json:"characters_log2"`
	Tokens     map[int]int `json:"sample_tokens_log2"`
	Bind       int         `json:"bind"`
	Infer      int         `json:"infer"`
	Submit     int         `json:"submit_answer"`
	Failed     int         `json:"failed_cells"`
}

// File is one file.
type File struct {
	Path    string `json:"path"`
	Format  string `json:"format"`
	Stage   int    `json:"stage"`
	Split   string `json:"split"`
	Samples int    `json:"samples"`
	Rows    int    `json:"rows"`
	Bytes   int64  `json:"bytes"`
	SHA256  string `json:"sha256"`
}

// ReadManifest reads the manifest of a build.
func ReadManifest(dir string) (*Manifest, error) {
	path := filepath.Join(dir, ManifestName)
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	m := new(Manifest)
	if err := json.Unmarshal(data, m); err != nil {
		return nil, fmt.Errorf("manifest: %s: %w", path, err)
	}
	if m.Schema != Schema {
		return nil, fmt.Errorf("manifest: %s: schema %d, want %d", path, m.Schema, Schema)
	}
	return m, nil
}

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
	slices.SortFunc(m.Files, func(x, y File) int { return compareFiles(x.Path, y.Path) })
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

func compareFiles(x, y string) int {
	switch {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
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
	for _, source := range slices.Collect(maps.Keys(prompts)) {
		for _, taken := range prompts[source] {
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
