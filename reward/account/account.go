// Package account counts what scoring gave: rollouts by status, and unscored ones by the number of
// their edges, since long derivations meet a failing judge more often.
//
// Invariant: every scored group's rollouts are counted once, and a rollout without a reward enters no
// mean.
package account

import (
	"fmt"
	"strings"
	"sync"

	"github.com/verigraph/verigraph/trajectory"
)

// Buckets are the upper bounds of the classes by number of edges; the last class has none.
var Buckets = [...]int{0, 2, 5, 10, 20}

// ByEdges counts the rollouts of one class.
type ByEdges struct {
	// UpTo is the most edges of the class, -1 for no bound.
	UpTo        int `json:"up_to"`
	Rollouts    int `json:"rollouts"`
	Unscored    int `json:"unscored"`
	Unjudgeable int `json:"unjudgeable"`
}

// Snapshot is the state of a Book.
type Snapshot struct {
	Status map[trajectory.ScoreStatus]int `json:"status"`
	Edges  []ByEdges                      `json:"edges"`
	// Verdicts by kind; Cached and Repaired count among them.
	Verdicts map[trajectory.VerdictKind]int `json:"verdicts"`
	Cached   int                            `json:"cached"`
	Repaired int                            `json:"repaired"`
	// Methods counts what gave R_outcome.
	Methods map[string]int `json:"methods"`
	// Correct and Ruled are over scored rollouts with a rule's verdict.
	Correct int `json:"correct"`
	Ruled   int `json:"ruled"`
	// CallsSaved by verification by graph.
	CallsSaved int `json:"calls_saved"`
}

// Book counts. It is safe for concurrent use; the zero value is empty.
type Book struct {
	mu   sync.Mutex
	sums Snapshot
}

// Add counts one rollout's score.
func (b *Book) Add(s trajectory.Score) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sums.add(s)
}

func (t *Snapshot) add(s trajectory.Score) {
	if t.Status == nil {
		t.Status, t.Verdicts, t.Methods = map[trajectory.ScoreStatus]int{}, map[trajectory.VerdictKind]int{}, map[string]int{}
		for _, n := range Buckets {
			t.Edges = append(t.Edges, ByEdges{UpTo: n})
		}
		t.Edges = append(t.Edges, ByEdges{UpTo: -1})
	}
	t.Status[s.Status]++
	for _, v := range s.Verdicts {
		t.Verdicts[v.Kind]++
		t.Cached += count(v.Cached)
		t.Repaired += count(v.Repaired)
	}
	if s.Status == trajectory.ScoreLost { // never came to the judge
		return
	}
	class := &t.Edges[len(t.Edges)-1]
	for i := range Buckets {
		if s.Edges <= Buckets[i] {
			class = &t.Edges[i]
			break
		}
	}
	class.Rollouts++
	class.Unscored += count(s.Status == trajectory.ScoreUnscored)
	class.Unjudgeable += count(s.Status == trajectory.ScoreUnjudgeable)
	if s.Status != trajectory.ScoreOK {
		return
	}
	t.Methods[s.Method]++
	if s.Correct != nil {
		t.Ruled++
		t.Correct += count(*s.Correct)
	}
	if s.Gov != nil {
		t.CallsSaved += s.Gov.CallsSaved
	}
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Snapshot returns a copy of the counts.
func (b *Book) Snapshot() Snapshot {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.sums
	s.Status, s.Verdicts, s.Methods = clone(s.Status), clone(s.Verdicts), clone(s.Methods)
	s.Edges = append([]ByEdges(nil), s.Edges...)
	return s
}

func clone[K comparable](m map[K]int) map[K]int {
	out := make(map[K]int, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}

// UnscoredShare is the share of judged rollouts that have no reward, 0 for none.
func (s Snapshot) UnscoredShare() float64 {
	missing, all := 0, 0
	for _, e := range s.Edges {
		missing += e.Unscored + e.Unjudgeable
		all += e.Rollouts
	}
	if all == 0 {
		return 0
	}
	return float64(missing) / float64(all)
}

// Accuracy is over scored rollouts with a rule's verdict, and nil without any.
func (s Snapshot) Accuracy() *float64 {
	if s.Ruled == 0 {
		return nil
	}
	v := float64(s.Correct) / float64(s.Ruled)
	return &v
}

// EdgesTable is the unscored share by number of edges, for people.
func (s Snapshot) EdgesTable() string {
	var b strings.Builder
	from := 0
	for _, e := range s.Edges {
		name := fmt.Sprintf("%d-%d", from, e.UpTo)
		switch e.UpTo {
		case -1:
			name = fmt.Sprintf("%d+", from)
		case from:
			name = fmt.Sprint(from)
		}
		from = e.UpTo + 1
		if e.Rollouts > 0 {
			fmt.Fprintf(&b, "edges %-6s rollouts %-6d unscored %-6d unjudgeable %d\n", name, e.Rollouts, e.Unscored, e.Unjudgeable)
		}
	}
	return b.String()
}
