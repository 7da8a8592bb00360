package viewertest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/verigraph/verigraph/dataset/archive"
	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

// HostileText is what a page must show and never run: script and event handlers, a data URL, a template,
// terminal escapes, a text that turns the reading direction, bytes that are no character, a closed comment.
const HostileText = `<script>window.hacked=1</script><img src=x onerror="window.hacked=2">` +
	`<svg onload="window.hacked=3"><a href="data:text/html,<script>window.hacked=4</script>">click</a>` +
	`<iframe srcdoc="<script>parent.hacked=5</script>"></iframe></pre></textarea>--></style><style>*{display:none}</style>` +
	"${window.hacked=6}{{constructor.constructor('window.hacked=7')()}}\x1b[31mred\x1b]0;title\x07\u202etxt.exe\u202c\u2066\u0000\u2028end"

// Hostile writes a run whose one rollout holds HostileText wherever a policy, a judge or a data file could put it.
func Hostile(to string) error {
	x := HostileText
	g := evidence.Export{
		Schema: evidence.Schema, SubmitTurn: 1, Submitted: []string{"c1"},
		Nodes: []evidence.Node{
			{ID: "file:" + x, Kind: evidence.NodeSource, Turn: -1, Statement: -1, Name: x},
			{ID: "v1", Kind: evidence.NodeValue, Name: x, Expression: x, Type: x, Repr: x, ValueKind: "number"},
			{ID: "c1", Kind: evidence.NodeAtomic, Template: x, Text: x, Fields: []evidence.Field{{Name: x, Text: x}}},
			{ID: "c2", Kind: evidence.NodeDerived, Text: x, Reasoning: x, Restates: "c1", NewNumbers: []string{x}},
		},
		Edges: []evidence.Edge{
			{From: "file:" + x, To: "v1", Kind: evidence.EdgeCompute},
			{From: "v1", To: "c1", Kind: evidence.EdgeGround, Role: x},
			{From: "c1", To: "c2", Kind: evidence.EdgeDerive},
		},
		Cells:    []evidence.CellInfo{{Turn: 0, Code: "bind('x')\n# " + x, Statements: 1, Completed: 1, Status: "ok"}},
		Refusals: []evidence.Refused{{Primitive: x, Rule: x, Message: x}}, Flags: []string{x},
		Taints: []evidence.TaintMark{{Construct: x}},
	}
	g.Grounding = g.ComputeGrounding()
	return write(to, task.RolloutID{Run: "hostile", Dispatch: "h-0"}, trajectory.Trajectory{
		PromptID: x, DataSource: x, Termination: trajectory.Submitted, Error: x, Answer: x, Flags: []string{x}, Graph: g,
		Messages: []trajectory.Message{{Role: "system", Content: x}, {Role: "user", Content: x}},
		Turns: []trajectory.Turn{
			{Text: "<think>" + x + "</think><code_interpreter>" + x + "</code_interpreter>", Code: x, HasCode: true, Status: trajectory.CellOK, Observation: x, FinishReason: x, SampledIDs: 3},
			{Text: x, FinishReason: "stop", SampledIDs: 1},
		},
		Segments: []trajectory.Segment{segment(4, 2)},
	}, trajectory.Score{
		Parts: []trajectory.Part{{Term: x, Name: x, Value: 1, Weight: 1, Reason: x}}, Method: x, Reason: x,
		Verdicts: []trajectory.Verdict{{Claim: "c2", Premises: []string{"c1"}, Kind: trajectory.NotEntailed, Reason: x, Judge: x}},
	})
}

// Huge writes a run whose one rollout has turns of 512 kB and a graph of the given number of nodes: columns
// of two files, values computed from them, claims bound to those, and conclusions, some of them dead branches.
func Huge(to string, nodes int) error {
	const size = 512 << 10
	long := strings.Repeat("0123456789abcdef ", size/17)
	code := strings.Repeat("x = [i * 2 for i in range(10)]  # a line of code\n", size/49)
	t := trajectory.Trajectory{
		PromptID: "huge", DataSource: "synthetic", Termination: trajectory.Submitted, Graph: graph(nodes),
		Messages: []trajectory.Message{{Role: "system", Content: "s"}, {Role: "user", Content: long}},
	}
	for range 3 {
		t.Turns = append(t.Turns, trajectory.Turn{
			Text: "<think>" + long + "</think><code_interpreter>" + code + "</code_interpreter>", Code: code, HasCode: true,
			Status: trajectory.CellOK, Observation: strings.Repeat("z", size), FinishReason: "stop", SampledIDs: 10_000,
		})
	}
	for i := range t.Graph.Cells {
		t.Graph.Cells[i].Code = code
	}
	t.Segments = []trajectory.Segment{segment(500, 30_000)}
	t.Answer = t.Graph.Answer()
	return write(to, task.RolloutID{Run: "huge", Dispatch: "huge-0"}, t, trajectory.Score{Outcome: 1, Reward: 0.8, Total: 0.8, Clipped: 0.8})
}

