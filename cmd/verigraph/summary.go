package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/verigraph/verigraph/dataset/archive"
	"github.com/verigraph/verigraph/dataset/feed"
	"github.com/verigraph/verigraph/dataset/leader"
	"github.com/verigraph/verigraph/trajectory"
)

// summary is summary.json. Means are over scored rollouts, grounding over submitted claims; a value
// that nothing was measured for is null.
type summary struct {
	Run            string           `json:"run"`
	Complete       bool             `json:"complete"`
	Tier           string           `json:"sandbox_tier"`
	Prompts        int              `json:"prompts"`
	Groups         int              `json:"groups"`
	Rollouts       int              `json:"rollouts"`
	Submitted      int              `json:"submitted"`
	SubmissionRate *float64         `json:"submission_rate"`
	Accuracy       *float64         `json:"accuracy"`
	UnscoredShare  *float64         `json:"unscored_share"`
	Grounding      groundingSummary `json:"grounding"`
	Rewards        rewardSummary    `json:"rewards"`
	Verdicts       map[string]int   `json:"verdicts"`
	Terminations   map[string]int   `json:"terminations"`
	Ledger         leader.Ledger    `json:"ledger"`
	Batches        batchSummary     `json:"batches"`
	WallSeconds    float64          `json:"wall_seconds"`
	PerSecond      float64          `json:"trajectories_per_second"`
	PeakMemoryMiB  float64          `json:"peak_memory_mib"`
	Seconds        secondsSummary   `json:"seconds"`
}

type groundingSummary struct {
	Structural *float64 `json:"structural"`
	Replayed   *float64 `json:"replayed"`
	Lexical    *float64 `json:"lexical"`
	Supported  *float64 `json:"supported"`
	// Rate is the Grounding Rate over all submitted claims, RateMacro its mean over rollouts. Both are null
	// unless every part ran on every submitted claim.
	Rate      *float64 `json:"rate"`
	RateMacro *float64 `json:"rate_macro"`
}

type rewardSummary struct {
	Process *float64 `json:"process"`
	Infer   *float64 `json:"infer"`
	Outcome *float64 `json:"outcome"`
	Penalty *float64 `json:"penalty"`
	Total   *float64 `json:"total"`
}

type batchSummary struct {
	Written      int `json:"written"`
	Acknowledged int `json:"acknowledged"`
}

// secondsSummary adds up over rollouts that ran side by side, so a part may exceed the wall time.
// Delivery is from a batch being written to its acknowledgement, summed over batches.
type secondsSummary struct {
	Policy   float64 `json:"policy"`
	Sandbox  float64 `json:"sandbox"`
	Waiting  float64 `json:"waiting"`
	Reward   float64 `json:"reward"`
	Delivery float64 `json:"delivery"`
}

// mean is a running mean that is null without values.
type mean struct{ sum, n float64 }

func (m *mean) add(v, weight float64) { m.sum += v * weight; m.n += weight }

func (m *mean) addPtr(v *float64, weight float64) {
	if v != nil {
		m.add(*v, weight)
	}
}

func (m *mean) value() *float64 {
	if m.n == 0 {
		return nil
	}
	v := m.sum / m.n
	return &v
}

func (l *localLine) summary(ctx context.Context, start time.Time, memory *memoryWatch) (summary, error) {
	st, err := l.reward.FinalStatus(ctx)
	if err != nil {
		return summary{}, err
	}
	entries, err := archive.ReadIndex(l.cfg.Reward.Archive)
	if err != nil {
		return summary{}, err
	}
	s := summarize(entries)
	s.Run, s.Complete, s.Tier = st.Run, st.Complete, string(l.worker.Tier)
	s.Prompts, s.Groups, s.Ledger = int(st.Prompts), int(st.Groups), ledgerOf(st.Ledger)
	s.Batches = batchSummary{Written: int(st.BatchesWritten), Acknowledged: int(st.BatchesAcknowledged)}
	for seq, at := range l.reward.AckTimes() {
		if written, ok := l.reward.WrittenAt(seq); ok {
			s.Seconds.Delivery += at.Sub(written).Seconds()
		}
	}
	s.WallSeconds = time.Since(start).Seconds()
	s.PerSecond = float64(s.Rollouts) / s.WallSeconds
	s.PeakMemoryMiB = memory.peakMiB()
	return s, nil
}

func ledgerOf(l feed.Ledger) leader.Ledger {
	return leader.Ledger{
		Dispatched: int(l.Dispatched), Delivered: int(l.Delivered), Filtered: int(l.Filtered), Stale: int(l.Stale),
		Unscored: int(l.Unscored), Failed: int(l.Failed), SetAside: int(l.SetAside), InFlight: int(l.InFlight),
	}
}

