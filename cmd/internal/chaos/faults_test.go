package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// errNotNow: there is no victim at the moment, for example no leader.
var errNotNow = errors.New("no victim")

// injected is what came of the schedule.
type injected struct {
	Fault  string  `json:"fault"`
	Kind   kind    `json:"kind"`
	At     string  `json:"at"`
	Lasted float64 `json:"lasted_s"`
	Note   string  `json:"note,omitempty"`
	// LedAgain is how long nobody led after the leader was killed.
	LedAgain float64 `json:"led_again_s,omitempty"`
	begun    time.Time
	ended    time.Time
}

// break does all faults of a schedule, each at its time, and returns once the last one is over.
func (b *bed) breakThings(ctx context.Context, schedule []fault) []injected {
	var mu sync.Mutex
	var out []injected
	var all sync.WaitGroup
	begun := time.Now()
	for _, f := range schedule {
		select {
		case <-time.After(time.Until(begun.Add(f.At))):
		case <-ctx.Done():
			return nil
		}
		all.Go(func() {
			in := b.inject(ctx, f)
			b.t.Logf("%s %s %s", in.At, f, in.Note)
			mu.Lock()
			defer mu.Unlock()
			out = append(out, in)
		})
	}
	all.Wait()
	return out
}

// inject does one fault from beginning to end.
func (b *bed) inject(ctx context.Context, f fault) injected {
	in := injected{Fault: f.String(), Kind: f.Kind, begun: time.Now()}
	in.At = in.begun.UTC().Format(time.TimeOnly)
	note, undo, err := b.begin(ctx, f)
	in.Note = note
	if err != nil {
		in.Note = "not injected: " + err.Error()
	}
	if err == nil && f.For > 0 {
		select {
		case <-time.After(f.For):
		case <-ctx.Done():
		}
	}
	if undo != nil {
		if err := undo(); err != nil {
			in.Note += "; not undone: " + err.Error()
		}
	}
	in.ended = time.Now()
	in.Lasted = in.ended.Sub(in.begun).Seconds()
	if err == nil && (f.Kind == killLeader || f.Kind == killPair) {
		if _, err := b.leader(ctx); err == nil {
			in.LedAgain = time.Since(in.begun).Seconds()
		}
	}
	return in
}

// begin starts a fault and says how to end it.
func (b *bed) begin(ctx context.Context, f fault) (note string, undo func() error, err error) {
	leads := -1
	switch f.Kind {
	case killLeader, killStandby, killPair, stopLeader, stopStandby, cutLeader, clockLeader:
		if _, leads = b.status(ctx); leads < 0 {
			return "", nil, errNotNow
		}
	}
	w, n := f.Target%workers, f.Target%nodes
	switch f.Kind {
	case killWorker:
		return b.kill(b.worker[w])
	case killLeader:
		return b.kill(b.server[leads])
	case killStandby:
		return b.kill(b.server[1-leads])
	case killNode:
		return b.kill(b.node[n])
	case killTrainer:
		return b.kill(b.trainer)
	case killZygote:
		return b.killChild(b.worker[w])
	case killPair:
		return b.kill(b.server[leads], b.node[n])
	case killNodes:
		return b.kill(b.node[:]...)
	case stopWorker:
		return pauseProcess(b.worker[w])
	case stopLeader:
		return pauseProcess(b.server[leads])
	case stopStandby:
		return pauseProcess(b.server[1-leads])
	case stopNode:
		return pauseProcess(b.node[n])
	case stopTrainer:
		return pauseProcess(b.trainer)
	case fullNode:
		return b.fullNode(n)
	case fullBlob:
		if !b.blobs.small {
			return "", nil, errors.New("the disk is not a small one")
		}
		return "", b.blobs.free, b.blobs.fill()
	case clockWorker:
		return b.jump(b.worker[w], f.Jump)
	case clockLeader:
		return b.jump(b.server[leads], f.Jump)
	case clockNode:
		return b.jump(b.node[n], f.Jump)
	case policyDeath:
		return b.dead(b.endpoints[f.Target%policies])
	case policiesDeath:
		return b.dead(b.endpoints[:]...)
	case judgeDeath:
		return b.dead(b.judgeAt)
	case judgeErrors:
		b.judge.broken.Store(true)
		return "", func() error { b.judge.broken.Store(false); return nil }, nil
	}
	return b.links(f, leads)
}

func (b *bed) kill(ps ...*process) (string, func() error, error) {
	var names []string
	for _, p := range ps {
		if p.signal(syscall.SIGKILL) {
			names = append(names, p.name)
		}
	}
	if len(names) == 0 {
		return "", nil, errNotNow
	}
	return strings.Join(names, ", "), nil, nil
}

