// Package items keeps what scoring needs besides the trajectories: each prompt with its reference
// answer, on the reward side only, so that a stored run can be scored again offline.
//
// Invariant: the file holds each prompt once and is readable by its owner alone.
package items

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/verigraph/verigraph/task"
)

// Item is one prompt with its reference answer.
type Item struct {
	Prompt    task.Prompt    `json:"prompt"`
	Reference task.Reference `json:"reference"`
}

// name is the file below an output directory.
const name = "reward/items.jsonl"

// Keeper appends items. It is safe for concurrent use; close it.
type Keeper struct {
	mu   sync.Mutex
	seen map[string]bool
	file *os.File
}

// Open opens the file of an output directory, continuing an earlier one.
func Open(dir string) (*Keeper, error) {
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("reward items: %w", err)
	}
	old, whole, err := read(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	k := &Keeper{seen: map[string]bool{}}
	for _, it := range old {
		k.seen[it.Prompt.ID] = true
	}
	if k.file, err = os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600); err != nil {
		return nil, fmt.Errorf("reward items: %w", err)
	}
	err = k.file.Truncate(whole) // a line that a crash tore
	if err == nil {
		_, err = k.file.Seek(whole, 0)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("reward items: %w", err), k.file.Close())
	}
	return k, nil
}

// Add keeps an item unless its prompt is kept already.
func (k *Keeper) Add(it Item) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.seen[it.Prompt.ID] {
		return nil
	}
	line, err := json.Marshal(it)
	if err == nil {
		_, err = k.file.Write(append(line, '\n'))
	}
	if err != nil {
		return fmt.Errorf("reward items: %w", err)
	}
	k.seen[it.Prompt.ID] = true
	return nil
}

// Close closes the file.
func (k *Keeper) Close() error { return k.file.Close() }

// Read returns the items of an output directory.
func Read(dir string) ([]Item, error) {
	out, _, err := read(filepath.Join(dir, name))
	return out, err
}

// read also returns how many bytes are whole lines.
func read(path string) ([]Item, int64, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, 0, fmt.Errorf("reward items: %w", err)
	}
	whole := int64(bytes.LastIndexByte(data, '\n') + 1)
	var out []Item
	lines := bufio.NewReader(bytes.NewReader(data[:whole]))
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return out, whole, nil
		}
		var it Item
		if err := json.Unmarshal(line, &it); err != nil {
			return nil, 0, fmt.Errorf("reward items: %s:%d: %w", path, n, err)
		}
		out = append(out, it)
	}
}
