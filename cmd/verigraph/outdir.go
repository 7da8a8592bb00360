package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/verigraph/verigraph/cmd/internal/config"
)

// runIdentity is what may not change when a run is resumed: an output directory never mixes runs.
type runIdentity struct {
	Run       string `json:"run"`
	Prompts   int    `json:"prompts"`
	Input     string `json:"input"` // digest of prompts and reference answers
	GroupSize int    `json:"group_size"`
	Seed      int64  `json:"seed"`
	Reward    string `json:"reward"`
}

func identity(cfg config.Config, in input) runIdentity {
	h := fnv.New128a()
	_ = json.NewEncoder(h).Encode(in.prompts)
	_ = json.NewEncoder(h).Encode(in.references)
	return runIdentity{
		Run: cfg.Run, Prompts: len(in.prompts), Input: fmt.Sprintf("%x", h.Sum(nil)),
		GroupSize: cfg.Leader.GroupSize, Seed: cfg.Leader.Seed, Reward: cfg.Reward.Preset,
	}
}

const identityName = "run.json"

// openOut claims an output directory: a new or empty one, or with resume the one of this very run.
func openOut(dir string, resume bool, id runIdentity) error {
	path := filepath.Join(dir, identityName)
	data, err := os.ReadFile(path)
	switch {
	case err == nil:
		return checkResume(dir, resume, id, data)
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("--out: %w", err)
	case resume:
		return fmt.Errorf("--resume: %s holds no run", dir)
	}
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return fmt.Errorf("--out: %s is not empty and holds no run", dir)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	if data, err = json.MarshalIndent(id, "", "  "); err != nil {
		return err
	}
	return os.WriteFile(path, append(data, '\n'), 0o644)
}

func checkResume(dir string, resume bool, id runIdentity, data []byte) error {
	var old runIdentity
	if err := json.Unmarshal(data, &old); err != nil {
		return fmt.Errorf("--out: %s: %w", filepath.Join(dir, identityName), err)
	}
	if !resume {
		return fmt.Errorf("--out: %s holds run %s already; go on with --resume, or choose another directory", dir, old.Run)
	}
	if old != id {
		return fmt.Errorf("--resume: %s holds another run: %+v, not %+v", dir, old, id)
	}
	return nil
}

// runLogger writes the structured log to a file, and errors as plain lines to stderr as well: a person
// who waits should see why, e.g. that scoring is paused because the judge is broken.
func runLogger(path string, stderr io.Writer) (*zap.Logger, error) {
	cfg := zap.NewProductionConfig()
	cfg.OutputPaths, cfg.ErrorOutputPaths = []string{path}, []string{path}
	cfg.Sampling = nil
	plain := zapcore.NewCore(
		zapcore.NewConsoleEncoder(zapcore.EncoderConfig{MessageKey: "msg", ConsoleSeparator: "  "}),
		zapcore.Lock(zapcore.AddSync(stderr)), zapcore.ErrorLevel,
	)
	log, err := cfg.Build(zap.WrapCore(func(file zapcore.Core) zapcore.Core { return zapcore.NewTee(file, plain) }), zap.AddStacktrace(zapcore.DPanicLevel))
	if err != nil {
		return nil, fmt.Errorf("log: %w", err)
	}
	return log, nil
}
