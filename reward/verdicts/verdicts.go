// Package verdicts keeps judges' verdicts in a directory that replicas share.
//
// Invariant: an entry is whole or absent; of several writers without replace the first one's value
// stays and all of them are told it.
package verdicts

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/verigraph/verigraph/reward"
)

// Dir is a store in one directory, one file per verdict. It is safe for concurrent use, also by
// several processes.
type Dir struct{ root string }

var _ reward.Store = Dir{}

// OpenDir creates the directory where it is missing.
func OpenDir(root string) (Dir, error) {
	if err := os.MkdirAll(root, 0o755); err != nil {
		return Dir{}, fmt.Errorf("verdicts: %w", err)
	}
	return Dir{root}, nil
}

func (d Dir) path(key string) (string, error) {
	if len(key) < 3 || filepath.Base(key) != key {
		return "", fmt.Errorf("verdicts: %q is no key", key)
	}
	return filepath.Join(d.root, key[:2], key+".json"), nil
}

// Get reads one verdict.
func (d Dir) Get(_ context.Context, key string) ([]byte, bool, error) {
	path, err := d.path(key)
	if err != nil {
		return nil, false, err
	}
	value, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("verdicts: %w", err)
	}
	return value, true, nil
}

// Put writes a file beside its place and moves it there, or links it where the first one must stay.
func (d Dir) Put(ctx context.Context, key string, value []byte, replace bool) (_ []byte, err error) {
	path, err := d.path(key)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("verdicts: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return nil, fmt.Errorf("verdicts: %w", err)
	}
	defer func() { _ = os.Remove(f.Name()) }()
	_, err = f.Write(value)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("verdicts: %w", err)
	}
	if replace {
		if err := os.Rename(f.Name(), path); err != nil {
			return nil, fmt.Errorf("verdicts: %w", err)
		}
		return value, nil
	}
	err = os.Link(f.Name(), path)
	if errors.Is(err, fs.ErrExist) {
		stands, ok, err := d.Get(ctx, key)
		if err == nil && !ok {
			err = fmt.Errorf("verdicts: %s vanished", path)
		}
		return stands, err
	}
	if err != nil {
		return nil, fmt.Errorf("verdicts: %w", err)
	}
	return value, nil
}
