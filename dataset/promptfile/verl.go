package promptfile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	pq "github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"github.com/verigraph/verigraph/dataset"
	"github.com/verigraph/verigraph/task"
)

// verlRow has the columns of verl's RLHFDataset (verl/utils/dataset/rl_dataset.py). Free-form data stands
// in JSON text, since Parquet gives every row of a struct column the same fields.
type verlRow struct {
	DataSource  string        `parquet:"data_source"`
	Prompt      []verlMessage `parquet:"prompt,list"`
	Ability     string        `parquet:"ability"`
	RewardModel verlReward    `parquet:"reward_model"`
	ExtraInfo   verlExtra     `parquet:"extra_info"`
}

type verlMessage struct {
	Role    string `parquet:"role"`
	Content string `parquet:"content"`
}

// verlReward is what verl's own reward functions would read. Ground truth is text: @name[value] items
// for a rule, else free text.
type verlReward struct {
	Style       string `parquet:"style"`
	GroundTruth string `parquet:"ground_truth"`
}

type verlExtra struct {
	Index int64  `parquet:"index"`
	Split string `parquet:"split"`
	ID    string `parquet:"id"`
	// TaskJSON is the prompt as a JSONL line; FilesJSON its data files with name, sha256 and size, which
	// the trainer hands back in request mode.
	TaskJSON  string `parquet:"task_json"`
	FilesJSON string `parquet:"files_json"`
}

// WriteVerl writes prompts as Parquet for RLHFDataset. split is train, val or test.
func WriteVerl(w io.Writer, in dataset.Imported, split string) error {
	out := pq.NewGenericWriter[verlRow](w, pq.Compression(&zstd.Codec{}))
	for i, l := range lines(in) {
		row, err := verlRowOf(i, l, in.Prompts[i].Files, split)
		if err != nil {
			return fmt.Errorf("prompt %s: %w", l.ID, err)
		}
		if _, err := out.Write([]verlRow{row}); err != nil {
			return err
		}
	}
	return out.Close()
}

func verlRowOf(index int, l line, files []task.File, split string) (verlRow, error) {
	taskJSON, err := encode(l)
	if err != nil {
		return verlRow{}, err
	}
	if files == nil {
		files = []task.File{}
	}
	filesJSON, err := encode(files)
	if err != nil {
		return verlRow{}, err
	}
	row := verlRow{
		DataSource: l.DataSource, Ability: "data_analysis", Prompt: []verlMessage{{"user", l.Question}},
		ExtraInfo: verlExtra{Index: int64(index), Split: split, ID: l.ID, TaskJSON: string(taskJSON), FilesJSON: string(filesJSON)},
	}
	switch a := l.Answer.(type) {
	case [][2]string:
		row.RewardModel.Style = "rule"
		for k, pair := range a {
			if k > 0 {
				row.RewardModel.GroundTruth += " "
			}
			row.RewardModel.GroundTruth += "@" + pair[0] + "[" + pair[1] + "]"
		}
	case map[string]string:
		row.RewardModel = verlReward{"llm_judge", a["text"]}
	}
	return row, nil
}

// encode is JSON without HTML escapes, which would change code in answers for a person who reads it.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimRight(b.Bytes(), "\n"), err
}

// ReadParquet reads the rows of any Parquet file as JSON objects.
func ReadParquet(ctx context.Context, path string) ([]json.RawMessage, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	opened, err := pq.OpenFile(file, info.Size())
	if err != nil {
		return nil, fmt.Errorf("no Parquet file: %v", err) // the cause names the path again
	}
	r := pq.NewReader(opened)
	defer r.Close()
	var rows []json.RawMessage
	for ctx.Err() == nil {
		row := map[string]any{}
		if err := r.Read(&row); errors.Is(err, io.EOF) {
			return rows, nil
		} else if err != nil {
			return nil, fmt.Errorf("row %d: %w", len(rows), err)
		}
		raw, err := encode(row)
		if err != nil {
			return nil, fmt.Errorf("row %d: %w", len(rows), err)
		}
		rows = append(rows, raw)
	}
	return nil, ctx.Err()
}
