package analysis

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os/exec"
	"path"
	"slices"
)

//go:embed python/*.py
var sources embed.FS

// bootstrap reads the pass's modules from the first frame, so that the process needs no file of
// ours: it may run with another root directory, or with none. Where the environment holds a compiled
// pass of just these sources, that is loaded instead.
//
//go:embed bootstrap.py
var bootstrap string

// modules are the pass's modules in an order in which each finds those it imports.
var modules = []string{
	"kinds", "values", "scope", "tables", "taint", "quick", "machine", "files", "interp", "expr", "library", "methods", "classes", "calls", "state", "analyzer",
}

const (
	// maxAnswer bounds an answer; a 256 KiB cell gives a few MiB.
	maxAnswer = 64 << 20
	// maxRequests is after how many answers a process is replaced, so that nothing can pile up.
	maxRequests = 20000
)

// process is one running interpreter. It has one owner at a time.
type process struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	served  int
	stopped bool
	// interpreted says why the pass runs from its sources; empty where it is compiled.
	interpreted string
}

func startProcess(config Config) (*process, error) {
	cmd := config.Command(config.Python, "-I", "-S", "-E", "-B", "-c", bootstrap)
	if cmd.Env == nil {
		cmd.Env = []string{"LC_ALL=C.UTF-8"}
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, in: in, out: bufio.NewReaderSize(out, 64<<10)}
	start, err := startFrame(config)
	if err == nil {
		err = p.write(start)
	}
	if err != nil {
		p.stop()
		return nil, fmt.Errorf("%s: send the pass: %w", config.Python, err)
	}
	return p, nil
}

func startFrame(config Config) ([]byte, error) {
	var files [][2]string
	texts := map[string]string{}
	for _, name := range modules {
		text, err := fs.ReadFile(sources, path.Join("python", name+".py"))
		if err != nil {
			return nil, err
		}
		files, texts[name] = append(files, [2]string{name, string(text)}), string(text)
	}
	digest := sha256.New() // as compile.py makes it
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		fmt.Fprintf(digest, "%s\x00%d\x00%s", name, len(texts[name]), texts[name])
	}
	return encode(map[string]any{
		"modules": files,
		"sources": hex.EncodeToString(digest.Sum(nil)),
		"seconds": int(config.Timeout.Seconds()) + 1,
		"memory":  config.MemoryBytes,
	})
}

func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func (p *process) write(body []byte) error {
	frame := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(body)), uint32(len(body)))
	_, err := p.in.Write(append(frame, body...))
	return err
}

// exchange sends one request and returns the answer. On any error the process is gone; when the
// context ended it is the context's error.
func (p *process) exchange(ctx context.Context, req request) ([]byte, error) {
	body, err := encode(req)
	if err != nil {
		p.stop()
		return nil, fmt.Errorf("%w: request: %w", errBadAnswer, err)
	}
	killed := make(chan struct{})
	release := context.AfterFunc(ctx, func() {
		_ = p.cmd.Process.Kill() // the error says that it ended by itself
		close(killed)
	})
	answer, err := p.roundTrip(body)
	if !release() {
		<-killed
		p.stop()
		return nil, ctx.Err()
	}
	if err != nil {
		p.stop()
		return nil, err
	}
	p.served++
	return answer, nil
}

func (p *process) roundTrip(body []byte) ([]byte, error) {
	if err := p.write(body); err != nil {
		return nil, err
	}
	var header [4]byte
	if _, err := io.ReadFull(p.out, header[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(header[:])
	if n > maxAnswer {
		return nil, fmt.Errorf("an answer of %d bytes", n)
	}
	answer := make([]byte, n)
	_, err := io.ReadFull(p.out, answer)
	return answer, err
}

func (p *process) worn() bool { return p.served >= maxRequests }

// stop kills the process and returns after it is gone. It is idempotent.
func (p *process) stop() {
	if p.stopped {
		return
	}
	p.stopped = true
	_ = p.in.Close()
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait() // it was killed: how it ended says nothing
}
