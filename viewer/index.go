package viewer

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"

	"github.com/verigraph/verigraph/dataset/archive"
)

const (
	indexPath = "trajectories/index.jsonl"
	// maxLine bounds one line of the index, maxProblems what is kept of what is wrong with a run.
	maxLine     = 8 << 20
	maxProblems = 50
)

// Problem is something in the output directory that could not be read.
type Problem struct {
	File  string `json:"file"`
	Line  int    `json:"line,omitempty"`
	Error string `json:"error"`
}

// index follows a run's index file. It is read once and then only as far as it grew.
type index struct {
	root *os.Root

	mu         sync.Mutex
	seen       fs.FileInfo
	generation int
	lines      int
	snapshot   snapshot
	strings    map[string]string
	flags      map[string][]string
}

// snapshot is what was read up to a point. Rows are only ever appended, so a snapshot stays valid.
type snapshot struct {
	rows     []row
	problems []Problem
	bad      int   // lines that could not be read
	end      int64 // offset after the last whole line
	rev      string
}

func newIndex(root *os.Root) *index {
	x := &index{root: root}
	x.reset()
	return x
}

func (x *index) reset() {
	x.generation++
	x.lines, x.snapshot = 0, snapshot{}
	x.strings, x.flags = map[string]string{}, map[string][]string{}
}

// refresh reads what was appended since the last call. A file that was replaced or cut is read anew; a last
// line without its end is left for later. No index yet is an empty run.
func (x *index) refresh() (snapshot, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	f, err := x.root.Open(indexPath)
	if errors.Is(err, fs.ErrNotExist) {
		if x.seen != nil {
			x.seen = nil
			x.reset()
		}
		return x.current(), nil
	}
	if err != nil {
		return snapshot{}, fmt.Errorf("viewer: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return snapshot{}, fmt.Errorf("viewer: %w", err)
	}
	if x.seen != nil && (!os.SameFile(x.seen, info) || info.Size() < x.snapshot.end) {
		x.reset()
	}
	x.seen = info
	if info.Size() == x.snapshot.end {
		return x.current(), nil
	}
	if _, err := f.Seek(x.snapshot.end, io.SeekStart); err != nil {
		return snapshot{}, fmt.Errorf("viewer: %w", err)
	}
	if err := x.read(bufio.NewReaderSize(f, 1<<16)); err != nil {
		return snapshot{}, fmt.Errorf("viewer: %s: %w", indexPath, err)
	}
	return x.current(), nil
}

func (x *index) current() snapshot {
	s := x.snapshot
	s.rev = fmt.Sprintf("%d.%d", x.generation, s.end)
	return s
}

func (x *index) read(r *bufio.Reader) error {
	for {
		line, size, err := readLine(r)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		x.lines++
		x.take(line, size)
		x.snapshot.end += size
	}
}

func (x *index) take(line []byte, size int64) {
	var e archive.Entry
	err := json.Unmarshal(line, &e)
	switch {
	case line == nil:
		err = fmt.Errorf("the line is longer than %d bytes", maxLine)
	case err == nil && (e.RolloutID == "" || e.File == ""):
		err = errors.New("the line has no rollout_id or no file")
	}
	if err != nil {
		x.snapshot.bad++
		if len(x.snapshot.problems) < maxProblems {
			x.snapshot.problems = append(x.snapshot.problems, Problem{indexPath, x.lines, err.Error()})
		}
		return
	}
	x.snapshot.rows = append(x.snapshot.rows, x.row(&e, x.snapshot.end, int32(size)))
}

// readLine returns a whole line and how many bytes it takes; nil for one that is too long, io.EOF where no
// whole line is left.
func readLine(r *bufio.Reader) (line []byte, size int64, err error) {
	line = []byte{}
	for {
		part, err := r.ReadSlice('\n')
		size += int64(len(part))
		if line != nil && len(line)+len(part) <= maxLine {
			line = append(line, part...)
		} else {
			line = nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, size, err
		}
	}
}

// entry reads a row's line again.
func (x *index) entry(r *row) (archive.Entry, error) {
	var e archive.Entry
	f, err := x.root.Open(indexPath)
	if err != nil {
		return e, fmt.Errorf("viewer: %w", err)
	}
	defer f.Close()
	line := make([]byte, r.length)
	if _, err := f.ReadAt(line, r.offset); err != nil {
		return e, fmt.Errorf("viewer: %s: %w", indexPath, err)
	}
	if err := json.Unmarshal(line, &e); err != nil || e.RolloutID != r.id {
		return e, fmt.Errorf("viewer: %s changed while it was read", indexPath)
	}
	return e, nil
}
