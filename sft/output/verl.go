package output

import (
	_ "embed"
	"fmt"
	"io"
	"strings"

	pq "github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"github.com/verigraph/verigraph/sft"
)

// verl's MultiTurnSFTDataset trains every message of the role assistant and knows no flag. A row for verl
// therefore says in the role which turns are context, and ChatTemplate renders those as assistant turns.
const (
	// RoleContext is an assistant turn that is not trained.
	RoleContext = "context"
	// RoleObservation is a user message behind an assistant turn.
	RoleObservation = "observation"
)

// VerlRow is a row for verl: the columns after messages are for people.
type VerlRow struct {
	Messages   []VerlMessage `parquet:"messages,list"`
	ID         string        `parquet:"id"`
	PromptID   string        `parquet:"prompt_id"`
	DataSource string        `parquet:"data_source"`
	Licence    string        `parquet:"licence"`
	Stage      int32         `parquet:"stage"`
	Kind       string        `parquet:"kind"`
}

// VerlMessage is one message.
type VerlMessage struct {
	Role    string `parquet:"role"`
	Content string `parquet:"content"`
}

// verlRows: one row where every assistant message is trained, else one for each trained turn.
func verlRows(s *sft.Sample) int {
	if s.Flagged() {
		return s.TrainedTurns()
	}
	return 1
}

func writeVerl(w io.Writer, rows []Row) error {
	var out []VerlRow
	for i := range rows {
		out = append(out, toVerl(rows[i].Sample, rows[i].Messages)...)
	}
	return writeParquet(w, out)
}

// toVerl gives a sample's rows. Messages behind the last trained turn are left out.
func toVerl(s *sft.Sample, messages []sft.Message) []VerlRow {
	base := VerlRow{ID: s.ID, PromptID: s.PromptID, DataSource: s.DataSource, Licence: s.Licence, Stage: int32(s.Stage), Kind: string(s.Kind)}
	one := !s.Flagged()
	var out []VerlRow
	last := 0
	for i, m := range messages {
		if m.Trained() {
			last = i
		}
	}
	for i, m := range messages {
		if !m.Trained() || one && i != last {
			continue
		}
		row := base
		row.Messages = make([]VerlMessage, i+1)
		for j := range row.Messages {
			role := messages[j].Role
			switch {
			case role == sft.Assistant && j != i && !one:
				role = RoleContext
			case role == sft.User && j > 0 && messages[j-1].Role == sft.Assistant:
				role = RoleObservation
			}
			row.Messages[j] = VerlMessage{role, messages[j].Content}
		}
		if !one {
			row.ID = fmt.Sprintf("%s@%d", s.ID, len(out))
		}
		out = append(out, row)
	}
	return out
}

//go:embed chat_template.jinja
var chatTemplate string

// ChatTemplate is the template that verl is to use: what is appended behind a trained turn in rollouts stands
// with the message that follows, so that verl's mask is exactly the one of the target run.
func ChatTemplate(t sft.Target) string {
	end, tail := "<|im_end|>", `\n`
	if !t.TrainEndOfTurn {
		end, tail = "", `<|im_end|>\n`
	}
	think := ""
	if !t.Thinking {
		think = `<think>\n\n</think>\n\n`
	}
	return strings.NewReplacer("END_OF_TURN", end, "BEFORE_OBSERVATION", tail, "EMPTY_REASONING", think).Replace(chatTemplate)
}

// TokenizedRow is a sample as ids.
type TokenizedRow struct {
	InputIDs   []int32 `parquet:"input_ids,list"`
	LossMask   []int8  `parquet:"loss_mask,list"`
	ID         string  `parquet:"id"`
	PromptID   string  `parquet:"prompt_id"`
	DataSource string  `parquet:"data_source"`
	Licence    string  `parquet:"licence"`
	Stage      int32   `parquet:"stage"`
	Kind       string  `parquet:"kind"`
	// Stored: the ids are those of the rollout; else the text was encoded.
	Stored bool `parquet:"stored"`
}

func writeTokenized(w io.Writer, rows []Row) error {
	out := make([]TokenizedRow, len(rows))
	for i, r := range rows {
		s := r.Sample
		out[i] = TokenizedRow{
			InputIDs: r.Tokens.IDs, LossMask: r.Tokens.Mask, ID: s.ID, PromptID: s.PromptID, DataSource: s.DataSource,
			Licence: s.Licence, Stage: int32(s.Stage), Kind: string(s.Kind), Stored: r.Tokens.Stored,
		}
	}
	return writeParquet(w, out)
}

// rowGroup is the number of rows of one row group.
const rowGroup = 2000

func writeParquet[T any](w io.Writer, rows []T) error {
	out := pq.NewGenericWriter[T](w, pq.Compression(&zstd.Codec{Level: zstd.SpeedFastest}), pq.CreatedBy("verigraph", "1", ""))
	for start := 0; start < len(rows); start += rowGroup {
		if _, err := out.Write(rows[start:min(start+rowGroup, len(rows))]); err != nil {
			return fmt.Errorf("output: parquet: %w", err)
		}
		if err := out.Flush(); err != nil {
			return fmt.Errorf("output: parquet: %w", err)
		}
	}
	if err := out.Close(); err != nil {
		return fmt.Errorf("output: parquet: %w", err)
	}
	return nil
}
