// Package output writes the parts of a corpus: ms-swift JSON lines, verl Parquet, plain chat JSON lines, and
// ids with their mask.
//
// Invariants: the same samples give the same bytes; text is written with control text broken (see
// sft.Escaper); in no format is a turn trained that is context only.
package output

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"

	"github.com/verigraph/verigraph/sft"
	"github.com/verigraph/verigraph/sft/tokens"
)

// Row is a sample ready to be written.
type Row struct {
	Sample *sft.Sample
	// Messages are the sample's with control text broken.
	Messages []sft.Message
	Escaped  int
	// Tokens is nil where no tokenizer is configured.
	Tokens *tokens.Row
}

// Format is a family of files.
type Format struct {
	Name, Extension string
	// Write writes one file.
	Write func(w io.Writer, rows []Row) error
	// Rows is how many rows a sample becomes.
	Rows func(*sft.Sample) int
}

func oneRow(*sft.Sample) int { return 1 }

// Formats are the ones that a configuration switches on, in a fixed order.
func Formats(o sft.Outputs) []Format {
	var out []Format
	for _, f := range []struct {
		on bool
		Format
	}{
		{o.Swift, Format{"swift", ".jsonl", writeSwift, oneRow}},
		{o.Verl, Format{"verl", ".parquet", writeVerl, verlRows}},
		{o.Chat, Format{"chat", ".jsonl", writeChat, oneRow}},
		{o.Tokenized, Format{"tokenized", ".parquet", writeTokenized, oneRow}},
	} {
		if f.on {
			out = append(out, f.Format)
		}
	}
	return out
}

// SwiftRow is a line for ms-swift: loss on every assistant message.
type SwiftRow struct {
	Messages   []sft.Message `json:"messages"`
	ID         string        `json:"id"`
	PromptID   string        `json:"prompt_id"`
	DataSource string        `json:"data_source"`
	Licence    string        `json:"licence"`
	Stage      int           `json:"stage"`
	Kind       sft.Kind      `json:"kind"`
}

func writeSwift(w io.Writer, rows []Row) error {
	return eachLine(w, rows, func(r *Row) any {
		s := r.Sample
		return SwiftRow{r.Messages, s.ID, s.PromptID, s.DataSource, s.Licence, s.Stage, s.Kind}
	})
}

// ChatMessage is a message without flags of ours; Weight 0 is how chat fine-tuning services name a turn
// that is context only.
type ChatMessage struct {
	Role    string `json:"role"`
	Content string `json:"content"`
	Weight  *int   `json:"weight,omitempty"`
}

// ChatRow is a plain line.
type ChatRow struct {
	Messages []ChatMessage `json:"messages"`
	ID       string        `json:"id"`
	Licence  string        `json:"licence"`
}

func writeChat(w io.Writer, rows []Row) error {
	zero := 0
	return eachLine(w, rows, func(r *Row) any {
		out := ChatRow{ID: r.Sample.ID, Licence: r.Sample.Licence}
		for _, m := range r.Messages {
			c := ChatMessage{Role: m.Role, Content: m.Content}
			if m.Role == sft.Assistant && !m.Trained() {
				c.Weight = &zero
			}
			out.Messages = append(out.Messages, c)
		}
		return out
	})
}

func eachLine(w io.Writer, rows []Row, of func(*Row) any) error {
	b := bufio.NewWriterSize(w, 1<<20)
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	for i := range rows {
		if err := enc.Encode(of(&rows[i])); err != nil {
			return fmt.Errorf("output: sample %s: %w", rows[i].Sample.ID, err)
		}
	}
	return b.Flush()
}
