package sizing

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Numbers that can be worked out in the head.
func TestSizeIsWhatTheFormulasSay(t *testing.T) {
	t.Parallel()
	load := Load{
		GPUs: 10, TokensPerGPU: 1000, TokensPerCall: 50, Turns: 4, TokensPerTurn: 250, ObservationTokens: 50, PromptTokens: 100,
		CellTime: time.Second, CellCPU: 90 * time.Millisecond, SessionMiB: 61, JudgeCalls: 3,
	}
	costs := Costs{
		Worker: 10 * time.Millisecond, Session: 200 * time.Millisecond, Server: 60 * time.Millisecond, NATS: 6 * time.Millisecond,
		WorkerKiB: 1024, NATSKiB: 512, SessionMiB: 2, BrokerBytes: 100, CallBytes: 10, RowBytes: 4,
	}
	n := costs.Size(load)
	require.InDelta(t, 10, n.PerSecond, 1e-9, "10,000 tokens a second, 1,000 each")
	require.Equal(t, 24*time.Second, n.Takes, "4 turns of 5 s and 1 s")
	require.Equal(t, 240, n.InFlight)
	require.InDelta(t, 10*0.6/0.6, n.WorkerCores, 1e-9, "200 ms and 4 times 100 ms")
	require.InDelta(t, 240*64.0/1024/0.8, n.WorkerGiB, 1e-9)
	require.Equal(t, 1, n.Workers)
	require.InDelta(t, 1, n.ServerCores, 1e-9)
	require.Equal(t, 2, n.Servers, "one stands by")
	require.InDelta(t, 30, n.JudgeCalls, 1e-9)
	require.InDelta(t, 0.1, n.NATSCores, 1e-9)
	require.InDelta(t, 240*0.5/1024, n.NATSGiB, 1e-9)
	// Of 100 bytes 50 come in and 50 go out, and 50 go to each of two copies.
	require.InDelta(t, 10*1000*(100+2*50)*8/1e6, n.BrokerMBit, 1e-9)
	// Contexts with their answers: 350, 650, 950, 1250.
	require.InDelta(t, 10*3200*10*8/1e6, n.PolicyMBit, 1e-9)
	require.InDelta(t, 10*1300*4*8/1e6, n.DeliveredMBit, 1e-9)
}

func TestLoadThatCannotBeIsRefused(t *testing.T) {
	t.Parallel()
	require.NoError(t, func() error { l := Defaults(); l.GPUs = 1; return l.Validate() }())
	l := Defaults()
	l.TokensPerCall, l.SessionMiB = 0, -1
	err := l.Validate()
	require.ErrorContains(t, err, "--gpus: 0, want more than 0")
	require.ErrorContains(t, err, "--tokens-per-call: 0, want more than 0")
	require.ErrorContains(t, err, "--session-mib: -1, want 0 or more")
}
