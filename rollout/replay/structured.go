package replay

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// changeProgram changes files that are no delimited text. It runs in a process of its own that gets an empty
// environment: data files are not ours, and their readers are large.
//
//go:embed change.py
var changeProgram string

// structured are the names' endings that changeProgram knows.
var structured = []string{".json", ".jsonl", ".ndjson", ".geojson", ".xlsx", ".parquet", ".pq", ".db", ".sqlite", ".sqlite3"}

// changeTime bounds how long all copies may take.
const changeTime = 2 * time.Minute

type changeFile struct {
	Name string   `json:"name"`
	Path string   `json:"path"`
	Out  []string `json:"out"`
}

// structuredCopies writes changed copies of the files that are tables in another form than delimited text,
// puts them into sets, and marks in changed the names of those that it could change.
func (r *Replayer) structuredCopies(ctx context.Context, dir string, files map[string]string, code spelt, sets []map[string]string, changed map[string]bool) error {
	request := struct {
		Kinds []string     `json:"kinds"`
		Files []changeFile `json:"files"`
		spelt
	}{Kinds: changeNames, spelt: code}
	for name, from := range files {
		if !slices.Contains(structured, strings.ToLower(path.Ext(name))) {
			continue
		}
		f := changeFile{Name: name, Path: from}
		for i := range changeKinds {
			f.Out = append(f.Out, filepath.Join(dir, fmt.Sprintf("s%d-%d", i, len(request.Files))))
		}
		request.Files = append(request.Files, f)
	}
	if r.Python == "" || len(request.Files) == 0 {
		return nil
	}
	in, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, changeTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, r.Python, "-I", "-B", "-c", changeProgram)
	var out, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &out, &stderr
	cmd.Env, cmd.WaitDelay = []string{"LC_ALL=C.UTF-8"}, time.Second
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("replay: change data files: %w: %s", err, cut(strings.TrimSpace(stderr.String())))
	}
	var answer struct{ Changed []string }
	if err := json.Unmarshal(out.Bytes(), &answer); err != nil {
		return fmt.Errorf("replay: change data files: %w", err)
	}
	for _, f := range request.Files {
		if !slices.Contains(answer.Changed, f.Name) {
			continue
		}
		changed[f.Name] = true
		for i := range sets {
			sets[i][f.Name] = f.Out[i]
		}
	}
	return nil
}
