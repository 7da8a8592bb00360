// Package items keeps what scoring needs besides the trajectories: each prompt with its reference
// answer, on the reward side only, so that a stored run can be scored again offline.
//
// Invariant: the file holds each prompt once and is readable by its owner alone.
package items

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/verigraph/verigraph/internal/linefile"
	"github.com/verigraph/verigraph/task"
)

// Item is one prompt with its reference answer.
type Item struct {
	Prompt    task.Prompt    `json:"prompt"`
	Reference task.Reference `json:"reference"`
}

// name is the file below an output directory.
const name = "reward/items.jsonl"

// Keeper appends items. It is safe for concurrent use, also by several servers that share a directory; close it.
type Keeper struct{ file *linefile.File }

// Open opens the file of an output directory, continuing an earlier one.
func Open(dir string) (*Keeper, error) {
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("reward items: %w", err)
	}
	file, err := linefile.Open(path, 0o600, func(line []byte) (string, error) {
		var it Item
		err := json.Unmarshal(line, &it)
		return it.Prompt.ID, err
	})
	if err != nil {
		return nil, fmt.Errorf("reward items: %w", err)
	}
	return &Keeper{file}, nil
}

// Add keeps an item unless its prompt is kept already.
func (k *Keeper) Add(it Item) error {
	if err := k.file.Once(it.Prompt.ID, func() ([]byte, error) { return json.Marshal(it) }); err != nil {
		return fmt.Errorf("reward items: %w", err)
	}
	return nil
}

// Close closes the file.
func (k *Keeper) Close() error { return k.file.Close() }

// Read returns the items of an output directory.
func Read(dir string) ([]Item, error) {
	path := filepath.Join(dir, name)
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reward items: %w", err)
	}
	whole := data[:bytes.LastIndexByte(data, '\n')+1] // without a line that is torn
	var out []Item
	n := 0
	for line := range bytes.Lines(whole) {
		n++
		var it Item
		if err := json.Unmarshal(line, &it); err != nil {
			return nil, fmt.Errorf("reward items: %s:%d: %w", path, n, err)
		}
		out = append(out, it)
	}
	return out, nil
}