func graph(nodes int) evidence.Export {
	g := evidence.Export{Schema: evidence.Schema, SubmitTurn: 2}
	var claims, derived, columns []string
	add := func(n evidence.Node, kind evidence.EdgeKind, from ...string) string {
		g.Nodes = append(g.Nodes, n)
		for _, f := range from {
			role := ""
			if kind == evidence.EdgeGround {
				role = "v"
			}
			g.Edges = append(g.Edges, evidence.Edge{From: f, To: n.ID, Kind: kind, Role: role})
		}
		return n.ID
	}
	a := add(evidence.Node{ID: "file:a.csv", Kind: evidence.NodeSource, Name: "a.csv", Turn: -1, Statement: -1}, "")
	b := add(evidence.Node{ID: "file:b.csv", Kind: evidence.NodeSource, Name: "b.csv", Turn: -1, Statement: -1}, "")
	for i := 0; len(g.Nodes)+4 <= nodes; i++ {
		name := fmt.Sprintf("col%d", i)
		from := []string{a, b}[i%2 : i%2+1]
		if i > 3 && i%5 == 0 {
			from = append(from, columns[i-3])
		}
		columns = append(columns, add(evidence.Node{ID: name + "@1", Kind: evidence.NodeVariable, Name: name, Version: 1}, evidence.EdgeCompute, from...))
		v := add(evidence.Node{ID: fmt.Sprintf("v%d", i), Kind: evidence.NodeValue, Name: "v", Expression: name + ".mean()", Repr: fmt.Sprint(i), ValueKind: "number", Turn: i % 3}, evidence.EdgeCompute, name+"@1")
		claims = append(claims, add(evidence.Node{
			ID: fmt.Sprintf("c%d", i), Kind: evidence.NodeAtomic, Template: "the mean of " + name + " is {v}", Text: fmt.Sprintf("the mean of %s is %d", name, i),
			Fields: []evidence.Field{{Name: "v", Text: fmt.Sprint(i)}}, Values: []evidence.Value{{Name: "v", Kind: "number", Repr: fmt.Sprint(i)}}, Turn: i % 3,
		}, evidence.EdgeGround, v))
		if i%3 == 2 {
			derived = append(derived, add(evidence.Node{
				ID: fmt.Sprintf("d%d", i), Kind: evidence.NodeDerived, Text: fmt.Sprintf("the columns up to %s agree", name),
				Reasoning: "Their means differ little.", Turn: 2,
			}, evidence.EdgeDerive, claims[i-2:i+1]...))
		}
	}
	for len(g.Nodes) < nodes {
		add(evidence.Node{ID: fmt.Sprintf("spare%d@1", len(g.Nodes)), Kind: evidence.NodeVariable, Name: "spare", Version: 1}, evidence.EdgeCompute, a)
	}
	g.Submitted = derived[:max(1, len(derived)*3/4)]
	g.Cells = []evidence.CellInfo{{Turn: 0, Code: "x = 1", Statements: 1, Completed: 1, Status: "ok"}}
	g.Grounding = g.ComputeGrounding()
	return g
}

func segment(prompt, response int) trajectory.Segment {
	s := trajectory.Segment{
		PromptIDs: make([]int32, prompt), ResponseIDs: make([]int32, response), ResponseMask: make([]int8, response), LogProbs: make([]float32, response),
		Spans: []trajectory.Span{{Start: 0, End: response, Kind: trajectory.SpanSampled}},
	}
	for i := range s.ResponseIDs {
		s.ResponseIDs[i], s.ResponseMask[i], s.LogProbs[i] = int32(i%300), 1, -float32(i%50)/10
	}
	return s
}

func write(to string, id task.RolloutID, t trajectory.Trajectory, s trajectory.Score) error {
	t.ID, s.Status = id, trajectory.ScoreOK
	a, err := archive.Open(to)
	if err != nil {
		return err
	}
	err = a.Add(trajectory.ScoredGroup{Group: trajectory.Group{Trajectories: []trajectory.Trajectory{t}}, Scores: []trajectory.Score{s}})
	if err != nil {
		return err
	}
	return a.Close()
}

// Break damages a grown run as a killed machine or a full disk does: a corrupt line in the middle of the
// index, a last line without its end, a rollout's file cut in half, another one gone, a summary cut in half.
func Break(dir string) error {
	path := filepath.Join(dir, "trajectories", "index.jsonl")
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	lines := strings.SplitAfter(string(data), "\n")
	lines[1] = "\x00\x00{not json\n"
	last := lines[len(lines)-2]
	if err := os.WriteFile(path, []byte(strings.Join(lines[:len(lines)-2], "")+last[:len(last)/2]), 0o644); err != nil {
		return err
	}
	entries := lines[2:4]
	for i, line := range entries {
		file := between(line, `"file":"`, `"`)
		whole, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			return err
		}
		if i == 0 {
			err = os.WriteFile(filepath.Join(dir, file), whole[:len(whole)/2], 0o644)
		} else {
			err = os.Remove(filepath.Join(dir, file))
		}
		if err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(dir, "summary.json"), []byte(`{"run": "loc`), 0o644)
}

func between(s, from, to string) string {
	_, s, _ = strings.Cut(s, from)
	s, _, _ = strings.Cut(s, to)
	return s
}
