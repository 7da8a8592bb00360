package analysis

import (
	"context"
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

func TestAProcessThatDiedBetweenCellsIsReplaced(t *testing.T) {
	t.Parallel()
	a, err := New(Config{Processes: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	p := <-a.slots
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	a.slots <- p
	got, err := a.Analyze(context.Background(), "x = 1", nil)
	if err != nil || len(got.Statements) != 1 {
		t.Fatalf("got %+v, %v", got, err)
	}
}

func TestAnAnswerThatIsNoAnalysisIsOurError(t *testing.T) {
	t.Parallel()
	// The process answers the proof of its start properly and all that follows with an array.
	const script = `
import marshal,struct,sys
r,w=sys.stdin.buffer,sys.stdout.buffer
def frame():
    n,=struct.unpack(">I",r.read(4)); return r.read(n)
frame()
for body in (marshal.dumps({},2),marshal.dumps([],2),marshal.dumps([],2)):
    frame(); w.write(struct.pack(">I",len(body))+body); w.flush()
`
	a, err := New(Config{Processes: 1, Command: func(python string, _ ...string) *exec.Cmd {
		return exec.Command(python, "-c", script)
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if got, err := a.Analyze(context.Background(), "x = 1", nil); err == nil {
		t.Errorf("got %+v", got)
	}
}

func TestTheProcessSeesNoEnvironmentAndNoPathOfOurs(t *testing.T) {
	t.Parallel()
	var cmd *exec.Cmd
	a, err := New(Config{Processes: 1, Command: func(python string, arguments ...string) *exec.Cmd {
		cmd = exec.Command(python, arguments...)
		return cmd
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if !slices.Equal(cmd.Env, []string{"LC_ALL=C.UTF-8"}) {
		t.Errorf("environment %v", cmd.Env)
	}
	if cmd.Dir != "" || strings.Contains(strings.Join(cmd.Args, " "), ".py\x20") {
		t.Errorf("arguments %v in %q", cmd.Args, cmd.Dir)
	}
}

func TestEveryModuleOfThePassIsSent(t *testing.T) {
	t.Parallel()
	entries, err := sources.ReadDir("python")
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, e := range entries {
		files = append(files, strings.TrimSuffix(e.Name(), ".py"))
	}
	sorted := slices.Sorted(slices.Values(modules))
	if !slices.Equal(files, sorted) {
		t.Errorf("embedded %v, sent %v", files, sorted)
	}
}

func TestStateIsPassedThroughUnchanged(t *testing.T) {
	t.Parallel()
	a, err := New(Config{Processes: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	first, err := a.Analyze(context.Background(), "def f(v):\n    return v + n\n", nil)
	if err != nil {
		t.Fatal(err)
	}
	state := map[string]json.RawMessage(first.Statements[0].Definitions)
	// A state that went through storage may come back with other blanks and another key order.
	text, err := json.MarshalIndent(state, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	var stored map[string]json.RawMessage
	if err := json.Unmarshal(text, &stored); err != nil {
		t.Fatal(err)
	}
	got, err := a.Analyze(context.Background(), "x = f(1)", stored)
	if err != nil || len(got.Statements) != 1 || !slices.Equal(got.Statements[0].Reads, []string{"f", "n"}) {
		t.Errorf("got %+v, %v", got, err)
	}
}
