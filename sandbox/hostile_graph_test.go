package sandbox

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/trajectory"
)

// asks sends a request by the runner's own channel, past the primitives, and prints the refusal.
const asks = `
def ask(**body):
    answer = chan.ask(**body)
    print(answer['refused'])
None`

func TestAForgedRequestIsJudgedByTheGraph(t *testing.T) {
	t.Parallel()
	sess := start(t, box(t), nil)
	graph := evidence.New(evidence.Task{Question: "How many?"}, evidence.Config{})
	turn := 0
	cell := func(code string) Result {
		turn++
		c := graph.Begin(turn, code, evidence.Analysis{})
		res := runWith(t, sess, code, c)
		c.End(string(res.Status))
		require.Equal(t, trajectory.CellOK, res.Status, res.Traceback)
		return res
	}
	cell(forge + asks)
	for _, request := range []string{
		"submit={'statement': 0, 'claims': ['c99']}",
		"submit={'statement': 0, 'claims': []}",
		"infer={'statement': 0, 'premises': ['c99'], 'conclusion': 'It is 7.', 'reasoning': 'because c99 says so'}",
		"bind={'statement': 0, 'line': 1, 'template': 'It is 7.', 'fields': [], 'values': []}",
		"bind={'statement': 0, 'line': 1, 'template': 'It is {x}.', 'fields': [{'name': 'y', 'text': '7'}], 'values': []}",
	} {
		require.Equal(t, "True\n", cell("ask("+request+")").Output, request)
	}
	require.Empty(t, graph.Claims())
	require.False(t, graph.Submitted())

	cell("x = 7\nc = bind('It is {x}.', x=x)\nsubmit_answer(c)")
	require.True(t, graph.Submitted())
	claims := graph.Claims()
	// After the submission nothing is added or taken back.
	res := cell("for f in (lambda: submit_answer(c), lambda: bind('It is {x}.', x=8)):\n    try: f()\n    except ValueError as e: print('refused')")
	require.Contains(t, res.Output, "refused")
	require.Equal(t, claims[0], graph.Claims()[0])
	for _, node := range graph.Export().Nodes {
		require.NotContains(t, node.ID, "c99")
	}
}
