package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/verigraph/verigraph/dataset/archive"
	"github.com/verigraph/verigraph/dataset/leader"
	"github.com/verigraph/verigraph/jetstream"
)

// findings are what the checks saw: problems, and figures beside them.
type findings struct {
	Problems []string         `json:"problems"`
	Figures  map[string]int64 `json:"figures"`
}

func (f *findings) problem(format string, args ...any) {
	f.Problems = append(f.Problems, fmt.Sprintf(format, args...))
}

// trainedBatch is one of the trainer's checkpoint.
type trainedBatch struct {
	Sequence int64
	Groups   map[string][]string
	Sampled  map[string]int64
}

func (b *bed) checkpoint() ([]trainedBatch, error) {
	data, err := os.ReadFile(filepath.Join(b.saved, "checkpoint.json"))
	if err != nil {
		return nil, err
	}
	var saved struct{ Seen []trainedBatch }
	err = json.Unmarshal(data, &saved)
	return saved.Seen, err
}

// check compares the trainer's surviving life with the logs, the ledger and the policy's count.
func (b *bed) check(ctx context.Context) (f findings, err error) {
	f.Figures = map[string]int64{}
	seen, err := b.checkpoint()
	if err != nil {
		return f, err
	}
	events, err := jetstream.ReadLog[leader.Event](ctx, b.bus, jetstream.Ledger, run)
	if err != nil {
		return f, err
	}
	records, err := jetstream.ReadLog[leader.BatchRecord](ctx, b.bus, jetstream.Batches, run)
	if err != nil {
		return f, err
	}
	for name, log := range map[string]any{"ledger.json": events, "batches.json": records} { // for whoever looks into a problem
		if err := os.WriteFile(filepath.Join(b.logs, name), must(json.MarshalIndent(log, "", " ")), 0o600); err != nil {
			return f, err
		}
	}
	f.batches(seen, events, records)
	trained := f.once(seen)
	index, err := archive.ReadIndex(b.blobs.dir)
	if err != nil {
		return f, err
	}
	f.archived(seen, index)
	f.prompts(b.size.first, b.submitted, trained, events, index)
	if err := b.ledger(ctx, &f, seen); err != nil {
		return f, err
	}
	b.tokens(&f, seen)
	b.objects(&f, records)
	for _, p := range b.all() {
		f.Figures["processes that ended by themselves"] += int64(len(p.deaths))
	}
	return f, nil
}

// batches: the trainer saw every batch that was not taken back, once and in order.
func (f *findings) batches(seen []trainedBatch, events []leader.Event, records []leader.BatchRecord) {
	dropped := map[int64]bool{}
	for _, e := range events {
		for _, seq := range e.Dropped {
			dropped[seq] = true
		}
	}
	describe := func(seq int64, groups []string) string {
		slices.Sort(groups)
		return fmt.Sprint(seq, groups)
	}
	var want, got []string
	for _, r := range records {
		if dropped[r.Sequence] {
			continue
		}
		var groups []string
		for _, g := range r.Groups {
			groups = append(groups, g.Dispatch)
		}
		want = append(want, describe(r.Sequence, groups))
	}
	for _, s := range seen {
		got = append(got, describe(s.Sequence, slices.Collect(maps.Keys(s.Groups))))
	}
	if !slices.Equal(want, got) {
		at := 0
		for at < min(len(want), len(got)) && want[at] == got[at] {
			at++
		}
		f.problem("the trainer saw %d batches and the log holds %d; they differ from number %d on: %v, want %v", len(got), len(want), at,
			got[at:min(at+2, len(got))], want[at:min(at+2, len(want))])
	}
	f.Figures["batches delivered"], f.Figures["batches taken back by a restore"] = int64(len(got)), int64(len(dropped))
}

// promptOf is the prompt of a dispatch of this load, whose ids are numbers.
func promptOf(dispatch string) string {
	prompt, _, _ := strings.Cut(dispatch, "-")
	return prompt
}

// once: no rollout and no prompt was trained on twice, and every group was whole.
func (f *findings) once(seen []trainedBatch) map[string]int {
	trained, rollouts := map[string]int{}, map[string]int{}
	for _, s := range seen {
		for uid, of := range s.Groups {
			trained[promptOf(uid)]++
			if len(of) != 2 {
				f.problem("group %s came with %d rollouts", uid, len(of))
			}
			for _, id := range of {
				rollouts[id]++
			}
		}
		for id, n := range s.Sampled {
			if n == 0 {
				f.problem("rollout %s came without a sampled token", id)
			}
		}
	}
	for id, n := range rollouts {
		if n > 1 {
			f.problem("rollout %s was delivered %d times", id, n)
		}
	}
	for prompt, n := range trained {
		if n > 1 {
			f.problem("prompt %s was trained on %d times", prompt, n)
		}
	}
	f.Figures["groups delivered"], f.Figures["rollouts delivered"] = int64(len(trained)), int64(len(rollouts))
	return trained
}

