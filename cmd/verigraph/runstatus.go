package main

import (
	"context"
	"time"

	"github.com/verigraph/verigraph/cmd/internal/line"
	"github.com/verigraph/verigraph/viewer"
)

// statusEvery is how often the viewer of a running run learns something new.
const statusEvery = time.Second

// keepStatus writes the run's progress to its status file until ctx ends. A moment without a leader is not
// written: the file keeps what was true last.
func (l *localLine) keepStatus(ctx context.Context, out string) error {
	tick := time.NewTicker(statusEvery)
	defer tick.Stop()
	for {
		if st, err := l.reward.Status(ctx); err == nil {
			v := line.ViewStatus(st, time.Now())
			v.Running = true
			if err := viewer.WriteStatus(out, v); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// lastStatus writes what the run ended with.
func (l *localLine) lastStatus(ctx context.Context, out string) error {
	st, err := l.reward.FinalStatus(ctx)
	if err != nil {
		return err
	}
	return viewer.WriteStatus(out, line.ViewStatus(st, time.Now()))
}
