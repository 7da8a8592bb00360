package policy

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Ledger holds the calls that were begun and have not ended. Every call enters once and leaves once,
// with its record; one that stays past a limit can be listed and ended. Clients may share one.
type Ledger struct {
	mu   sync.Mutex
	next uint64
	open map[uint64]openCall
}

type openCall struct {
	call Call
	end  context.CancelCauseFunc
}

// overdueError is why a call was ended by EndOver.
type overdueError struct{ age, limit time.Duration }

func (e overdueError) Error() string {
	return fmt.Sprintf("the call was open for %s, the limit is %s", e.age.Round(time.Millisecond), e.limit)
}

func (l *Ledger) enter(call Call, end context.CancelCauseFunc) (leave func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open == nil {
		l.open = map[uint64]openCall{}
	}
	id := l.next
	l.next++
	l.open[id] = openCall{call, end}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.open, id)
	}
}

// Over lists the open calls that began before now-limit, oldest first; a limit of 0 lists all.
func (l *Ledger) Over(limit time.Duration, now time.Time) []Call {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []Call
	for _, o := range l.open {
		if now.Sub(o.call.Start) >= limit {
			out = append(out, o.call)
		}
	}
	slices.SortFunc(out, func(a, b Call) int {
		return cmp.Or(a.Start.Compare(b.Start), cmp.Compare(a.RequestID, b.RequestID))
	})
	return out
}

// EndOver ends the open calls that are over the limit and returns them. Each still leaves its end
// record, as unreachable with the reason, and may be tried again within its budget.
func (l *Ledger) EndOver(limit time.Duration, now time.Time) []Call {
	out := l.Over(limit, now)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range l.open {
		if age := now.Sub(o.call.Start); age >= limit {
			o.end(overdueError{age, limit})
		}
	}
	return out
}
