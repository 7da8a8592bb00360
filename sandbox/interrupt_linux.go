package sandbox

import "golang.org/x/sys/unix"

// interruptSignal is what the runner turns into an exception in the cell.
const interruptSignal = unix.SIGXCPU

// interrupt asks the running cell to end and reports whether the signal was sent.
func (p *process) interrupt() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped {
		return false
	}
	return p.signal(interruptSignal) == nil
}
