package replay_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/verigraph/verigraph/rollout/replay"
	"github.com/verigraph/verigraph/rollout/rollouttest"
)

func benchmarkReplay(b *testing.B, sensitivity bool) {
	path := filepath.Join(b.TempDir(), "t")
	if err := os.WriteFile(path, []byte(fares), 0o644); err != nil {
		b.Fatal(err)
	}
	p := rollouttest.Play{Question: question, Files: map[string]string{"fares.csv": path}, Cells: []string{
		read + "a = bind('Mean fare {m:.2f}', m=statistics.mean(fares))\nsubmit_answer(a)",
	}}
	out, err := stage.Run(b.Context(), p)
	if err != nil {
		b.Fatal(err)
	}
	r := &replay.Replayer{Sandbox: stage.Sandbox, Sensitivity: sensitivity}
	for b.Loop() {
		if _, err := r.Replay(b.Context(), &out.Trajectory.Graph, question, p.Spec()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReplay(b *testing.B)                { benchmarkReplay(b, false) }
func BenchmarkReplayWithSensitivity(b *testing.B) { benchmarkReplay(b, true) }
