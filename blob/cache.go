package blob

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Cache keeps data files by content hash in a directory that the processes of a host may share.
//
// Invariants: a file is whole and has the digest of its name, or is not there; what somebody uses is never
// removed (its users hold a shared lock, which ends with them, also when they are killed); what was not
// used for longest is removed first. A name gets a file and loses it under one lock of the directory: else
// a file could be removed that came there while an older one of its name was looked at.
type Cache struct {
	Store *Store
	Dir   string
	// Max bounds the bytes of all files, as far as they are not in use; 0 bounds nothing.
	Max int64
}

// abandoned is when a download that nobody finished is removed.
const abandoned = time.Hour

// Fetch gives the path of a data file, which stays until release is called.
func (c *Cache) Fetch(ctx context.Context, digest string) (path string, release func(), err error) {
	path = filepath.Join(c.Dir, digest)
	for {
		pin, err := pinned(path)
		if err == nil {
			now := time.Now()
			_ = os.Chtimes(path, now, now) // the order of use; without it the file only goes earlier
			return path, func() { _ = pin.Close() }, nil
		}
		if !errors.Is(err, os.ErrNotExist) {
			return "", nil, fmt.Errorf("blob: cache: %w", err)
		}
		tmp, err := c.Store.download(ctx, digest, c.Dir)
		if err != nil {
			return "", nil, err
		}
		err = c.locked(func() error {
			if _, err := os.Stat(path); err == nil { // another one was faster
				return os.Remove(tmp)
			}
			return errors.Join(os.Rename(tmp, path), c.evict(digest))
		})
		if err != nil {
			return "", nil, fmt.Errorf("blob: cache: %w", err)
		}
	}
}

// locked runs do while no other process changes the directory.
func (c *Cache) locked(do func() error) error {
	f, err := os.OpenFile(filepath.Join(c.Dir, lockName), os.O_RDONLY|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	return do()
}

// pinned opens a file under a shared lock. A file that was removed in between is not there.
func pinned(path string) (*os.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_SH); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	held, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if there, err := os.Stat(path); err != nil || !os.SameFile(held, there) {
		return nil, errors.Join(os.ErrNotExist, f.Close())
	}
	return f, nil
}

// evict removes files until the others fit; newest is about to be used.
func (c *Cache) evict(newest string) error {
	if c.Max == 0 {
		return nil
	}
	entries, err := os.ReadDir(c.Dir)
	if err != nil {
		return err
	}
	var files []os.FileInfo
	var total int64
	for _, e := range entries {
		info, err := e.Info()
		if errors.Is(err, os.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
			continue
		}
		if err != nil {
			return err
		}
		if strings.HasPrefix(info.Name(), fetchPrefix) {
			if time.Since(info.ModTime()) > abandoned {
				_ = os.Remove(filepath.Join(c.Dir, info.Name()))
			}
			continue
		}
		if info.Name() == lockName {
			continue
		}
		total += info.Size()
		if info.Name() != newest {
			files = append(files, info)
		}
	}
	slices.SortFunc(files, func(a, b os.FileInfo) int {
		return cmp.Or(a.ModTime().Compare(b.ModTime()), strings.Compare(a.Name(), b.Name()))
	})
	for _, f := range files {
		if total <= c.Max {
			return nil
		}
		gone, err := remove(filepath.Join(c.Dir, f.Name()))
		if err != nil {
			return err
		}
		if gone {
			total -= f.Size()
		}
	}
	return nil
}

// remove deletes a file that nobody uses.
func remove(path string) (gone bool, err error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		return false, nil // in use
	}
	return true, os.Remove(path)
}

const (
	fetchPrefix = ".fetch-"
	lockName    = ".lock"
)

// download copies data/SHA256 into a file of dir, whose name it gives, and checks the digest.
func (s *Store) download(ctx context.Context, digest, dir string) (path string, err error) {
	name := DataName(digest)
	r, err := s.ReadRange(ctx, name, 0, -1)
	if err != nil {
		return "", err
	}
	defer r.Close()
	tmp, err := os.CreateTemp(dir, fetchPrefix+"*")
	if err != nil {
		return "", fmt.Errorf("blob: %w", err)
	}
	sum := sha256.New()
	_, err = io.Copy(io.MultiWriter(tmp, sum), r)
	err = errors.Join(err, tmp.Chmod(0o444), tmp.Close())
	if got := hex.EncodeToString(sum.Sum(nil)); err == nil && got != digest {
		err = fmt.Errorf("content has digest %s", got)
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
		return "", fmt.Errorf("blob: fetch %s: %w", name, err)
	}
	return tmp.Name(), nil
}
