// Package freeport gives ports to tests whose servers are other processes, or come again where they were.
package freeport

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"testing"
)

// lowest is above the ports that usual services have.
const lowest = 10_000

var (
	mu    sync.Mutex
	taken = map[int]bool{}
)

// Take returns a free port of loopback, each only once in this process. It lies below those that the kernel gives
// to outgoing connections: one of those could have it while its server is away.
func Take(t testing.TB) int {
	t.Helper()
	mu.Lock()
	defer mu.Unlock()
	for range 1000 {
		port := lowest + rand.IntN(outgoing()-lowest)
		if taken[port] {
			continue
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		_ = l.Close()
		taken[port] = true
		return port
	}
	t.Fatalf("no port from %d is free", lowest)
	return 0
}

// outgoing is the first port that the kernel gives away by itself.
func outgoing() int {
	first := 0
	if text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"); err == nil {
		_, _ = fmt.Sscan(string(text), &first)
	}
	if first < lowest+1000 { // not known, or hardly any room: Linux's own
		first = 32_768
	}
	return first
}
