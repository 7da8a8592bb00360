package line

import (
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/blob"
	"github.com/verigraph/verigraph/jetstream"
	"github.com/verigraph/verigraph/rollout"
	"github.com/verigraph/verigraph/task"
)

// BenchmarkTurnJournal is what one turn of 300 ids and an observation of 1,000 characters costs with the
// journal on: two entries, each durable before the next step. Off costs nothing: there is no call.
func BenchmarkTurnJournal(b *testing.B) {
	dir := b.TempDir()
	server, err := jetstream.StartServer(jetstream.ServerConfig{Dir: filepath.Join(dir, "nats"), Listen: true})
	require.NoError(b, err)
	defer server.Stop()
	store, err := blob.OpenDir(dir)
	require.NoError(b, err)
	defer store.Close()
	nc, err := jetstream.Dial(server.URL(), "", "bench")
	require.NoError(b, err)
	bus, err := jetstream.New(b.Context(), nc, store, jetstream.Defaults())
	require.NoError(b, err)
	defer bus.Close()
	d := task.Dispatch{ID: "p-0", Run: "bench", GroupSize: 1}
	require.NoError(b, bus.PublishOnce(b.Context(), jetstream.Prompts, "bench", d.ID, d))
	r, _, err := journals{bus}.Open(b.Context(), task.RolloutID{Run: "bench", Dispatch: d.ID})
	require.NoError(b, err)
	random := rand.New(rand.NewPCG(1, 2))
	answer := rollout.Answer{Context: "00", Finish: "stop"}
	for range 300 {
		answer.IDs = append(answer.IDs, random.Int32N(150_000))
		answer.LogProbs = append(answer.LogProbs, -random.Float32())
	}
	text := make([]byte, 1000)
	for i := range text {
		text[i] = byte('a' + random.IntN(26))
	}
	observed := rollout.Observed{Text: string(text), Status: "ok"}
	for b.Loop() {
		if err := r.Append(b.Context(), rollout.Entry{Sampled: &answer}); err != nil {
			b.Fatal(err)
		}
		if err := r.Append(b.Context(), rollout.Entry{Observed: &observed}); err != nil {
			b.Fatal(err)
		}
	}
}
