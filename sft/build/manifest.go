package build

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/verigraph/verigraph/sft"
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
	// Cut lost trailing turns to fit max_tokens; of TooLong ones, of taken records, no trained turn fits.
	Cut     int `json:"cut"`
	TooLong int `json:"too_long"`
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
