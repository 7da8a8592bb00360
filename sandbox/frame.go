package sandbox

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/trajectory"
)

// A frame is a big-endian u32 length and one JSON object. A frame from a session holds the nonce of
// the request that it belongs to and exactly one body. Whatever does not parse kills the session:
// there is no honest reason for a bad frame, so nothing is repaired.

// Bounds on what one frame may hold, whatever its size in bytes.
const (
	maxNames       = 5000
	maxNameBytes   = 1024
	maxFields      = 512
	maxStatements  = 100_000
	maxEnvironment = 1000
	// Per cell.
	maxTaints   = 1000
	maxRequests = 20_000
)

// frame is a message from a session.
type frame struct {
	Nonce     string                  `json:"nonce"`
	Ready     *ready                  `json:"ready,omitempty"`
	Failed    *failed                 `json:"failed,omitempty"`
	Completed *evidence.Report        `json:"completed,omitempty"`
	Bind      *evidence.BindRequest   `json:"bind,omitempty"`
	Infer     *evidence.InferRequest  `json:"infer,omitempty"`
	Submit    *evidence.SubmitRequest `json:"submit,omitempty"`
	Taint     *taint                  `json:"taint,omitempty"`
	Done      *done                   `json:"done,omitempty"`
}

// ready says that the session waits for its first cell.
type ready struct {
	Version string `json:"version"`
}

// failed says why a session could not be set up; only our own code before the first cell sends it.
type failed struct {
	Error string `json:"error"`
}

type taint struct {
	Statement int    `json:"statement"`
	Construct string `json:"construct"`
}

// done ends a cell.
type done struct {
	Status      trajectory.CellStatus `json:"status"`
	Statements  int                   `json:"statements"`
	Completed   int                   `json:"completed"`
	Traceback   string                `json:"traceback"`
	Exception   string                `json:"exception"`
	Environment []Variable            `json:"environment"`
	Late        int64                 `json:"late,omitempty"`
}

// startRequest is the first message to the runner.
type startRequest struct {
	Nonce      string   `json:"nonce"`
	Seed       int64    `json:"seed"`
	SysPath    []string `json:"sys_path"`
	DataDirs   []string `json:"data_dirs"`
	Files      []string `json:"files"`
	FrameBytes int64    `json:"frame_bytes"`
	HeadBytes  int64    `json:"head_bytes"`
	// Limits are for messages only; the kernel holds them.
	Limits map[string]int64 `json:"limits"`
	// Clock is the fixed time in seconds since 1970, or absent.
	Clock *float64 `json:"clock,omitempty"`
	// Home and Tmp are a forked session's directories where it has no mounts of its own.
	Home string `json:"home,omitempty"`
	Tmp  string `json:"tmp,omitempty"`
	// Off names parts of the runner that tests leave out.
	Off []string `json:"off,omitempty"`
}

func newStartRequest(nonce string, l Limits, spec Spec) startRequest {
	r := startRequest{
		Nonce: nonce, Seed: spec.Seed, FrameBytes: l.FrameBytes, HeadBytes: l.OutputBytes,
		Limits: map[string]int64{
			"memory": l.MemoryBytes, "scratch": l.ScratchBytes, "file": l.FileBytes,
			"threads": int64(l.Processes), "descriptors": int64(l.OpenFiles),
		},
	}
	if !spec.Clock.IsZero() {
		at := float64(spec.Clock.UnixMicro()) / 1e6
		r.Clock = &at
	}
	return r
}

// cellRequest starts a cell.
type cellRequest struct {
	Nonce string `json:"nonce"`
	Cell  int    `json:"cell"`
	Code  string `json:"code"`
}

// reply answers a primitive.
type reply struct {
	Nonce   string `json:"nonce"`
	ID      string `json:"id"`
	Text    string `json:"text"`
	Refusal string `json:"refusal,omitempty"`
	Refused bool   `json:"refused"`
}

// errTooLarge: a message of ours is above the limit.
var errTooLarge = errors.New("message too large")

// errFrame marks a broken protocol: the session is not to be believed any more.
var errFrame = errors.New("bad frame")

func badFrame(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errFrame, fmt.Sprintf(format, args...))
}

// readFrame reads one frame of at most limit bytes.
func readFrame(r io.Reader, limit int64) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := int64(binary.BigEndian.Uint32(head[:]))
	if n == 0 || n > limit {
		return nil, badFrame("length %d, limit %d", n, limit)
	}
	body := make([]byte, n)
	_, err := io.ReadFull(r, body)
	return body, err
}

// writeFrame writes v as one frame.
func writeFrame(w io.Writer, v any, limit int64) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return writeRaw(w, body, limit)
}

