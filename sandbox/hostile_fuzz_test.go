package sandbox

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"testing"

	"github.com/verigraph/verigraph/evidence"
	"golang.org/x/sys/unix"
)

// ordered is a Host that fails the test when calls come in an order that no cell can cause.
type ordered struct {
	t    *testing.T
	next int
	over bool
}

func (o *ordered) at(statement int) {
	if o.over || statement != o.next {
		o.t.Fatalf("call of statement %d during %d, after the end: %v", statement, o.next, o.over)
	}
}

func (o *ordered) Completed(r evidence.Report) {
	o.at(r.Index)
	o.next++
}

func (o *ordered) Taint(statement int, _ string) {
	if o.over || statement < 0 || statement > o.next {
		o.t.Fatalf("taint of statement %d during %d", statement, o.next)
	}
}

func (o *ordered) Bind(r evidence.BindRequest) (string, string, *evidence.Refusal) {
	o.at(r.Statement)
	return "c1", r.Template, nil
}

func (o *ordered) Infer(r evidence.InferRequest) (string, string, *evidence.Refusal) {
	o.at(r.Statement)
	return "", "", &evidence.Refusal{Message: "no"}
}

func (o *ordered) Submit(r evidence.SubmitRequest) *evidence.Refusal {
	o.at(r.Statement)
	return nil
}

// FuzzConversation: whatever bytes a session answers a cell with, the supervisor comes to an end, the
// host sees only what a cell could have done, and an accepted end fits what was seen before it.
func FuzzConversation(f *testing.F) {
	frames := func(bodies ...string) []byte {
		var out []byte
		for _, b := range bodies {
			out = append(binary.BigEndian.AppendUint32(out, uint32(len(b))), b...)
		}
		return out
	}
	const (
		completed = `{"nonce":"n","completed":{"index":0,"bound":["a"],"unbound":[],"opened":["a.csv"]}}`
		bind      = `{"nonce":"n","bind":{"statement":0,"line":1,"template":"{x}","fields":[{"name":"x","text":"1"}],"values":[{"name":"x","kind":"number","type":"int","repr":"1"}]}}`
		infer     = `{"nonce":"n","infer":{"statement":1,"premises":["c1"],"conclusion":"a","reasoning":"b"}}`
		submit    = `{"nonce":"n","submit":{"statement":1,"claims":["c1"]}}`
		tainted   = `{"nonce":"n","taint":{"statement":0,"construct":"gc"}}`
		done0     = `{"nonce":"n","done":{"status":"ok","statements":0,"completed":0,"traceback":"","exception":"","environment":[]}}`
		done1     = `{"nonce":"n","done":{"status":"ok","statements":1,"completed":1,"traceback":"","exception":"","environment":[{"name":"a","type":"int","value":"1"}],"late":3}}`
		raised    = `{"nonce":"n","done":{"status":"exception","statements":2,"completed":1,"traceback":"T","exception":"KeyError","environment":[]}}`
	)
	for _, seed := range [][]byte{
		frames(done0), frames(bind, completed, done1), frames(completed, infer, submit, raised), frames(tainted, bind, completed, raised),
		frames(completed, completed, done1), frames(done1), frames(submit), frames(completed)[:9],
		{0, 0, 0, 0},
		{255, 255, 255, 255, '{'},
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		ours, theirs := os.NewFile(uintptr(pair[0]), "ours"), os.NewFile(uintptr(pair[1]), "theirs")
		defer ours.Close()
		said := make(chan struct{})
		go func() {
			defer close(said)
			_, _ = theirs.Write(stream)
			_ = unix.Shutdown(pair[1], unix.SHUT_WR)
			_, _ = io.Copy(io.Discard, theirs)
			theirs.Close()
		}()
		host := &ordered{t: t}
		r := &cellRun{session: &session{control: ours, limits: Limits{FrameBytes: 64 << 10}}, host: host, nonce: "n"}
		d, err := r.converse(cellRequest{Nonce: "n", Cell: 1, Code: "a = 1"})
		host.over = true
		_ = ours.Close()
		<-said
		switch {
		case err == nil && (d.Completed != host.next || d.check() != nil):
			t.Fatalf("accepted %+v after %d statements", d, host.next)
		case err == nil && !says(stream, "done"):
			t.Fatal("an end that was not said")
		case err != nil && !errors.Is(err, errFrame) && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && !closedByPeer(err):
			t.Fatalf("not the session's fault: %v", err)
		}
	})
}

func closedByPeer(err error) bool {
	return errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET)
}

// says reports whether a frame can hold the key.
func says(stream []byte, key string) bool { return bytes.Contains(stream, []byte(`"`+key+`"`)) }
