package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// trainer is the command that takes the batches.
type trainer struct {
	ended chan struct{} // nil (blocks forever) without a command
	err   error
}

// startTrainer starts command with VERIGRAPH_FEED set; its output goes to OUT/trainer.log.
func startTrainer(ctx context.Context, command, feed, out string) *trainer {
	if command == "" {
		return &trainer{}
	}
	t := &trainer{ended: make(chan struct{})}
	go func() {
		defer close(t.ended)
		t.err = runTrainer(ctx, command, feed, filepath.Join(out, "trainer.log"))
	}()
	return t
}

func runTrainer(ctx context.Context, command, feed, logPath string) error {
	logFile, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("trainer: %w", err)
	}
	defer logFile.Close()
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", command)
	cmd.Env = append(os.Environ(), "VERIGRAPH_FEED="+feed)
	cmd.Stdout, cmd.Stderr = logFile, logFile
	// The shell's children hold the log open: the group is ended, and nobody is waited for longer.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("trainer: %w; its output is in %s", err, logPath)
	}
	return nil
}

// wait returns how the command ended; nil without a command.
func (t *trainer) wait() error {
	if t.ended == nil {
		return nil
	}
	<-t.ended
	return t.err
}
