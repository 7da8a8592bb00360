// Package linefile keeps a file of JSON lines, one for each key, that several processes append to.
//
// Invariant: whoever appends holds the file's lock and has read every line before, so that a key which another
// process wrote is not written again, and no line is glued to one that was torn.
package linefile

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"syscall"
)

// File is safe for concurrent use.
type File struct {
	key func(line []byte) (string, error)

	mu    sync.Mutex
	file  *os.File
	seen  map[string]bool
	read  int64 // bytes of whole lines that are in seen
	lines int
}

// Open opens or makes a file. Key reads the key of a line; its error refuses the file and names the line.
func Open(path string, mode fs.FileMode, key func(line []byte) (string, error)) (*File, error) {
	f := &File{key: key, seen: map[string]bool{}}
	var err error
	if f.file, err = os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_RDWR, mode); err != nil {
		return nil, err
	}
	if err := f.lock(); err != nil {
		return nil, errors.Join(err, f.file.Close())
	}
	f.unlock()
	return f, nil
}

// Once appends what line returns unless a line with the key is there.
func (f *File) Once(key string, line func() ([]byte, error)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.seen[key] {
		return nil
	}
	if err := f.lock(); err != nil {
		return err
	}
	defer f.unlock()
	if f.seen[key] { // written by another process
		return nil
	}
	data, err := line()
	if err != nil {
		return err
	}
	data = append(data, '\n')
	if _, err := f.file.Write(data); err != nil {
		return errors.Join(err, f.file.Truncate(f.read))
	}
	f.seen[key] = true
	f.read += int64(len(data))
	f.lines++
	return nil
}

// Close closes the file.
func (f *File) Close() error { return f.file.Close() }

// lock waits for the other processes, then catches up with them. The kernel releases the lock of one that is killed.
func (f *File) lock() error {
	for {
		err := syscall.Flock(int(f.file.Fd()), syscall.LOCK_EX)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("lock %s: %w", f.file.Name(), err)
		}
		break
	}
	err := f.catchUp()
	if err != nil {
		f.unlock()
	}
	return err
}

func (f *File) unlock() { _ = syscall.Flock(int(f.file.Fd()), syscall.LOCK_UN) }

// catchUp reads the lines after those that are known. A last line without an end is cut off: its writer was
// killed in it, or the disk was full.
func (f *File) catchUp() error {
	info, err := f.file.Stat()
	if err != nil || info.Size() <= f.read {
		return err
	}
	tail := make([]byte, info.Size()-f.read)
	if _, err := f.file.ReadAt(tail, f.read); err != nil {
		return err
	}
	whole := bytes.LastIndexByte(tail, '\n') + 1
	for line := range bytes.Lines(tail[:whole]) {
		f.lines++
		key, err := f.key(line)
		if err != nil {
			return fmt.Errorf("%s:%d: %w", f.file.Name(), f.lines, err)
		}
		f.seen[key] = true
	}
	f.read += int64(whole)
	if whole < len(tail) {
		return f.file.Truncate(f.read)
	}
	return nil
}
