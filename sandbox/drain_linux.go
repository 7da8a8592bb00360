package sandbox

import (
	"io"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// drain reads a session's output pipe all the time, so that no cell ever waits for us. While a cell
// runs the bytes go to its sink; between cells they are dropped.
type drain struct {
	r    *os.File
	raw  syscall.RawConn
	done chan struct{}

	// mu is held while bytes move from the pipe to the sink, so that whoever holds it knows that
	// every byte read so far has reached the sink.
	mu   sync.Mutex
	sink io.Writer
	buf  []byte
	// dropped counts the bytes that came between cells.
	dropped int64
}

func newDrain(r *os.File) *drain {
	d := &drain{r: r, done: make(chan struct{}), buf: make([]byte, 64<<10)}
	d.sink = newOutput(2 << 10)
	raw, err := r.SyscallConn()
	if err != nil {
		close(d.done)
		return d
	}
	d.raw = raw
	go d.run()
	return d
}

func (d *drain) run() {
	defer close(d.done)
	for {
		end := false
		if err := d.raw.Read(func(fd uintptr) bool {
			n, err := d.move(int(fd), len(d.buf))
			end = n == 0 && err == nil || err != nil && err != unix.EAGAIN && err != unix.EINTR
			return n > 0 || end || err == unix.EINTR
		}); err != nil || end {
			return
		}
	}
}

// move moves at most n bytes from the pipe to the sink.
func (d *drain) move(fd, n int) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.moveLocked(fd, n)
}

func (d *drain) moveLocked(fd, n int) (int, error) {
	n, err := unix.Read(fd, d.buf[:min(n, len(d.buf))])
	if n > 0 && d.sink != nil {
		_, _ = d.sink.Write(d.buf[:n])
	} else if n > 0 {
		d.dropped += int64(n)
	}
	return max(n, 0), err
}

// swap gives all bytes that are in the pipe now to the present sink, and later ones to the next.
// It takes no more than the pipe holds now: a thread that prints for ever can't keep us.
func (d *drain) swap(next io.Writer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.raw != nil {
		_ = d.raw.Control(func(fd uintptr) {
			left, err := unix.IoctlGetInt(int(fd), unix.TIOCINQ)
			for err == nil && left > 0 {
				var n int
				if n, err = d.moveLocked(int(fd), left); n == 0 {
					return
				}
				left -= n
			}
		})
	}
	d.sink = next
}

// rest is the text that came before the first cell: the interpreter's own complaints.
func (d *drain) rest() string {
	d.mu.Lock()
	first, _ := d.sink.(*output)
	d.mu.Unlock()
	d.swap(nil)
	if first == nil {
		return ""
	}
	return first.text()
}

// close ends the reading, whatever still holds the other end.
func (d *drain) close() {
	_ = d.r.Close()
	<-d.done
}
