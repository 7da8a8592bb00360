package chaos

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// The rule for tokens that were produced twice: a turn may be answered again only
//
//   - where its first answer was not recorded when it was asked for again, because it was lost on its way or with
//     its worker;
//   - or where a worker that had lost the group without knowing asked: what it is told goes nowhere, and it says so
//     (or is killed) before it writes.
//
// A rollout may begin anew, as its next attempt, only with a reason on record for the one before.

// logged is one line of a worker's log.
type logged struct {
	Msg      string
	Dispatch string
	Rollout  string `json:"rollout_id"`
	Attempt  int
	Error    string
	Reason   string `json:"termination_reason"`
}

// said reads what a worker logged of groups that it lost and of attempts that it gave up.
func (b *bed) said(worker int) (dropped map[string]bool, gaveUp map[string]string, err error) {
	dropped, gaveUp = map[string]bool{}, map[string]string{}
	file, err := os.Open(filepath.Join(b.logs, b.worker[worker].name+".log"))
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var l logged
		if json.Unmarshal(lines.Bytes(), &l) != nil {
			continue
		}
		switch l.Msg {
		case "dropped", "lease not ended", "handed back", "will be tried again":
			dropped[l.Dispatch] = true
		case "rollout attempt lost":
			gaveUp[fmt.Sprintf("%s.%d", l.Rollout, l.Attempt)] = l.Reason + ": " + l.Error
		}
	}
	return dropped, gaveUp, lines.Err()
}

// tokens compares what the policy produced with what the trainer has.
func (b *bed) tokens(f *findings, seen []trainedBatch) {
	var dropped [workers]map[string]bool
	gaveUp := map[string]string{}
	for w := range workers {
		var lost map[string]string
		var err error
		if dropped[w], lost, err = b.said(w); err != nil {
			f.problem("log of worker %d: %v", w, err)
		}
		maps.Copy(gaveUp, lost)
	}
	b.policy.mu.Lock()
	defer b.policy.mu.Unlock()
	for key, asks := range b.policy.asks {
		answered := false
		for _, a := range asks {
			f.Figures["tokens produced"] += int64(a.tokens)
			if a.tokens > 0 {
				f.Figures["turns answered"]++
			}
			switch {
			case !answered:
			case a.unknown:
				f.Figures["turns answered again, journal not readable at that moment"]++
			case !a.recorded:
				f.Figures["turns answered again, first answer lost on its way"]++
				f.Figures["tokens of those"] += int64(a.tokens)
			case dropped[a.worker][key.id.Dispatch] || b.worker[a.worker].killedBetween(a.at, a.at.Add(time.Minute)):
				f.Figures["turns answered again, asked by a worker that had lost the group"]++
			default:
				f.problem("turn %d of %s, attempt %d, was recorded and sampled again for worker %d at %s", key.turn, key.id, key.attempt, a.worker,
					a.at.UTC().Format(time.TimeOnly))
			}
			answered = answered || a.tokens > 0
		}
		if key.attempt > 0 && key.turn == 0 {
			before := key.attempt - 1
			why := b.policy.lost[key.id][before]
			if why == "" {
				why = gaveUp[fmt.Sprintf("%s.%d", key.id, before)]
			}
			if why == "" {
				f.problem("%s began anew as attempt %d without a reason on record", key.id, key.attempt)
				continue
			}
			reason, _, _ := strings.Cut(why, ":")
			f.Figures["rollouts that began anew: "+reason]++
		}
	}
	for _, s := range seen {
		for _, id := range slices.Sorted(maps.Keys(s.Sampled)) {
			f.Figures["tokens delivered"] += s.Sampled[id]
		}
	}
}
