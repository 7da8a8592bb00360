// Package analysis is the static pass over a cell's source: for each top-level statement it says
// what the statement reads, only tests, binds, changes in place and opens, transitively through
// helper functions that earlier cells defined.
//
// Invariant: the pass over-approximates or says untracked; it never under-reports, and it never
// runs a byte of the source it reads. A source that can't be parsed, or that kills the process that
// parses it, is an outcome (Analysis.Error); a Go error means that we failed.
//
// The Python side runs in processes of its own that hold no credentials and see no environment.
// It keeps no state between calls: what a cell leaves behind is in Statement.Definitions, which the
// caller merges for the statements that completed and passes with the next cell.
package analysis

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"time"
	"unicode/utf8"

	"github.com/verigraph/verigraph/evidence"
)

// Config says how the pass runs. The zero value of a field takes its default.
type Config struct {
	// Python is the interpreter of the sessions, whose grammar decides (default python3).
	Python string
	// Timeout bounds one analysis in wall time (default 5s).
	Timeout time.Duration
	// MaxSourceBytes bounds a cell (default 256 KiB).
	MaxSourceBytes int
	// Processes is the number of analyses that can run at once (default 2).
	Processes int
	// MemoryBytes is the address space that a process may use (default 1 GiB).
	MemoryBytes int64
	// Command builds the process, so that the caller can add isolation. Standard input and output
	// are set afterwards, and the environment unless it is set already (default exec.Command).
	Command func(python string, arguments ...string) *exec.Cmd
}

// Defaults returns c with its zero fields filled in.
func (c Config) Defaults() Config {
	if c.Python == "" {
		c.Python = "python3"
	}
	if c.Timeout == 0 {
		c.Timeout = 5 * time.Second
	}
	if c.MaxSourceBytes == 0 {
		c.MaxSourceBytes = 256 << 10
	}
	if c.Processes == 0 {
		c.Processes = 2
	}
	if c.MemoryBytes == 0 {
		c.MemoryBytes = 1 << 30
	}
	if c.Command == nil {
		c.Command = exec.Command
	}
	return c
}

// Validate reports all that is wrong with c.
func (c Config) Validate() error {
	var problems []error
	if c.Timeout < 0 {
		problems = append(problems, fmt.Errorf("timeout: %s is negative", c.Timeout))
	}
	if c.MaxSourceBytes < 0 {
		problems = append(problems, fmt.Errorf("max source bytes: %d is negative", c.MaxSourceBytes))
	}
	if c.Processes < 0 {
		problems = append(problems, fmt.Errorf("processes: %d is negative", c.Processes))
	}
	if c.MemoryBytes < 0 {
		problems = append(problems, fmt.Errorf("memory bytes: %d is negative", c.MemoryBytes))
	}
	return errors.Join(problems...)
}

// ErrClosed is returned by Analyze after Close.
var ErrClosed = errors.New("analysis: closed")

// Analyzer runs the pass in a small pool of processes. It is safe for concurrent use.
type Analyzer struct {
	config Config
	// slots holds one entry per process; nil means that none runs there yet. Whoever took an entry
	// owns it until it is put back.
	slots  chan *process
	closed chan struct{}

	interpreted string
}

// Interpreted says why the pass runs from its sources and not compiled, which takes about twice as long. It is empty
// where the pass is compiled.
func (a *Analyzer) Interpreted() string { return a.interpreted }

// New starts the first process, so that an interpreter that can't run is found here.
func New(config Config) (*Analyzer, error) {
	if err := config.Validate(); err != nil {
		return nil, fmt.Errorf("analysis: config: %w", err)
	}
	a := &Analyzer{config: config.Defaults(), closed: make(chan struct{})}
	a.slots = make(chan *process, a.config.Processes)
	first, err := a.start(context.Background())
	if err != nil {
		return nil, fmt.Errorf("analysis: start: %w", err)
	}
	a.interpreted = first.interpreted
	a.slots <- first
	for range a.config.Processes - 1 {
		a.slots <- nil
	}
	return a, nil
}

