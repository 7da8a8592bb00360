package build

import (
	"fmt"
	"io"
	"time"
)

// progress prints at most a line every two seconds, and the last of a phase.
type progress struct {
	w     io.Writer
	phase string
	begin time.Time
	shown time.Time
}

func (p *progress) show(phase string, done, total int) {
	if p.w == nil {
		return
	}
	now := time.Now()
	if phase != p.phase {
		p.phase, p.begin = phase, now
	}
	if done != total && now.Sub(p.shown) < 2*time.Second {
		return
	}
	p.shown = now
	line := fmt.Sprintf("%s: %d records", phase, done)
	if total > 0 {
		line = fmt.Sprintf("%s: %d of %d records", phase, done, total)
	}
	fmt.Fprintf(p.w, "%s, %s\n", line, now.Sub(p.begin).Round(time.Second))
}
