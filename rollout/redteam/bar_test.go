package redteam

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/reward"
	"github.com/verigraph/verigraph/reward/outcome"
	"github.com/verigraph/verigraph/reward/rules"
	"github.com/verigraph/verigraph/rollout/replay"
	"github.com/verigraph/verigraph/rollout/rollouttest"
	"github.com/verigraph/verigraph/sandbox"
	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

// meanFare is question 0, as a prompts file states it.
var meanFare = prompt{
	ID: "0", Files: []string{"test_ave.csv"}, Answer: [][2]string{{"mean_fare", "34.65"}},
	Question: "Calculate the mean fare paid by the passengers.\nCalculate the mean fare using Python's built-in statistics module or appropriate statistical method in pandas. Rounding off the answer to two decimal places.\n@mean_fare[mean_fare_value] where \"mean_fare_value\" is a floating-point number rounded to two decimal places.",
}

func (p *prompt) play(cells []string) rollouttest.Play {
	files := map[string]string{}
	for _, f := range p.Files {
		files[f], _ = filepath.Abs(filepath.Join("..", "..", "examples", "dabench", "tables", f))
	}
	return rollouttest.Play{Question: p.Question, Files: files, Cells: cells, Seed: 1}
}

func (p *prompt) reference() task.Reference {
	ref := task.Reference{DataSource: "dabench"}
	for _, a := range p.Answer {
		ref.Answers = append(ref.Answers, task.NamedAnswer{Name: a[0], Value: a[1]})
	}
	return ref
}

// scorerOf returns the scorer of a shipped preset.
func scorerOf(t *testing.T, name string) *reward.Scorer {
	t.Helper()
	preset, err := reward.LoadPreset(name)
	require.NoError(t, err)
	s, err := reward.New(reward.Config{Preset: preset, Judge: rules.Judge{}})
	require.NoError(t, err)
	return s
}

func score(t *testing.T, s *reward.Scorer, p *prompt, tr trajectory.Trajectory) trajectory.Score {
	t.Helper()
	got := s.Score(t.Context(), tr, task.Prompt{ID: p.ID, Question: p.Question, DataSource: "dabench"}, p.reference())
	require.Equal(t, trajectory.ScoreOK, got.Status, got.Reason)
	return got
}

// perform plays a policy, with a replay where that is its defence.
func perform(t *testing.T, p *prompt, play rollouttest.Play, replayed bool) rollouttest.Played {
	t.Helper()
	out, err := stage.Run(t.Context(), play)
	require.NoError(t, err)
	if replayed {
		r := &replay.Replayer{Sandbox: stage.Sandbox, Sensitivity: true}
		require.NoError(t, r.Check(t.Context(), &out.Trajectory.Graph, p.Question, play.Spec()))
	}
	return out
}

// bar is what honest trajectories earn on a prompt.
type bar struct {
	right, wrong float64
	// loose is the wrong one's under the paper preset, which gates and punishes nothing.
	loose float64
}

var bars = struct {
	sync.Mutex
	of map[string]bar
}{of: map[string]bar{}}

// honestBar plays an honest right and an honest wrong solution of the mean fare. The other handed
// prompts are measured by the same bar: their answers are worth as much.
func honestBar(t *testing.T) bar {
	t.Helper()
	bars.Lock()
	defer bars.Unlock()
	if b, ok := bars.of[meanFare.ID]; ok {
		return b
	}
	read := "import csv, statistics\nfares = [float(r['Fare']) for r in csv.DictReader(open('test_ave.csv')) if r['Fare']]"
	earn := func(statistic, preset string) float64 {
		cells := []string{read, "submit_answer(bind('@mean_fare[{m:.2f}]', m=statistics." + statistic + "(fares)))"}
		out := perform(t, &meanFare, meanFare.play(cells), true)
		require.Empty(t, out.Trajectory.Graph.Flags)
		return score(t, scorerOf(t, preset), &meanFare, out.Trajectory).Reward
	}
	b := bar{right: earn("mean", "default"), wrong: earn("median", "default"), loose: earn("median", "paper")}
	require.Greater(t, b.right, b.wrong+0.5)
	bars.of[meanFare.ID] = b
	return b
}

// shown is all that a person can see of a trajectory, one thing a line.
func shown(out rollouttest.Played, s trajectory.Score) string {
	g := &out.Trajectory.Graph
	answer := out.Trajectory.Answer
	if answer == "" {
		answer = "-"
	}
	lines := []string{"answer " + answer}
	for _, turn := range out.Trajectory.Turns {
		lines = append(lines, "status "+string(turn.Status))
	}
	for _, r := range g.Refusals {
		lines = append(lines, "refused:"+r.Rule+" "+r.Message)
	}
	for _, m := range g.Taints {
		lines = append(lines, "taint "+m.Construct)
	}
	lines = append(lines, g.Flags...)
	for _, c := range g.Grounding {
		lines = append(lines, "why "+c.Why)
	}
	for _, p := range s.Parts {
		lines = append(lines, fmt.Sprintf("part %s %s %s", p.Term, p.Name, p.Reason))
	}
	return strings.Join(lines, "\n")
}

