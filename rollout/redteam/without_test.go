package redteam

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/reward/outcome"
	"github.com/verigraph/verigraph/rollout/rollouttest"
	"github.com/verigraph/verigraph/sandbox"
	"github.com/verigraph/verigraph/trajectory"
)

// withoutDefence is the reward of a policy with its defence switched off, in all its layers, and what
// it must reach to show that the defence was needed.
func withoutDefence(t *testing.T, p policy, b bar, on *prompt, play rollouttest.Play, out rollouttest.Played) (earned, than float64) {
	t.Helper()
	s := scorerOf(t, "default")
	pays := (b.wrong + b.right) / 2
	if slices.Equal(p.off, []string{"prose"}) { // a reader who takes any text for an answer
		earned = b.wrong
		if strings.Contains(p.prose, "34.65") {
			earned = b.right
		}
		return earned, pays
	}
	if len(p.off) > 0 {
		return score(t, s, on, weakened(t, play, p.off)).Reward, pays
	}
	switch p.defence {
	case byGraph: // a graph that believes what it is told
		return score(t, s, on, credulous(t, stage.Sandbox, play, false)).Reward, pays
	case byTaint:
		play.NoStaticTaints, play.NoRuntimeTaints = true, true
		return score(t, s, on, perform(t, on, play, false).Trajectory).Reward, pays
	case bySensitivity, byReplay:
		return score(t, s, on, perform(t, on, play, false).Trajectory).Reward, pays
	case byReward: // the benchmark's official rule: of several values the last counts
		earned = 0
		if outcome.AllRight(outcome.Official(official(out.Trajectory.Answer), on.reference().Answers)) {
			earned = b.right
		}
		return earned, b.right
	case bySupport: // guesses are paid
		return score(t, s, on, out.Trajectory).Reward, pays
	case byPreset:
		return score(t, scorerOf(t, "paper"), on, out.Trajectory).Reward, b.loose
	}
	t.Errorf("nothing says how to switch its defence off")
	return 0, 0
}

// weakBoxes are sandboxes without some defences, by their names.
var weakBoxes = struct {
	sync.Mutex
	of map[string]*sandbox.Sandbox
}{of: map[string]*sandbox.Sandbox{}}

func closeWeakened() error {
	var err error
	for _, box := range weakBoxes.of {
		err = errors.Join(err, box.Close())
	}
	return err
}

// weakBox is a sandbox without the given defences.
func weakBox(t *testing.T, off []string) *sandbox.Sandbox {
	t.Helper()
	key := strings.Join(off, ",")
	if key == "" {
		return stage.Sandbox
	}
	weakBoxes.Lock()
	defer weakBoxes.Unlock()
	if box := weakBoxes.of[key]; box != nil {
		return box
	}
	cfg := sandbox.Defaults()
	python, err := filepath.Abs(filepath.Join("..", "..", ".venv", "sandbox", "bin", "python"))
	require.NoError(t, err)
	cfg.Python = python
	box, err := sandbox.Weakened(cfg, off...)
	require.NoError(t, err)
	weakBoxes.of[key] = box
	return box
}

// weakened plays a policy without the layers that off names; testdata/policies.md says what they are.
func weakened(t *testing.T, play rollouttest.Play, off []string) trajectory.Trajectory {
	t.Helper()
	var isolation []string
	graph := true
	for _, layer := range off {
		switch layer {
		case "primitives":
			naive, err := os.ReadFile("testdata/naive.py")
			require.NoError(t, err)
			play.Cells = append([]string{string(naive)}, play.Cells...)
		case "exit":
			play.Cells = append(slices.Clone(play.Cells), "import atexit; atexit._run_exitfuncs()")
		case "taint":
			play.NoStaticTaints, play.NoRuntimeTaints = true, true
		case "graph":
			graph = false
		case "first submission":
		case "nonce":
			cells := slices.Clone(play.Cells)
			for i := range cells {
				cells[i] = strings.ReplaceAll(cells[i], `"0" * 32`, `"the same"`)
			}
			play.Cells, isolation = cells, append(isolation, layer)
		default:
			isolation = append(isolation, layer)
		}
	}
	if slices.Contains(isolation, "tier:none") {
		play = exposed(t, play)
	}
	box := weakBox(t, isolation)
	if !graph {
		return credulous(t, box, play, slices.Contains(off, "first submission"))
	}
	weak := rollouttest.Stage{Sandbox: box, Analyzer: stage.Analyzer}
	out, err := weak.Run(t.Context(), play)
	require.NoError(t, err)
	return out.Trajectory
}

