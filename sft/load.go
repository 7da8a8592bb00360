package sft

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/verigraph/verigraph/internal/strictyaml"
	"github.com/verigraph/verigraph/rollout"
)

// Load reads a file over the defaults.
func Load(path string) (Config, error) {
	c, err := Read(path)
	if err != nil {
		return c, err
	}
	if err := c.Validate(); err != nil {
		return c, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// Read is Load for a caller that completes the configuration, and validates it then.
func Read(path string) (Config, error) {
	c := Defaults()
	data, err := os.ReadFile(path)
	if err != nil {
		return c, fmt.Errorf("config: %w", err)
	}
	if err := strictyaml.Decode(path, data, &c); err != nil && !errors.Is(err, strictyaml.ErrEmpty) {
		return c, err
	}
	return c, nil
}

// Validate reports every problem at once.
func (c *Config) Validate() error {
	var errs []error
	bad := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	oneOf := func(key, v string, allowed ...string) {
		bad(slices.Contains(allowed, v), "%s: %q is not one of %v", key, v, allowed)
	}
	oneOf("failed_cells", string(c.FailedCells), string(FailedContext), string(FailedTrain), string(FailedReject))
	oneOf("target.stop", string(c.Target.Stop), string(rollout.StopAtCodeTag), string(rollout.StopAtEndOfTurn))
	oneOf("target.rendering", string(c.Target.Rendering), string(RenderRollout), string(RenderText))
	bad(c.Target.Stop != rollout.StopAtEndOfTurn || c.Target.TrainEndOfTurn,
		"target.train_end_of_turn: false, but the target run stops at the end of turn and would never learn to")
	oneOf("select.prefer", string(c.Select.Prefer), string(PreferBest), string(PreferDiverse))
	oneOf("scan.secrets", c.Scan.Secrets, ActReject, ActCount)
	oneOf("scan.personal", c.Scan.Personal, ActReject, ActCount)
	bad(c.Stage1.Enabled || c.Stage2.Enabled, "stage1.enabled, stage2.enabled: both are off")
	bad(c.Outputs != Outputs{}, "outputs: all are off")
	bad(!c.Outputs.Tokenized || c.Target.Tokenizer != "", "outputs.tokenized: needs target.tokenizer")
	bad(c.Target.MaxTokens == 0 || c.Target.Tokenizer != "", "target.max_tokens: needs target.tokenizer")
	bad(c.Target.MaxTokens >= 0, "target.max_tokens: %d is negative", c.Target.MaxTokens)
	bad(c.Validation >= 0 && c.Validation < 1, "validation: %g, want 0 or more and less than 1", c.Validation)
	bad(c.Chunk > 0, "chunk: %d, want at least 1", c.Chunk)
	bad(c.NearDuplicates.Threshold == 0 || c.NearDuplicates.Threshold >= 0.5 && c.NearDuplicates.Threshold <= 1,
		"near_duplicates.threshold: %g, want 0 or from 0.5 to 1", c.NearDuplicates.Threshold)
	bad(c.NearDuplicates.Shingle > 0, "near_duplicates.shingle: %d, want at least 1", c.NearDuplicates.Shingle)
	for _, t := range c.Select.Terminations {
		bad(t.Valid() && t.Rewarded(), "select.terminations: %q is not a rewarded reason", t)
	}
	for _, l := range c.Select.Languages {
		bad(knownLanguage(l), "select.languages: %q is not one of %v", l, Languages())
	}
	for _, k := range AtomicKinds {
		bad(c.Stage1.Quota(k) >= -1, "stage1.%s: %d, want -1 (all) or more", k, c.Stage1.Quota(k))
	}
	for i, b := range c.Decontaminate {
		bad(b.Name != "" && b.Prompts != "" && b.Format != "", "decontaminate[%d]: name, prompts and format are needed", i)
		bad(len(b.Match) > 0, "decontaminate[%d].match: empty", i)
		for _, m := range b.Match {
			oneOf(fmt.Sprintf("decontaminate[%d].match", i), m, MatchQuestions, MatchAnswers, MatchTables)
		}
	}
	for _, source := range slices.Sorted(maps.Keys(c.Licences)) {
		bad(c.Licences[source] != "", "licences.%s: empty", source)
	}
	return errors.Join(errs...)
}

// LicenceOf is the record's own licence, else that of its data source; empty where neither is stated.
func (c *Config) LicenceOf(r *Record) string {
	if r.Licence != "" {
		return r.Licence
	}
	return c.Licences[r.DataSource]
}