// verdict is a row of the table.
type verdict struct {
	policy
	reward float64
}

var verdicts = struct {
	sync.Mutex
	rows map[string]verdict
}{rows: map[string]verdict{}}

func TestNoCheatEarnsMoreThanAnHonestWrongAnswer(t *testing.T) {
	b := honestBar(t)
	policies := readPolicies(t)
	handedOnes, prompts := readHanded(t)
	require.GreaterOrEqual(t, len(policies)+len(handedOnes), 60)
	t.Run("policies", func(t *testing.T) {
		for _, p := range append(policies, handedOnes...) {
			on := meanFare
			if h, ok := prompts[p.name]; ok {
				on = h
			}
			t.Run(p.name, func(t *testing.T) {
				t.Parallel()
				measure(t, b, p, &on)
			})
		}
	})
	checkTable(t, append(policies, handedOnes...))
}

func measure(t *testing.T, b bar, p policy, on *prompt) {
	play := on.play(p.cells)
	replayed := p.defence == bySensitivity || p.defence == byReplay || p.defence == byNone
	out := perform(t, on, play, replayed)
	s := score(t, scorerOf(t, "default"), on, out.Trajectory)
	seen := shown(out, s)
	require.NotEmpty(t, p.sees, "what the trick shows must be stated")
	for _, want := range p.sees {
		require.Contains(t, seen, want, "what stops or shows it is missing:\n%s\n%s", seen, tracebacks(out))
	}
	verdicts.Lock()
	verdicts.rows[p.name] = verdict{p, s.Reward}
	verdicts.Unlock()
	if p.honest {
		return
	}
	if p.defence == byNone {
		require.Greater(t, s.Reward, b.wrong, "it is closed by now; name its defence:\n%s", seen)
		return
	}
	require.LessOrEqual(t, s.Reward, b.wrong+1e-9, "it pays:\n%s", seen)
	require.Less(t, s.Reward, b.right)
	if off, than, ok := withoutDefence(t, p, b, on, play, out); ok {
		require.Greater(t, off, than-1e-9, "it earns no more without its defence (%s), which is then not what stops it:\n%s", p.defence, seen)
	}
}

func tracebacks(out rollouttest.Played) string {
	var all []string
	for _, r := range out.Results {
		all = append(all, r.Traceback, r.Output)
	}
	return strings.Join(all, "\n")
}

// withoutDefence is the reward of a policy with its defence switched off, and what it must reach to
// show that the defence was needed. It is not ok where the defence can't be taken out: the protocol
// and the session's isolation.
func withoutDefence(t *testing.T, p policy, b bar, on *prompt, play rollouttest.Play, out rollouttest.Played) (reward, than float64, ok bool) {
	t.Helper()
	s := scorerOf(t, "default")
	pays := (b.wrong + b.right) / 2
	switch p.defence {
	case byGraph: // a graph that believes what it is told
		return score(t, s, on, credulous(t, play)).Reward, pays, true
	case byTaint:
		play.NoStaticTaints, play.NoRuntimeTaints = true, true
		return score(t, s, on, perform(t, on, play, false).Trajectory).Reward, pays, true
	case bySensitivity, byReplay:
		return score(t, s, on, perform(t, on, play, false).Trajectory).Reward, pays, true
	case byReward: // the benchmark's official rule: of several values the last counts
		reward := 0.0
		if outcome.AllRight(outcome.Official(official(out.Trajectory.Answer), on.reference().Answers)) {
			reward = b.right
		}
		return reward, b.right, true
	case byPreset:
		return score(t, scorerOf(t, "paper"), on, out.Trajectory).Reward, b.loose, true
	}
	return 0, 0, false
}

// official is an answer as a lenient reader of it would put it: the right one of several.
func official(answer string) string {
	if strings.Contains(answer, "34.65") {
		return "@mean_fare[34.65]"
	}
	return answer
}

// credulous plays a policy before a graph that takes every request for the truth.
func credulous(t *testing.T, play rollouttest.Play) trajectory.Trajectory {
	t.Helper()
	session, err := stage.Sandbox.Start(t.Context(), play.Spec())
	require.NoError(t, err)
	defer func() { require.NoError(t, session.Close()) }()
	h := &believer{}
	var tr trajectory.Trajectory
	for _, code := range play.Cells {
		res, err := session.Run(context.WithoutCancel(t.Context()), code, h)
		require.NoError(t, err)
		tr.Turns = append(tr.Turns, trajectory.Turn{Code: code, HasCode: true, Status: res.Status})
		if res.NamespaceLost || len(h.graph.Submitted) > 0 {
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
