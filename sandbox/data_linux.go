package sandbox

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Data files are read-only in every tier but none, where a session can rewrite what the graph knows by its
// content hash, and what other rollouts read. There each file is looked at after each cell.
//
// Invariant: a claim that is made after a data file changed is not grounded.

// dataFile is a data file as it was when the session started.
type dataFile struct {
	bindFile
	stat unix.Stat_t
	sum  [sha256.Size]byte
}

func watched(files []bindFile) ([]dataFile, error) {
	var out []dataFile
	for _, f := range files {
		d := dataFile{bindFile: f}
		err := unix.Stat(f.Path, &d.stat)
		if err == nil {
			d.sum, err = sum(f.Path)
		}
		if err != nil {
			return nil, fmt.Errorf("data file %s: %w", f.Name, err)
		}
		out = append(out, d)
	}
	return out, nil
}

// changed are the names of files that have other contents now. The hash is only taken where the file's
// status changed; its change time is the kernel's, which a session can't set.
func changed(files []dataFile) []string {
	var out []string
	for i := range files {
		f := &files[i]
		var now unix.Stat_t
		err := unix.Stat(f.Path, &now)
		if err == nil && now.Ino == f.stat.Ino && now.Dev == f.stat.Dev && now.Size == f.stat.Size && now.Ctim == f.stat.Ctim {
			continue
		}
		is, read := sum(f.Path)
		if errors.Join(err, read) != nil || is != f.sum {
			out = append(out, f.Name)
			continue
		}
		f.stat = now
	}
	return out
}

func sum(path string) (out [sha256.Size]byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return out, err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return out, err
	}
	return [sha256.Size]byte(h.Sum(nil)), nil
}
