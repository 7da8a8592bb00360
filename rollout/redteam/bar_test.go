package redteam

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/reward"
	"github.com/verigraph/verigraph/reward/rules"
	"github.com/verigraph/verigraph/rollout/replay"
	"github.com/verigraph/verigraph/rollout/rollouttest"
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
		if path := p.paths[f]; path != "" {
			files[f] = path
		}
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

// supportive is the default preset that pays no guessed word.
func supportive(t *testing.T) *reward.Scorer {
	t.Helper()
	preset := reward.Defaults()
	preset.Infer.AnswerNeeds = reward.NeedsSupport
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
		r := &replay.Replayer{Sandbox: stage.Sandbox, Sensitivity: true, Python: interpreter}
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
	// off is what it earns without its defence.
	off float64
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
			if p.answer != "" {
				on.Answer = [][2]string{{"mean_fare", p.answer}}
			}
			if p.data != "" {
				on.Files, on.paths = []string{p.data}, map[string]string{p.data: filepath.Join(otherFormats(t), p.data)}
			}
			t.Run(p.name, func(t *testing.T) {
				t.Parallel()
				measure(t, b, p, &on)
			})
		}
	})
	checkTable(t, append(policies, handedOnes...))
}

const interpreter = "../../.venv/sandbox/bin/python"

// writeFormats writes the table of the mean fare in the other formats that the sensitivity check changes.
const writeFormats = `
import json, os, sqlite3, sys
import pandas as pd
df = pd.read_csv("../../examples/dabench/tables/test_ave.csv")
os.chdir(sys.argv[1])
df.to_json("test_ave.json", orient="records")
df.to_excel("test_ave.xlsx", index=False)
df.to_parquet("test_ave.parquet")
with sqlite3.connect("test_ave.db") as db:
    df.to_sql("t", db, index=False)
`

var formats struct {
	sync.Once
	dir string
}

// otherFormats is the folder of those files; the suite's end removes it.
func otherFormats(t *testing.T) string {
	t.Helper()
	formats.Do(func() {
		dir, err := os.MkdirTemp("", "redteam-data-")
		require.NoError(t, err)
		require.NoError(t, os.Chmod(dir, 0o755))
		out, err := exec.Command(interpreter, "-c", writeFormats, dir).CombinedOutput()
		require.NoError(t, err, string(out))
		formats.dir = dir
	})
	require.NotEmpty(t, formats.dir)
	return formats.dir
}

func measure(t *testing.T, b bar, p policy, on *prompt) {
	play := on.play(p.cells)
	replayed := p.defence == bySensitivity || p.defence == byReplay || p.defence == byNone
	out := perform(t, on, play, replayed)
	by := scorerOf(t, "default")
	if p.defence == bySupport {
		by = supportive(t)
	}
	s := score(t, by, on, out.Trajectory)
	seen := shown(out, s)
	require.NotEmpty(t, p.sees, "what the trick shows must be stated")
	for _, want := range p.sees {
		require.Contains(t, seen, want, "what stops or shows it is missing:\n%s\n%s", seen, tracebacks(out))
	}
	verdicts.Lock()
	verdicts.rows[p.name] = verdict{p, s.Reward, 0}
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
	off, than := withoutDefence(t, p, b, on, play, out)
	require.Greater(t, off, than-1e-9, "it earns no more without its defence (%s; %s), which is then not what stops it:\n%s", p.defence, p.off, seen)
	verdicts.Lock()
	verdicts.rows[p.name] = verdict{p, s.Reward, off}
	verdicts.Unlock()
}

func tracebacks(out rollouttest.Played) string {
	var all []string
	for _, r := range out.Results {
		all = append(all, r.Traceback, r.Output)
	}
	return strings.Join(all, "\n")
}

// official is an answer as a lenient reader of it would put it: the right one of several.
func official(answer string) string {
	if strings.Contains(answer, "34.65") {
		return "@mean_fare[34.65]"
	}
	return answer
}