func writeRaw(w io.Writer, body []byte, limit int64) error {
	if int64(len(body)) > limit {
		return fmt.Errorf("%w: %d bytes, limit %d", errTooLarge, len(body), limit)
	}
	out := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(body)), uint32(len(body)))
	_, err := w.Write(append(out, body...))
	return err
}

// parseFrame decodes a frame that must carry nonce.
func parseFrame(body []byte, nonce string) (frame, error) {
	var f frame
	if !utf8.Valid(body) {
		return f, badFrame("not UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&f); err != nil {
		return frame{}, badFrame("%v", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return frame{}, badFrame("data after the object")
	}
	if err := plainKeys(body); err != nil {
		return frame{}, err
	}
	if f.Nonce != nonce {
		return frame{}, badFrame("wrong nonce")
	}
	if err := f.check(); err != nil {
		return frame{}, err
	}
	return f, nil
}

// check applies the bounds that types can't express.
func (f *frame) check() error {
	bodies := 0
	for _, there := range []bool{
		f.Ready != nil, f.Failed != nil, f.Completed != nil, f.Bind != nil,
		f.Infer != nil, f.Submit != nil, f.Taint != nil, f.Done != nil,
	} {
		if there {
			bodies++
		}
	}
	if bodies != 1 {
		return badFrame("%d bodies, want 1", bodies)
	}
	switch {
	case f.Completed != nil:
		c := f.Completed
		return errors.Join(statement(c.Index), names("bound", c.Bound), names("unbound", c.Unbound), names("opened", c.Opened))
	case f.Bind != nil:
		return f.checkBind()
	case f.Infer != nil:
		return errors.Join(statement(f.Infer.Statement), names("premises", f.Infer.Premises))
	case f.Submit != nil:
		return errors.Join(statement(f.Submit.Statement), names("claims", f.Submit.Claims))
	case f.Taint != nil:
		return errors.Join(statement(f.Taint.Statement), names("construct", []string{f.Taint.Construct}))
	case f.Done != nil:
		return f.Done.check()
	}
	return nil
}

func (f *frame) checkBind() error {
	b := f.Bind
	if len(b.Fields) > maxFields || len(b.Values) > maxFields || b.Line < 0 {
		return badFrame("bind of %d fields and %d values at line %d", len(b.Fields), len(b.Values), b.Line)
	}
	errs := []error{statement(b.Statement)}
	for _, v := range b.Values {
		errs = append(errs, names("value", []string{v.Name, v.Type}))
		if !knownKind(v.Kind) {
			errs = append(errs, badFrame("value kind %q", v.Kind))
		}
		if utf8.RuneCountInString(v.Repr) > 200 {
			errs = append(errs, badFrame("repr of %d bytes", len(v.Repr)))
		}
	}
	for _, v := range b.Fields {
		errs = append(errs, names("field", []string{v.Name}))
	}
	return errors.Join(errs...)
}

func knownKind(k string) bool {
	switch k {
	case evidence.KindNumber, evidence.KindBoolean, evidence.KindString, evidence.KindNone, evidence.KindDate,
		evidence.KindList, evidence.KindTable, evidence.KindClaim, evidence.KindOther:
		return true
	}
	return false
}

func (d *done) check() error {
	switch d.Status {
	case trajectory.CellOK, trajectory.CellSyntaxError, trajectory.CellException, trajectory.CellRefused, trajectory.CellExit:
	default:
		return badFrame("status %q", d.Status)
	}
	if d.Statements < 0 || d.Statements > maxStatements || d.Completed < 0 || d.Completed > d.Statements {
		return badFrame("%d of %d statements", d.Completed, d.Statements)
	}
	if (d.Status == trajectory.CellOK) != (d.Completed == d.Statements && d.Exception == "") {
		return badFrame("status %s after %d of %d statements", d.Status, d.Completed, d.Statements)
	}
	if d.Late < 0 {
		return badFrame("%d late bytes", d.Late)
	}
	if len(d.Environment) > maxEnvironment {
		return badFrame("%d variables", len(d.Environment))
	}
	errs := []error{names("exception", []string{d.Exception})}
	for _, v := range d.Environment {
		errs = append(errs, names("variable", []string{v.Name, v.Type, v.Shape}))
		if utf8.RuneCountInString(v.Value) > 80 {
			errs = append(errs, badFrame("variable value of %d bytes", len(v.Value)))
		}
	}
	return errors.Join(errs...)
}

func statement(i int) error {
	if i < 0 || i >= maxStatements {
		return badFrame("statement %d", i)
	}
	return nil
}

func names(what string, list []string) error {
	if len(list) > maxNames {
		return badFrame("%d %s", len(list), what)
	}
	for _, s := range list {
		if len(s) > maxNameBytes {
			return badFrame("%s of %d bytes", what, len(s))
		}
	}
	return nil
}
