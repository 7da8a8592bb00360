// Package sizing computes what a run needs beside its GPUs, from a model's speed and the measured costs of a trajectory.
//
// Invariant: every figure is a formula of named inputs and measured costs; docs/sizing.md shows the same formulas.
package sizing

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Load is what a run asks for.
type Load struct {
	GPUs int
	// TokensPerGPU is what one GPU samples a second with all its calls together, TokensPerCall what one call gets.
	TokensPerGPU, TokensPerCall float64
	// Turns of a trajectory, and the tokens of each: sampled, and of its observation. PromptTokens is the first prompt.
	Turns, TokensPerTurn, ObservationTokens, PromptTokens float64
	// CellTime is the time from a turn's last token to the next call; CellCPU what a cell computes beyond DABench's.
	CellTime, CellCPU time.Duration
	// SessionMiB is what a session holds beyond an empty one: the tables of its task.
	SessionMiB float64
	// JudgeCalls is how often an LLM judge is asked about a trajectory.
	JudgeCalls float64
}

// Defaults is a policy of about 8 billion parameters on DABench's kind of task.
func Defaults() Load {
	return Load{
		TokensPerGPU: 2500, TokensPerCall: 40, Turns: 5, TokensPerTurn: 400, ObservationTokens: 300, PromptTokens: 2000,
		CellTime: 500 * time.Millisecond, CellCPU: 50 * time.Millisecond, SessionMiB: 50, JudgeCalls: 4,
	}
}

// Validate reports every problem at once.
func (l Load) Validate() error {
	var errs []error
	for name, v := range map[string]float64{
		"gpus": float64(l.GPUs), "tokens-per-gpu": l.TokensPerGPU, "tokens-per-call": l.TokensPerCall, "turns": l.Turns, "tokens-per-turn": l.TokensPerTurn,
	} {
		if !(v > 0) || math.IsInf(v, 0) {
			errs = append(errs, fmt.Errorf("--%s: %g, want more than 0", name, v))
		}
	}
	for name, v := range map[string]float64{
		"observation-tokens": l.ObservationTokens, "prompt-tokens": l.PromptTokens, "cell-time": l.CellTime.Seconds(), "cell-cpu": l.CellCPU.Seconds(), "session-mib": l.SessionMiB,
		"judge-calls": l.JudgeCalls,
	} {
		if !(v >= 0) || math.IsInf(v, 0) {
			errs = append(errs, fmt.Errorf("--%s: %g, want 0 or more", name, v))
		}
	}
	return errors.Join(errs...)
}

// Costs are what one trajectory was measured to cost (docs/measured/scale.md).
type Costs struct {
	Worker, Server, NATS time.Duration // CPU; the worker's for each turn
	Session              time.Duration // CPU of a session's start, analysis and end
	WorkerKiB, NATSKiB   float64       // memory for each trajectory in flight
	SessionMiB           float64
	BrokerBytes          float64 // through NATS, in and out, for each sampled token
	CallBytes            float64 // of a policy call and its answer, for each token of the context
	RowBytes             float64 // of a delivered batch, for each token
}

func ms(v float64) time.Duration { return time.Duration(v * float64(time.Millisecond)) }

// Shares of cores and memory that are planned with, so that bursts find room.
const (
	Spare       = 0.6
	SpareMemory = 0.8
)

// Copies is how often what goes through NATS passes the server that leads all streams: once between it and its clients, and what
// comes in, which is a half of it, once more to each of two others.
const Copies = 2

// Limits of one process, as far as they were tried.
const (
	SessionsPerWorker = 1000
	CoresPerServer    = 2
)

// Need is what a load takes.
type Need struct {
	PerSecond     float64       // trajectories that end
	Takes         time.Duration // one trajectory
	InFlight      int           // trajectories, each with a session
	WorkerCores   float64
	WorkerGiB     float64
	Workers       int // by their sessions; more where the hosts are smaller
	ServerCores   float64
	Servers       int // one more stands by
	JudgeCalls    float64
	NATSCores     float64 // of each of three servers
	NATSGiB       float64
	BrokerMBit    float64 // of a NATS server that leads every stream
	PolicyMBit    float64 // between workers and GPUs
	DeliveredMBit float64 // to the trainer
}

// Size computes it.
func (c Costs) Size(l Load) (n Need) {
	sampled := l.Turns * l.TokensPerTurn
	n.PerSecond = float64(l.GPUs) * l.TokensPerGPU / sampled
	turn := l.TokensPerTurn/l.TokensPerCall + l.CellTime.Seconds()
	n.Takes = time.Duration(l.Turns * turn * float64(time.Second))
	n.InFlight = int(math.Ceil(n.PerSecond * n.Takes.Seconds()))
	cores := func(cpu time.Duration) float64 { return n.PerSecond * cpu.Seconds() / Spare }
	perTrajectory := c.Session + time.Duration(l.Turns*float64(c.Worker+l.CellCPU))
	n.WorkerCores = cores(perTrajectory)
	n.WorkerGiB = float64(n.InFlight) * (c.SessionMiB + l.SessionMiB + c.WorkerKiB/1024) / 1024 / SpareMemory
	n.Workers = max(1, int(math.Ceil(float64(n.InFlight)/SessionsPerWorker)))
	n.ServerCores = cores(c.Server)
	n.Servers = int(math.Ceil(n.ServerCores/CoresPerServer)) + 1
	n.JudgeCalls = n.PerSecond * l.JudgeCalls
	n.NATSCores = cores(c.NATS)
	n.NATSGiB = float64(n.InFlight) * c.NATSKiB / (1 << 20)
	mbit := func(bytesPerTrajectory float64) float64 { return n.PerSecond * bytesPerTrajectory * 8 / 1e6 }
	n.BrokerMBit = mbit(sampled * c.BrokerBytes * Copies)
	grows := l.TokensPerTurn + l.ObservationTokens
	contexts := l.Turns*(l.PromptTokens+l.TokensPerTurn) + grows*l.Turns*(l.Turns-1)/2
	n.PolicyMBit = mbit(contexts * c.CallBytes)
	n.DeliveredMBit = mbit((l.PromptTokens + l.Turns*grows) * c.RowBytes)
	return n
}