// killChild kills the zygote of a worker, or its analyser: whatever child is found first.
func (b *bed) killChild(p *process) (string, func() error, error) {
	for _, c := range children(p.pid()) {
		if err := syscall.Kill(c, syscall.SIGKILL); err == nil {
			return fmt.Sprintf("%s: child %d", p.name, c), nil, nil
		}
	}
	return "", nil, errNotNow
}

func pauseProcess(p *process) (string, func() error, error) {
	pid := p.pid()
	if !p.signal(syscall.SIGSTOP) {
		return "", nil, errNotNow
	}
	return p.name, func() error {
		if err := syscall.Kill(pid, syscall.SIGCONT); err != nil && !errors.Is(err, syscall.ESRCH) { // killed meanwhile
			return err
		}
		return nil
	}, nil
}

// fullNode fills the disk of a NATS server. With room again it has to be started anew, as its operator is told.
func (b *bed) fullNode(n int) (string, func() error, error) {
	d := b.store[n]
	if !d.small {
		return "", nil, errors.New("the disk is not a small one")
	}
	if err := d.fill(); err != nil {
		return "", d.free, err
	}
	return b.node[n].name, func() error {
		err := d.free()
		b.node[n].signal(syscall.SIGKILL)
		return err
	}, nil
}

func (b *bed) jump(p *process, by time.Duration) (string, func() error, error) {
	if !b.size.clocks {
		return "", nil, errors.New("the binaries have no clock that can be set")
	}
	path := b.clock(p.name)
	return p.name + " by " + by.String(), func() error { return setClock(path, 0) }, setClock(path, by)
}

func (b *bed) dead(es ...*endpoint) (string, func() error, error) {
	for _, e := range es {
		e.die()
	}
	return "", func() error {
		var errs []error
		for _, e := range es {
			errs = append(errs, e.begin())
		}
		return errors.Join(errs...)
	}, nil
}

// links are the faults of the network.
func (b *bed) links(f fault, leads int) (string, func() error, error) {
	var ls []*link
	var name string
	s := linkState{refuse: !f.Silent, silent: f.Silent}
	switch f.Kind {
	case cutNode:
		n := f.Target % nodes
		name = b.node[n].name
		for part := range b.toNode {
			ls = append(ls, b.toNode[part][n])
		}
		for i := range nodes {
			if i != n {
				ls = append(ls, b.routes[i][n], b.routes[n][i])
			}
		}
	case cutWorker:
		w := f.Target % workers
		name = b.worker[w].name
		ls = append(append(ls, b.toNode[w][:]...), b.toPolicy[w][:]...)
	case cutLeader:
		name = b.server[leads].name
		ls = append(append(ls, b.toNode[workers+leads][:]...), b.toFeed[leads], b.toJudge[leads])
	case cutTrainer:
		ls = b.toFeed[:]
	case slowBroker:
		s = linkState{delay: time.Duration(20+f.Target%150) * time.Millisecond}
		for part := range b.toNode {
			ls = append(ls, b.toNode[part][:]...)
		}
	case slowRoutes:
		s = linkState{delay: time.Duration(20+f.Target%150) * time.Millisecond}
		for i := range nodes {
			for j := range nodes {
				if i != j {
					ls = append(ls, b.routes[i][j])
				}
			}
		}
	case slowFeed:
		s = linkState{delay: 100 * time.Millisecond, rate: 20 << 10}
		ls = b.toFeed[:]
	case slowPolicy:
		s = linkState{delay: 200 * time.Millisecond, rate: 50 << 10}
		for w := range workers {
			ls = append(ls, b.toPolicy[w][:]...)
		}
	default:
		return "", nil, fmt.Errorf("no fault is called %q", f.Kind)
	}
	for _, l := range ls {
		l.set(s)
	}
	switch {
	case s.delay > 0:
		name += fmt.Sprintf(" %s a piece", s.delay)
	case s.silent:
		name += " without a word"
	default:
		name += " with resets"
	}
	return name, func() error {
		for _, l := range ls {
			l.set(linkState{})
		}
		return nil
	}, nil
}

// children are the processes whose parent is pid.
func children(pid int) (out []int) {
	if pid == 0 {
		return nil
	}
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, t := range tasks {
		data, _ := os.ReadFile(t)
		for _, f := range strings.Fields(string(data)) {
			if c, err := strconv.Atoi(f); err == nil {
				out = append(out, c)
			}
		}
	}
	return out
}
