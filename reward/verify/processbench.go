package verify

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// ReadProcessBench reads ProcessBench items (JSONL: id, problem, steps, label). Steps are numbered
// from 0, as the labels are; each rests on the one before.
func ReadProcessBench(r io.Reader) ([]Item, error) {
	var items []Item
	in := bufio.NewReader(r)
	for n := 1; ; n++ {
		line, err := in.ReadBytes('\n')
		if len(strings.TrimSpace(string(line))) > 0 {
			it, bad := processItem(line)
			if bad != nil {
				return nil, fmt.Errorf("processbench: line %d: %w", n, bad)
			}
			items = append(items, it)
		}
		if errors.Is(err, io.EOF) {
			return items, nil
		}
		if err != nil {
			return nil, fmt.Errorf("processbench: %w", err)
		}
	}
}

func processItem(line []byte) (Item, error) {
	var row struct {
		ID      string   `json:"id"`
		Problem string   `json:"problem"`
		Steps   []string `json:"steps"`
		Label   *int     `json:"label"`
	}
	if err := json.Unmarshal(line, &row); err != nil {
		return Item{}, err
	}
	if row.Label == nil || *row.Label < NoError || *row.Label >= len(row.Steps) {
		return Item{}, fmt.Errorf("%s: label is missing or names none of the %d steps", row.ID, len(row.Steps))
	}
	group, _, _ := strings.Cut(row.ID, "-")
	it := Item{ID: row.ID, Group: group, Problem: row.Problem, Label: *row.Label}
	for i, s := range row.Steps {
		u := Unit{Text: s, Place: i}
		if i > 0 {
			u.Premises = []int{i - 1}
		}
		it.Units = append(it.Units, u)
	}
	return it, nil
}
