package chaos

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// link is a TCP proxy between two parts. All that the parts of the bed say to each other goes through one.
type link struct {
	listen net.Listener
	to     string
	// from names who speaks through it, by the address that the other side sees.
	from func(addr string)

	mu      sync.Mutex
	state   linkState
	changed chan struct{} // closed and replaced with the state
	conns   map[net.Conn]bool
	closed  bool
	running sync.WaitGroup
}

// linkState is how a link works now. The zero value passes everything on.
type linkState struct {
	refuse bool          // connections are reset and not taken
	silent bool          // nothing passes, and nobody is told
	delay  time.Duration // of every piece
	rate   int           // bytes a second; 0 is no bound
}

func newLink(t testing.TB, to string, from func(string)) *link {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	k := &link{listen: l, to: to, from: from, changed: make(chan struct{}), conns: map[net.Conn]bool{}}
	k.running.Go(k.accept)
	t.Cleanup(k.close)
	return k
}

func (k *link) addr() string { return k.listen.Addr().String() }

func (k *link) set(s linkState) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.state = s
	close(k.changed)
	k.changed = make(chan struct{})
	if s.refuse {
		k.drop()
	}
}

// drop resets all connections. The caller holds mu.
func (k *link) drop() {
	for c := range k.conns {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = c.Close()
	}
	clear(k.conns)
}

func (k *link) close() {
	k.mu.Lock()
	k.closed = true
	k.drop()
	close(k.changed)
	k.changed = make(chan struct{})
	k.mu.Unlock()
	_ = k.listen.Close()
	k.running.Wait()
}

// add keeps a connection, or closes one that may not be.
func (k *link) add(c net.Conn) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed || k.state.refuse {
		_ = c.Close()
		return false
	}
	k.conns[c] = true
	return true
}

func (k *link) accept() {
	for {
		c, err := k.listen.Accept()
		if err != nil {
			return
		}
		if k.add(c) {
			k.running.Go(func() { k.join(c) })
		}
	}
}

func (k *link) join(a net.Conn) {
	defer k.end(a)
	if !k.passable(nil) {
		return
	}
	b, err := net.Dial("tcp", k.to)
	if err != nil || !k.add(b) {
		return
	}
	defer k.end(b)
	if k.from != nil {
		k.from(b.LocalAddr().String())
	}
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{a, b}, {b, a}} {
		both.Go(func() {
			k.pump(way[0], way[1])
			_ = way[1].(*net.TCPConn).CloseWrite()
		})
	}
	both.Wait()
}

func (k *link) end(c net.Conn) {
	k.mu.Lock()
	delete(k.conns, c)
	k.mu.Unlock()
	_ = c.Close()
}

func (k *link) pump(from, to net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if !k.passable(buf[:n]) {
				return
			}
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// passable waits until the link passes a piece on, as long as that takes it now.
func (k *link) passable(piece []byte) bool {
	for {
		k.mu.Lock()
		s, changed, closed := k.state, k.changed, k.closed
		k.mu.Unlock()
		if closed || s.refuse {
			return false
		}
		if s.silent {
			<-changed
			continue
		}
		wait := s.delay
		if s.rate > 0 {
			wait += time.Duration(len(piece)) * time.Second / time.Duration(s.rate)
		}
		if wait == 0 {
			return true
		}
		select {
		case <-time.After(wait):
			return true
		case <-changed: // faster, slower or not at all from here on
		}
	}
}

func TestLinkPassesEverythingOnUnlessItIsToldNotTo(t *testing.T) {
	t.Parallel()
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var served sync.WaitGroup
	served.Go(func() {
		for {
			c, err := echo.Accept()
			if err != nil {
				return
			}
			served.Go(func() {
				_, _ = io.Copy(c, c)
				_ = c.Close()
			})
		}
	})
	t.Cleanup(func() { _ = echo.Close(); served.Wait() })
	k := newLink(t, echo.Addr().String(), nil)
	dial := func() net.Conn {
		c, err := net.Dial("tcp", k.addr())
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		require.NoError(t, c.SetDeadline(time.Now().Add(time.Minute)))
		return c
	}
	says := func(c net.Conn) error {
		got := make([]byte, 4)
		_, err := io.ReadFull(c, got)
		if err == nil {
			require.Equal(t, "ping", string(got))
		}
		return err
	}
	first := dial()
	_, err = first.Write([]byte("ping"))
	require.NoError(t, err)
	require.NoError(t, says(first))

	k.set(linkState{silent: true})
	_, err = first.Write([]byte("ping"))
	require.NoError(t, err, "nobody is told")
	k.set(linkState{delay: time.Millisecond, rate: 1 << 20})
	require.NoError(t, says(first), "what was on its way arrives")

	k.set(linkState{refuse: true})
	require.Error(t, says(first), "the connection is gone")
	second := dial()
	require.Error(t, says(second), "and no other is taken")
	k.set(linkState{})
	third := dial()
	_, err = third.Write([]byte("ping"))
	require.NoError(t, err)
	require.NoError(t, says(third))
}