// start returns a process that has answered once: a new one is proven before a cell depends on it.
func (a *Analyzer) start(ctx context.Context) (*process, error) {
	p, err := startProcess(a.config)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	body, err := p.exchange(ctx, request{Source: ""})
	if err != nil {
		return nil, fmt.Errorf("%s: first answer: %w", a.config.Python, err)
	}
	if _, p.interpreted, err = decodeAnalysis(body); err != nil {
		p.stop()
		return nil, fmt.Errorf("%s: first answer: %w: %w", a.config.Python, errBadAnswer, err)
	}
	return p, nil
}

// startTimeout bounds the interpreter's start; measured 0.1 s idle, several times that under load.
const startTimeout = 30 * time.Second

type request struct {
	Source string                     `json:"source"`
	State  map[string]json.RawMessage `json:"state,omitempty"`
}

// Analyze says what each top-level statement of source does. source is the text that the session
// compiles; state is the merged Definitions of the statements that completed before. What is wrong
// with the source is in Analysis.Error; the error is ours or the context's.
func (a *Analyzer) Analyze(ctx context.Context, source string, state map[string]json.RawMessage) (evidence.Analysis, error) {
	if len(source) > a.config.MaxSourceBytes {
		return evidence.Analysis{Error: fmt.Sprintf("SyntaxError: the cell has more than %d bytes", a.config.MaxSourceBytes)}, nil
	}
	if !utf8.ValidString(source) {
		return evidence.Analysis{Error: "SyntaxError: (unicode error) the cell is not valid UTF-8"}, nil
	}
	p, err := a.take(ctx)
	if err != nil {
		return evidence.Analysis{}, err
	}
	defer func() { a.put(p) }()
	req := request{Source: source, State: state}
	// A process may have died for reasons of its own, such as the host's memory; only a source that
	// two fresh processes die of is to blame.
	for attempt := 0; ; attempt++ {
		if p == nil {
			if p, err = a.start(ctx); err != nil {
				return evidence.Analysis{}, errors.Join(ctx.Err(), fmt.Errorf("analysis: start: %w", err))
			}
		}
		answer, err := a.ask(ctx, p, req)
		if err == nil {
			return answer, nil
		}
		p = nil
		switch {
		case ctx.Err() != nil:
			return evidence.Analysis{}, ctx.Err()
		case errors.Is(err, context.DeadlineExceeded):
			return evidence.Analysis{Error: fmt.Sprintf("TimeoutError: the cell takes more than %s to analyse", a.config.Timeout)}, nil
		case errors.Is(err, errBadAnswer):
			return evidence.Analysis{}, fmt.Errorf("analysis: %w", err)
		case attempt > 0:
			return evidence.Analysis{Error: "MemoryError: the cell is too complex to analyse"}, nil
		}
	}
}

func (a *Analyzer) ask(ctx context.Context, p *process, req request) (evidence.Analysis, error) {
	ctx, cancel := context.WithTimeout(ctx, a.config.Timeout)
	defer cancel()
	body, err := p.exchange(ctx, req)
	if err != nil {
		return evidence.Analysis{}, err
	}
	answer, _, err := decodeAnalysis(body)
	if err != nil {
		p.stop()
		return evidence.Analysis{}, fmt.Errorf("%w: %w", errBadAnswer, err)
	}
	return answer, nil
}

// errBadAnswer: the process answered with something that is no analysis.
var errBadAnswer = errors.New("bad answer")

func (a *Analyzer) take(ctx context.Context) (*process, error) {
	select {
	case <-a.closed:
		return nil, ErrClosed
	default:
	}
	select {
	case p := <-a.slots:
		return p, nil
	case <-a.closed:
		return nil, ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (a *Analyzer) put(p *process) {
	if p != nil && p.worn() {
		p.stop()
		p = nil
	}
	a.slots <- p
}

// Close waits for running analyses, ends the processes and returns after they are gone. It may be
// called once.
func (a *Analyzer) Close() error {
	close(a.closed)
	for range a.config.Processes {
		if p := <-a.slots; p != nil {
			p.stop()
		}
	}
	return nil
}
