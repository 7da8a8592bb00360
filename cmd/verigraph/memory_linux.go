package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// memoryWatch samples the memory of this process and all its descendants by proportional set size:
// sessions are forked and share most of their pages. Where that can't be read, it is the resident
// size, which counts shared pages once per process.
type memoryWatch struct {
	peak   atomic.Int64
	cancel context.CancelFunc
	done   sync.WaitGroup
}

func watchMemory(ctx context.Context) *memoryWatch {
	ctx, cancel := context.WithCancel(ctx)
	m := &memoryWatch{cancel: cancel}
	m.done.Go(func() {
		tick := time.NewTicker(time.Second) // a sample costs about half a millisecond per process
		defer tick.Stop()
		for {
			m.peak.Store(max(m.peak.Load(), treeMemory(os.Getpid())))
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	})
	return m
}

func (m *memoryWatch) stop() {
	m.cancel()
	m.done.Wait()
}

func (m *memoryWatch) peakMiB() float64 { return float64(m.peak.Load()) / (1 << 20) }

// treeMemory sums the bytes of a process and its descendants.
func treeMemory(root int) int64 {
	children := map[int][]int{}
	resident := map[int]int64{}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0
	}
	for _, path := range stats {
		data, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		// pid (comm) state ppid ...; comm may hold blanks and parentheses.
		i := bytes.LastIndexByte(data, ')')
		f := bytes.Fields(data[i+1:])
		if i < 0 || len(f) < 22 {
			continue
		}
		pid, _ := strconv.Atoi(string(data[:bytes.IndexByte(data, ' ')]))
		parent, _ := strconv.Atoi(string(f[1]))
		pages, _ := strconv.ParseInt(string(f[21]), 10, 64)
		children[parent] = append(children[parent], pid)
		resident[pid] = pages * int64(os.Getpagesize())
	}
	var sum func(int) int64
	sum = func(pid int) int64 {
		n := proportional(pid)
		if n == 0 {
			n = resident[pid]
		}
		for _, c := range children[pid] {
			n += sum(c)
		}
		return n
	}
	return sum(root)
}

// proportional is a process's proportional set size in bytes, 0 where it can't be read.
func proportional(pid int) int64 {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/smaps_rollup")
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(data) {
		if rest, ok := bytes.CutPrefix(line, []byte("Pss:")); ok {
			if f := bytes.Fields(rest); len(f) > 0 {
				kib, _ := strconv.ParseInt(string(f[0]), 10, 64)
				return kib << 10
			}
		}
	}
	return 0
}
