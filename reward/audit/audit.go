// Package audit checks items before anybody trains on them: every reference answer goes to its own
// scorer, and answers that stand in the prompt or in a data file are reported.
//
// Invariant: an item without findings has a reference that a policy could state and be paid in full.
package audit

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/reward/items"
	"github.com/verigraph/verigraph/reward/outcome"
	"github.com/verigraph/verigraph/task"
)

// Kind of a finding.
type Kind string

// Kinds. The first two say that the reference or its rule is broken; the others are for a person to
// judge, since options and file values stand in prompts and files for good reasons too.
const (
	Unscorable Kind = "unscorable"      // the configuration has no rule or judge for it
	NotFull    Kind = "not_full_marks"  // its own scorer does not pay it in full
	InPrompt   Kind = "gold_in_prompt"  // the value stands in the question
	InFile     Kind = "gold_in_file"    // the value stands in a data file
	Unread     Kind = "file_not_looked" // a data file could not be read
)

// Finding is one remark on one item.
type Finding struct {
	PromptID string `json:"prompt_id"`
	Kind     Kind   `json:"kind"`
	// Name is the sub-answer, Where the file.
	Name   string `json:"name,omitempty"`
	Where  string `json:"where,omitempty"`
	Reason string `json:"reason"`
}

// Supporter says whether a reference can be scored. *reward.Scorer is the real one.
type Supporter interface {
	Supports(ref task.Reference) error
}

// Files opens a prompt's data files.
type Files func(ctx context.Context, f task.File) (io.ReadCloser, error)

// Run audits all items. Files may be nil: data files are then not looked into.
func Run(ctx context.Context, all []items.Item, scorer Supporter, files Files) ([]Finding, error) {
	var out []Finding
	for _, it := range all {
		if err := ctx.Err(); err != nil {
			return out, err
		}
		if err := scorer.Supports(it.Reference); err != nil {
			out = append(out, Finding{PromptID: it.Prompt.ID, Kind: Unscorable, Reason: err.Error()})
			continue
		}
		out = append(out, marks(it)...)
		gold := golden(it.Reference)
		out = append(out, inPrompt(it, gold)...)
		if files != nil && len(gold) > 0 {
			for _, f := range it.Prompt.Files {
				out = append(out, inFile(ctx, it, f, gold, files)...)
			}
		}
	}
	return out, nil
}

// marks states the reference answer as a policy would, in one grounded claim, and scores it by the
// training rule and by the official one.
func marks(it items.Item) []Finding {
	rule, want, ruled, err := outcome.Select(it.Reference)
	if err != nil {
		return []Finding{{PromptID: it.Prompt.ID, Kind: Unscorable, Reason: err.Error()}}
	}
	if !ruled {
		return nil // a judge's, or open: there is no answer that would have to be right
	}
	text := state(rule, want)
	claim := outcome.Claim{
		Node:       evidence.Node{ID: "c1", Kind: evidence.NodeAtomic, Text: text, Fields: []evidence.Field{{Name: "x", Text: text}}},
		Structural: true, Lexical: true,
	}
	var out []Finding
	for name, subs := range map[string][]outcome.SubAnswer{
		"training": rule.Train([]outcome.Claim{claim}, want, true), "official": rule.Score(text, want),
	} {
		for _, s := range subs {
			if !s.Right {
				out = append(out, Finding{
					PromptID: it.Prompt.ID, Kind: NotFull, Name: s.Name,
					Reason: fmt.Sprintf("%s rule (%s) gives its own reference %.60q a score of %.2f: %s", name, rule.Name, s.Want, s.Score, s.Reason),
				})
			}
		}
	}
	return out
}

// state is the answer as a policy can give it: tagged, or in its own words where the value would end its tag
// early and the rule reads words too (the numbers of a chart are lists of lists).
func state(rule outcome.Rule, want []task.NamedAnswer) string {
	if !rule.Tagged && len(want) == 1 && strings.ContainsAny(want[0].Value, "]\n") {
		return want[0].Value
	}
	var parts []string
	for _, a := range want {
		parts = append(parts, "@"+a.Name+"["+a.Value+"]")
	}
	return strings.Join(parts, ", ")
}

// minGold: shorter values stand everywhere by chance.
const minGold = 5

// golden are the values worth looking for, by name.
func golden(ref task.Reference) []task.NamedAnswer {
	var out []task.NamedAnswer
	for _, a := range ref.Answers {
		if v := strings.TrimSpace(a.Value); len(v) >= minGold {
			out = append(out, task.NamedAnswer{Name: a.Name, Value: v})
		}
	}
	if t := strings.TrimSpace(ref.Text); len(t) >= minGold {
		out = append(out, task.NamedAnswer{Name: "text", Value: t})
	}
	return out
}

func inPrompt(it items.Item, gold []task.NamedAnswer) []Finding {
	var out []Finding
	for _, g := range gold {
		if standsIn([]byte(it.Prompt.Question), g.Value) {
			out = append(out, Finding{PromptID: it.Prompt.ID, Kind: InPrompt, Name: g.Name, Reason: fmt.Sprintf("%.60q stands in the question", g.Value)})
		}
	}
	return out
}

// maxLine bounds one piece of a data file that is searched; a value across a border is missed.
const maxLine = 1 << 20

func inFile(ctx context.Context, it items.Item, f task.File, gold []task.NamedAnswer, files Files) []Finding {
	r, err := files(ctx, f)
	if err != nil {
		return []Finding{{PromptID: it.Prompt.ID, Kind: Unread, Where: f.Name, Reason: err.Error()}}
	}
	defer r.Close()
	found := map[string]int{}
	in := bufio.NewReaderSize(r, maxLine)
	for {
		line, err := in.ReadSlice('\n')
		for _, g := range gold {
			if standsIn(line, g.Value) {
				found[g.Name]++
			}
		}
		if err != nil && err != bufio.ErrBufferFull {
			break
		}
	}
	var out []Finding
	for _, g := range gold {
		if n := found[g.Name]; n > 0 {
			out = append(out, Finding{
				PromptID: it.Prompt.ID, Kind: InFile, Name: g.Name, Where: f.Name,
				Reason: fmt.Sprintf("%.60q stands on %d lines of the file", g.Value, n),
			})
		}
	}
	return out
}

// standsIn finds a value as a whole: no letter or digit may go on before or after it.
func standsIn(text []byte, value string) bool {
	needle := []byte(value)
	for from := 0; ; {
		at := bytes.Index(text[from:], needle)
		if at < 0 {
			return false
		}
		at += from
		before, _ := utf8.DecodeLastRune(text[:at])
		after, _ := utf8.DecodeRune(text[at+len(needle):])
		if !wordy(before) && !wordy(after) {
			return true
		}
		from = at + 1
	}
}

func wordy(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