// prompts: every prompt was trained on, or is a malformed one that was set aside. The groups of the others that ended
// otherwise are named.
func (f *findings) prompts(first, submitted int, trained map[string]int, events []leader.Event, index []archive.Entry) {
	closed := map[string]leader.Event{}
	for _, e := range events {
		if e.Kind == leader.Closed {
			closed[promptOf(e.Dispatch)] = e
		}
	}
	ps, _ := prompts(first, submitted)
	for at, p := range ps {
		i := first + at
		e, ended := closed[p.ID]
		_, aside := e.Outcomes[leader.SetAside]
		switch {
		case poison(i) == malformed && trained[p.ID] == 0 && aside:
			f.Figures["malformed prompts set aside"]++
		case poison(i) == malformed:
			f.problem("malformed prompt %s was not set aside: %v", p.ID, e)
		case trained[p.ID] > 0:
		case ended && !e.Again:
			why := e.Reason
			for _, a := range index {
				if a.PromptID == p.ID && a.Error != "" {
					why += fmt.Sprintf("; %s ended with %s, %s: %s", a.RolloutID, a.TerminationReason, a.RewardStatus, a.Error)
				}
			}
			f.Figures["prompts not delivered, with a reason"]++
			f.problem("prompt %s (%s) was not delivered: %v: %.600s", p.ID, poison(i), e.Outcomes, why)
		default:
			f.problem("prompt %s (%s) is gone without a word", p.ID, poison(i))
		}
	}
	f.Figures["prompts submitted"] = int64(submitted - first)
}

// archived: every delivered rollout stands in the archive once.
func (f *findings) archived(seen []trainedBatch, index []archive.Entry) {
	lines := map[string]int{}
	for _, a := range index {
		if lines[a.RolloutID]++; lines[a.RolloutID] > 1 {
			f.problem("rollout %s stands in the archive %d times", a.RolloutID, lines[a.RolloutID])
		}
	}
	for _, s := range seen {
		for _, of := range s.Groups {
			for _, id := range of {
				if lines[id] == 0 {
					f.problem("rollout %s was delivered and does not stand in the archive", id)
				}
			}
		}
	}
	f.Figures["rollouts archived"] = int64(len(lines))
}

// ledger: its two sides agree with each other, with the trainer and with what the queues hold.
func (b *bed) ledger(ctx context.Context, f *findings, seen []trainedBatch) error {
	if _, err := b.leader(ctx); err != nil {
		return err
	}
	st, leads := b.status(ctx)
	if leads < 0 {
		return errNotNow
	}
	l := st.Ledger
	if sum := l.Delivered + l.Filtered + l.Stale + l.Unscored + l.Failed + l.SetAside + l.InFlight; sum != l.Dispatched || st.Unaccounted != 0 {
		f.problem("the ledger does not balance: %v, unaccounted %d", l, st.Unaccounted)
	}
	if !st.Complete || l.InFlight != 0 {
		f.problem("the run is not over: complete %t, in flight %d", st.Complete, l.InFlight)
	}
	var received int64
	for _, s := range seen {
		for _, of := range s.Groups {
			received += int64(len(of))
		}
	}
	if received != l.Delivered {
		f.problem("the ledger says %d rollouts delivered and the trainer has %d", l.Delivered, received)
	}
	for name, n := range map[string]int64{
		"dispatched": l.Dispatched, "delivered": l.Delivered, "filtered": l.Filtered, "stale": l.Stale, "unscored": l.Unscored,
		"failed": l.Failed, "set aside": l.SetAside,
	} {
		f.Figures["ledger: "+name] = n
	}
	for _, stream := range []string{jetstream.Prompts, jetstream.Trajectories, jetstream.Scored} {
		keys, err := b.bus.Keys(ctx, stream, run)
		if err != nil {
			return err
		}
		if len(keys) > 0 {
			f.problem("%s still holds %v", stream, slices.Sorted(maps.Keys(keys)))
		}
	}
	return nil
}

// objects: the store holds the batches that were not freed, and no part of a message.
func (b *bed) objects(f *findings, records []leader.BatchRecord) {
	known := map[string]bool{}
	for _, r := range records {
		known[filepath.Base(r.Object)] = true
	}
	for _, path := range must(filepath.Glob(filepath.Join(b.blobs.dir, "batches", "*"))) {
		if !known[filepath.Base(path)] {
			f.Figures["batch objects that no record names"]++
		}
	}
	parts, _ := filepath.Glob(filepath.Join(b.blobs.dir, "parts", "*", "*"))
	f.Figures["parts of messages left in the store"] = int64(len(parts))
}