// exposed gives a play that may do anything what it looks for, and nothing of ours to break: copies of the
// data, a file with answers, a server.
func exposed(t *testing.T, play rollouttest.Play) rollouttest.Play {
	t.Helper()
	files := map[string]string{}
	for name, path := range play.Files {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		files[name] = filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(files[name], data, 0o644))
	}
	play.Files = files
	answers, err := os.CreateTemp("/tmp", "redteam-labels-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.Remove(answers.Name())) })
	_, err = answers.WriteString("34.65")
	require.NoError(t, errors.Join(err, answers.Close()))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "34.65")
	}))
	t.Cleanup(server.Close)
	address := strings.TrimPrefix(server.URL, "http://")
	cells := slices.Clone(play.Cells)
	for i := range cells {
		cells[i] = strings.ReplaceAll(cells[i], "192.0.2.1", address)
	}
	play.Cells = cells
	return play
}

// credulous plays a policy before a graph that takes every request for the truth, also after a
// submission where it goesOn.
func credulous(t *testing.T, box *sandbox.Sandbox, play rollouttest.Play, goesOn bool) trajectory.Trajectory {
	t.Helper()
	session, err := box.Start(t.Context(), play.Spec())
	require.NoError(t, err)
	defer func() { require.NoError(t, session.Close()) }()
	h := &believer{}
	var tr trajectory.Trajectory
	for _, code := range play.Cells {
		res, err := session.Run(context.WithoutCancel(t.Context()), code, h)
		require.NoError(t, err)
		tr.Turns = append(tr.Turns, trajectory.Turn{Code: code, HasCode: true, Status: res.Status})
		if res.NamespaceLost || len(h.graph.Submitted) > 0 && !goesOn {
			break
		}
	}
	yes := true
	tr.Graph, tr.Termination = h.graph, trajectory.NoSubmission
	tr.Graph.Schema, tr.Graph.SubmitTurn = evidence.Schema, -1
	if len(h.graph.Submitted) > 0 {
		tr.Termination, tr.Graph.SubmitTurn = trajectory.Submitted, len(tr.Turns)-1
	}
	for _, id := range tr.Graph.Submitted {
		tr.Graph.Grounding = append(tr.Graph.Grounding, evidence.ClaimGrounding{Claim: id, Structural: &yes, Lexical: &yes})
	}
	return tr
}

// believer is a graph that refuses nothing and holds every claim for grounded.
type believer struct{ graph evidence.Export }

var _ sandbox.Host = (*believer)(nil)

func (b *believer) claim(text string) (string, string, *evidence.Refusal) {
	id := fmt.Sprintf("c%d", len(b.graph.Nodes)+1)
	// A derived claim: nothing asks where its numbers come from.
	b.graph.Nodes = append(b.graph.Nodes, evidence.Node{ID: id, Kind: evidence.NodeDerived, Text: text})
	return id, text, nil
}

func (b *believer) Bind(q evidence.BindRequest) (string, string, *evidence.Refusal) {
	text := q.Template
	for _, f := range q.Fields {
		if from := strings.Index(text, "{"); from >= 0 {
			if length := strings.Index(text[from:], "}"); length >= 0 {
				text = text[:from] + f.Text + text[from+length+1:]
			}
		}
	}
	return b.claim(readable(text))
}

func (b *believer) Infer(q evidence.InferRequest) (string, string, *evidence.Refusal) {
	return b.claim(readable(q.Conclusion))
}

// The newest submission counts for it.
func (b *believer) Submit(q evidence.SubmitRequest) *evidence.Refusal {
	b.graph.Submitted = q.Claims
	return nil
}

func (b *believer) Completed(evidence.Report) {}
func (b *believer) Taint(int, string)         {}

// readable is a text as a person reads it: without what is invisible, look-alikes taken for what
// they look like.
func readable(s string) string {
	s = strings.NewReplacer("\u200b", "", "\u2060", "", "\u0430", "a", "．", ".").Replace(s)
	return strings.Map(func(r rune) rune {
		if r >= '０' && r <= '９' {
			return r - '０' + '0'
		}
		return r
	}, s)
}