// summarize adds up the index.
func summarize(entries []archive.Entry) summary {
	s := summary{Rollouts: len(entries), Verdicts: map[string]int{}, Terminations: map[string]int{}}
	var submitted, accuracy, unscored, process, infer, outcome, penalty, total mean
	var structural, replayed, lexical, supported, rate, rateMacro mean
	rated := true
	for _, e := range entries {
		s.Terminations[string(e.TerminationReason)]++
		s.Seconds.Policy += e.Timing.GenerateS
		s.Seconds.Sandbox += e.Timing.ToolS
		s.Seconds.Waiting += e.Timing.QueueS
		s.Seconds.Reward += e.Timing.ScoreS
		if e.Submitted {
			s.Submitted++
		}
		submitted.add(flag(e.Submitted), 1)
		unscored.add(flag(e.RewardStatus != trajectory.ScoreOK), 1)
		if e.Correct != nil {
			accuracy.add(flag(*e.Correct), 1)
		}
		process.addPtr(e.Rewards.Process, 1)
		infer.addPtr(e.Rewards.Infer, 1)
		outcome.addPtr(e.Rewards.Outcome, 1)
		penalty.addPtr(e.Rewards.Penalty, 1)
		total.addPtr(e.Rewards.Total, 1)
		n := float64(e.Claims)
		structural.addPtr(e.Grounding.Structural, n)
		replayed.addPtr(e.Grounding.Replayed, n)
		lexical.addPtr(e.Grounding.Lexical, n)
		supported.addPtr(e.Grounding.Supported, n)
		rate.addPtr(e.Grounding.Rate, n)
		rateMacro.addPtr(e.Grounding.Rate, 1)
		rated = rated && (e.Claims == 0 || e.Grounding.Rate != nil)
		for kind, n := range e.Verdicts {
			s.Verdicts[string(kind)] += n
		}
	}
	s.SubmissionRate, s.Accuracy, s.UnscoredShare = submitted.value(), accuracy.value(), unscored.value()
	s.Rewards = rewardSummary{process.value(), infer.value(), outcome.value(), penalty.value(), total.value()}
	s.Grounding = groundingSummary{Structural: structural.value(), Replayed: replayed.value(), Lexical: lexical.value(), Supported: supported.value()}
	if rated {
		s.Grounding.Rate, s.Grounding.RateMacro = rate.value(), rateMacro.value()
	}
	return s
}

func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// accounted: every dispatched rollout has left, and the books balance.
func (s summary) accounted() bool {
	return s.Complete && s.Ledger.Balanced() && s.Ledger.InFlight == 0
}

func (s summary) write(dir string) error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "summary.json"), append(data, '\n'), 0o644)
}

func (s summary) print(w io.Writer, out string) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%-14s %s\n", name, fmt.Sprintf(format, args...))
	}
	line("prompts", "%d in %d groups, %d rollouts", s.Prompts, s.Groups, s.Rollouts)
	line("submitted", "%d (%s)", s.Submitted, percent(s.SubmissionRate))
	line("accuracy", "%s by the benchmark's rule", percent(s.Accuracy))
	line("reward", "process %s  infer %s  outcome %s  penalty %s  total %s", num(s.Rewards.Process),
		num(s.Rewards.Infer), num(s.Rewards.Outcome), num(s.Rewards.Penalty), num(s.Rewards.Total))
	line("grounding", "structural %s  lexical %s  replayed %s  supported %s  (of submitted claims)", percent(s.Grounding.Structural),
		percent(s.Grounding.Lexical), percent(s.Grounding.Replayed), percent(s.Grounding.Supported))
	if s.Grounding.Rate != nil {
		line("grounding rate", "%s of submitted claims, %s as mean over rollouts, at a submission rate of %s",
			percent(s.Grounding.Rate), percent(s.Grounding.RateMacro), percent(s.SubmissionRate))
	}
	line("verdicts", "%s", counts(s.Verdicts))
	line("ended", "%s", counts(s.Terminations))
	l := s.Ledger
	balance := "balanced"
	if !l.Balanced() {
		balance = "NOT BALANCED"
	}
	line("ledger", "dispatched %d = delivered %d + filtered %d + stale %d + unscored %d + failed %d + set aside %d + in flight %d  (%s)",
		l.Dispatched, l.Delivered, l.Filtered, l.Stale, l.Unscored, l.Failed, l.SetAside, l.InFlight, balance)
	line("batches", "%d written, %d acknowledged", s.Batches.Written, s.Batches.Acknowledged)
	line("time", "%.1f s, %.1f trajectories/s, peak memory %.0f MiB, sandbox tier %s", s.WallSeconds, s.PerSecond, s.PeakMemoryMiB, s.Tier)
	t := s.Seconds
	line("spent", "policy %.1f s  sandbox %.1f s  waiting %.1f s  reward %.1f s  delivery %.1f s  (summed over rollouts)",
		t.Policy, t.Sandbox, t.Waiting, t.Reward, t.Delivery)
	fmt.Fprintf(w, "look next      %s (all rollouts), %s, %s\n", filepath.Join(out, "trajectories", "index.jsonl"),
		filepath.Join(out, "batches"), filepath.Join(out, "summary.json"))
	if s.Rollouts > 0 {
		fmt.Fprintf(w, "               verigraph graph %s ROLLOUT_ID --format mermaid\n", out)
	}
}

func percent(v *float64) string {
	if v == nil {
		return "not run"
	}
	return fmt.Sprintf("%.1f %%", *v*100)
}

func num(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.3f", *v)
}

func counts(m map[string]int) string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	text := ""
	for _, k := range keys {
		text += fmt.Sprintf("%s %d  ", k, m[k])
	}
	if text == "" {
		return "none"
	}
	return text[:len(text)-2]
}
