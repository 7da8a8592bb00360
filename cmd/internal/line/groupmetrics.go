package line

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/verigraph/verigraph/lease"
	"github.com/verigraph/verigraph/policy/pool"
	"github.com/verigraph/verigraph/rollout"
	"github.com/verigraph/verigraph/sandbox"
	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

var (
	metricSessions  = prometheus.NewDesc("verigraph_sandbox_sessions", "Sessions that live, and starts that wait for a free slot.", []string{"state"}, nil)
	metricStarts    = prometheus.NewDesc("verigraph_sandbox_starts_total", "Starts of sessions by result.", []string{"result"}, nil)
	metricStartTime = prometheus.NewDesc("verigraph_sandbox_start_seconds_total", "Time of starts: in line, and proper.", []string{"part"}, nil)
	metricEvicted   = prometheus.NewDesc("verigraph_sandbox_evicted_total", "Sessions that the watchdog ended because memory was short.", nil, nil)
	metricTier      = prometheus.NewDesc("verigraph_sandbox_tier", "1 for the tier that the self-test measured.", []string{"tier"}, nil)
	metricEndpoints = prometheus.NewDesc("verigraph_policy_endpoints", "Policy endpoints by state.", []string{"state"}, nil)
	metricInFlight  = prometheus.NewDesc("verigraph_policy_calls_in_flight", "Open policy calls.", nil, nil)
	metricLimit     = prometheus.NewDesc("verigraph_policy_calls_limit", "Open policy calls that all endpoints may hold.", nil, nil)
	metricVersion   = prometheus.NewDesc("verigraph_policy_version", "Newest policy version that is known.", nil, nil)
)

// workerMetrics counts what a worker publishes and reads the books of its sandbox and endpoints when /metrics is
// asked. All labels are of closed sets.
type workerMetrics struct {
	box       *sandbox.Sandbox
	endpoints *pool.Pool // nil with a text-only policy

	rollouts, cells, leases *prometheus.CounterVec
	kills                   *prometheus.CounterVec
	phase                   *prometheus.HistogramVec
	tokens, turns           prometheus.Counter
}

var cellStatuses = []trajectory.CellStatus{
	trajectory.CellOK, trajectory.CellSyntaxError, trajectory.CellException, trajectory.CellRefused, trajectory.CellTimeout,
	trajectory.CellMemory, trajectory.CellDied, trajectory.CellExit,
}

var terminations = []trajectory.Termination{
	trajectory.Submitted, trajectory.NoSubmission, trajectory.MaxTurns, trajectory.MaxTokens, trajectory.TurnTruncated, trajectory.ContextFull,
	trajectory.TrajectoryTimeout, trajectory.SandboxLost, trajectory.PolicyUnavailable, trajectory.Canceled, trajectory.Stale,
}

func newWorkerMetrics(box *sandbox.Sandbox, endpoints *pool.Pool) *workerMetrics {
	counter := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	}
	m := &workerMetrics{
		box: box, endpoints: endpoints,
		rollouts: counter("verigraph_rollouts_total", "Published rollouts by termination.", "termination"),
		cells:    counter("verigraph_sandbox_cells_total", "Cells of published rollouts by status.", "status"),
		kills:    counter("verigraph_sandbox_kills_total", "Sessions that ended in a cell, by why.", "reason"),
		leases:   counter("verigraph_worker_groups_total", "Groups that left this worker, by how.", "end"),
		phase: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "verigraph_rollout_phase_seconds", Help: "Time of one published rollout by phase.",
			Buckets: prometheus.ExponentialBuckets(0.1, 3, 10),
		}, []string{"phase"}),
		tokens: prometheus.NewCounter(prometheus.CounterOpts{Name: "verigraph_rollout_sampled_tokens_total", Help: "Sampled tokens of published rollouts."}),
		turns:  prometheus.NewCounter(prometheus.CounterOpts{Name: "verigraph_rollout_turns_total", Help: "Turns of published rollouts."}),
	}
	// A series that is there from the start has a rate from its first event on.
	for _, t := range terminations {
		m.rollouts.WithLabelValues(string(t))
	}
	for _, s := range cellStatuses {
		m.cells.WithLabelValues(string(s))
	}
	for _, end := range []string{"published", "retried", "set_aside", "dropped"} {
		m.leases.WithLabelValues(end)
	}
	for _, reason := range killReasons {
		m.kills.WithLabelValues(reason)
	}
	for _, phase := range []string{"queue", "generate", "tool"} {
		m.phase.WithLabelValues(phase)
	}
	return m
}

