package leader

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/task"
)

// BenchmarkBooks is what a leader does with its logs after it has read them, and what it holds of each group from then
// on. Everything was trained on and committed.
func BenchmarkBooks(b *testing.B) {
	const groups, perBatch = 50_000, 64
	var events []Event
	var batches []BatchRecord
	for i := range groups {
		id := fmt.Sprintf("dabench-%d-0", i)
		events = append(events, Event{
			Kind: Admitted, Dispatch: id, PromptID: id[:len(id)-2], Rollouts: 8,
			Body: &task.Dispatch{ID: id, Run: "run", GroupSize: 8, Prompt: task.Prompt{ID: id[:len(id)-2], Question: strings.Repeat("q", 400)}},
		})
		if i%perBatch == 0 {
			batches = append(batches, BatchRecord{Sequence: int64(len(batches)) + 1})
		}
		last := &batches[len(batches)-1]
		last.Groups = append(last.Groups, BatchGroup{Dispatch: id, Outcomes: Outcomes{Delivered: 8}, Tokens: 2000})
	}
	events = append(events, Event{Kind: Committed, UpTo: int64(len(batches)), Sequence: int64(len(batches)) + 1})
	ledger, log := encoded(b, events), encoded(b, batches)
	events, batches = nil, nil
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var held *books
	for b.Loop() {
		held = NewHistory(decoded[Event](b, ledger), decoded[BatchRecord](b, log)).end()
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/groups, "us/group") // of it most is JSON
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/groups, "B/group")
	require.Len(b, held.order, groups)
	runtime.KeepAlive(ledger)
}

func encoded[T any](b *testing.B, of []T) (out [][]byte) {
	b.Helper()
	for _, v := range of {
		data, err := json.Marshal(v)
		require.NoError(b, err)
		out = append(out, data)
	}
	return out
}

func decoded[T any](b *testing.B, of [][]byte) []T {
	b.Helper()
	out := make([]T, len(of))
	for i, data := range of {
		require.NoError(b, json.Unmarshal(data, &out[i]))
	}
	return out
}
