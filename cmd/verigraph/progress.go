package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"

	"github.com/verigraph/verigraph/dataset/leader"
)

// progress shows one line that is rewritten in place, on terminals only.
type progress struct {
	w      io.Writer
	ticker *time.Ticker // nil when there is no terminal
}

func newProgress(w io.Writer) *progress {
	p := &progress{w: w}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		p.ticker = time.NewTicker(500 * time.Millisecond)
	}
	return p
}

func (p *progress) tick() <-chan time.Time {
	if p.ticker == nil {
		return nil
	}
	return p.ticker.C
}

func (p *progress) show(s leader.Progress) {
	l := s.Ledger
	fmt.Fprintf(p.w, "\r\x1b[K%d of %d rollouts delivered, %d in flight, %d lost or unscored, %d batches",
		l.Delivered, l.Dispatched, l.InFlight, l.Failed+l.Unscored+l.SetAside, s.BatchesWritten)
}

func (p *progress) done() {
	if p.ticker != nil {
		p.ticker.Stop()
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