func (m *workerMetrics) published(g trajectory.Group) {
	for i := range g.Trajectories {
		t := &g.Trajectories[i]
		m.rollouts.WithLabelValues(string(t.Termination)).Inc()
		for phase, s := range map[string]float64{"queue": t.Timing.QueueS, "generate": t.Timing.GenerateS, "tool": t.Timing.ToolS} {
			m.phase.WithLabelValues(phase).Observe(s)
		}
		for _, turn := range t.Turns {
			m.tokens.Add(float64(turn.SampledIDs))
			m.turns.Inc()
			if turn.Status != "" {
				m.cells.WithLabelValues(string(turn.Status)).Inc()
			}
		}
	}
}

func (m *workerMetrics) parts() []prometheus.Collector {
	return []prometheus.Collector{m.rollouts, m.cells, m.kills, m.leases, m.phase, m.tokens, m.turns}
}

// Describe implements prometheus.Collector.
func (m *workerMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range m.parts() {
		c.Describe(ch)
	}
	for _, d := range []*prometheus.Desc{metricSessions, metricStarts, metricStartTime, metricEvicted, metricTier, metricEndpoints, metricInFlight, metricLimit, metricVersion} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *workerMetrics) Collect(ch chan<- prometheus.Metric) {
	for _, c := range m.parts() {
		c.Collect(ch)
	}
	send := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, kind, v, labels...)
	}
	st := m.box.Stats()
	send(metricSessions, prometheus.GaugeValue, float64(st.Live), "live")
	send(metricSessions, prometheus.GaugeValue, float64(st.Waiting), "waiting")
	send(metricStarts, prometheus.CounterValue, float64(st.Started), "started")
	send(metricStarts, prometheus.CounterValue, float64(st.Failed), "failed")
	send(metricStartTime, prometheus.CounterValue, st.WaitTime.Seconds(), "line")
	send(metricStartTime, prometheus.CounterValue, st.StartTime.Seconds(), "start")
	send(metricEvicted, prometheus.CounterValue, float64(st.Evicted))
	for _, t := range []sandbox.Tier{sandbox.TierStrict, sandbox.TierGVisor, sandbox.TierConfined, sandbox.TierNone} {
		send(metricTier, prometheus.GaugeValue, one(t == st.Tier), string(t))
	}
	if m.endpoints == nil {
		return
	}
	var usable, out, calls, limit int
	for _, e := range m.endpoints.Status() {
		calls, limit = calls+e.InFlight, limit+e.Limit
		if e.Usable {
			usable++
		} else {
			out++
		}
	}
	send(metricEndpoints, prometheus.GaugeValue, float64(usable), "usable")
	send(metricEndpoints, prometheus.GaugeValue, float64(out), "out")
	send(metricInFlight, prometheus.GaugeValue, float64(calls))
	send(metricLimit, prometheus.GaugeValue, float64(limit))
	send(metricVersion, prometheus.GaugeValue, float64(m.endpoints.Version()))
}

// register makes the metrics of this process's first worker visible; others, as in tests, keep theirs to themselves.
func register(c prometheus.Collector) (unregister func() error) {
	if prometheus.Register(c) != nil {
		return func() error { return nil }
	}
	return func() error { prometheus.Unregister(c); return nil }
}

// countedGroups counts how leases on groups end.
type countedGroups struct {
	rollout.Source
	m *workerMetrics
}

func (c countedGroups) Receive(ctx context.Context) (lease.Lease[task.Dispatch, trajectory.Group], error) {
	l, err := c.Source.Receive(ctx)
	if err != nil {
		return nil, err
	}
	return countedLease{l, c.m}, nil
}

type countedLease struct {
	lease.Lease[task.Dispatch, trajectory.Group]
	m *workerMetrics
}

func (l countedLease) Finish(ctx context.Context, g trajectory.Group) error {
	if err := l.Lease.Finish(ctx, g); err != nil {
		return err
	}
	l.m.leases.WithLabelValues("published").Inc()
	l.m.published(g)
	return nil
}

func (l countedLease) Retry(after time.Duration) error {
	l.m.leases.WithLabelValues("retried").Inc()
	return l.Lease.Retry(after)
}

func (l countedLease) SetAside(ctx context.Context, reason string) error {
	l.m.leases.WithLabelValues("set_aside").Inc()
	return l.Lease.SetAside(ctx, reason)
}

func (l countedLease) Drop() {
	l.m.leases.WithLabelValues("dropped").Inc()
	l.Lease.Drop()
}
