package chaos

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/policy/scripted"
	"github.com/verigraph/verigraph/task"
)

// The prompts of the load. Most take three turns that build on each other; the poisoned ones come now and then.
const (
	plain     = "plain"
	killer    = "a cell that kills its session, each time"
	hog       = "a cell that takes all memory"
	bomb      = "a cell that forks without end"
	malformed = "a prompt whose data file is not there"
)

func poison(i int) string {
	switch {
	case i%160 == 9:
		return malformed
	case i%40 == 3:
		return killer
	case i%40 == 5:
		return hog
	case i%40 == 7:
		return bomb
	}
	return plain
}

var poisoned = map[string]string{
	killer: "import os, signal\nprint('on', flush=True)\nos.kill(os.getpid(), signal.SIGKILL)",
	hog:    "kept = []\nwhile True:\n    kept.append(bytearray(32 << 20))",
	bomb: "import os, threading\nfor _ in range(2000):\n    try:\n        os.fork()\n    except OSError:\n        pass\n" +
		"while True:\n    threading.Thread(target=threading.Event().wait, daemon=True).start()",
}

func turn(think, code string) string {
	return "<think>\n" + think + "\n</think>\n<code_interpreter>\n" + code + "\n</code_interpreter>"
}

// turns need what earlier cells computed, unless the prompt is poisoned: then the session may be another one.
func turns(i int) []string {
	submit := "a = bind(\"@n[{n}]\", n=y)\nsubmit_answer([a, infer([a], \"The number of prompt %d is %d.\", \"The first claim states n, which is the number.\")])"
	if code, ok := poisoned[poison(i)]; ok {
		return []string{
			turn("First.", code), turn("Again.", code),
			turn("So.", fmt.Sprintf("y = %d + 2\n"+submit, i, i, i+2)),
		}
	}
	return []string{
		turn("First.", fmt.Sprintf("x = %d + 1\nprint(x)", i)),
		turn("Then.", "y = x + 1\nprint(y)"),
		turn("So.", fmt.Sprintf(submit, i, i+2)),
	}
}

// script is what the policy answers to the first n prompts.
func script(t testing.TB, n int) *scripted.Script {
	t.Helper()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	for i := range n {
		require.NoError(t, enc.Encode(map[string]any{"prompt_id": strconv.Itoa(i), "turns": turns(i)}))
	}
	s, err := scripted.ReadScript(&b, "script")
	require.NoError(t, err)
	return s
}

// prompts are those from one number up to another, with their references.
func prompts(from, to int) (out []task.Prompt, refs []task.Reference) {
	for i := from; i < to; i++ {
		p := task.Prompt{ID: strconv.Itoa(i), Question: "Which number is it?", DataSource: "dabench"}
		if poison(i) == malformed {
			p.Files = []task.File{{Name: "gone.csv", SHA256: fmt.Sprintf("%064x", i), Size: 1}}
		}
		out = append(out, p)
		refs = append(refs, task.Reference{PromptID: p.ID, DataSource: p.DataSource, Answers: []task.NamedAnswer{{Name: "n", Value: strconv.Itoa(i + 2)}}})
	}
	return out, refs
}
