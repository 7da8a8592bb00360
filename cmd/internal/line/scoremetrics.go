package line

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/verigraph/verigraph/trajectory"
)

var (
	metricRollouts = prometheus.NewDesc("verigraph_reward_rollouts_total", "Scored rollouts by status.", []string{"status"}, nil)
	metricEdges    = prometheus.NewDesc("verigraph_reward_edges_rollouts_total", "Rollouts that came to the judge, by number of derive edges and status.", []string{"up_to", "status"}, nil)
	metricUnscored = prometheus.NewDesc("verigraph_reward_unscored_ratio", "Share of judged rollouts without a reward.", nil, nil)
	metricVerdicts = prometheus.NewDesc("verigraph_reward_verdicts_total", "Verdicts by kind.", []string{"kind"}, nil)
	metricCached   = prometheus.NewDesc("verigraph_reward_verdicts_cached_total", "Verdicts that came from the cache.", nil, nil)
	metricFaults   = prometheus.NewDesc("verigraph_reward_verdict_store_faults_total", "Failures of the verdict store.", nil, nil)
	metricPaused   = prometheus.NewDesc("verigraph_reward_paused", "1 while the judge's canaries fail.", nil, nil)
	metricCalls    = prometheus.NewDesc("verigraph_judge_calls_total", "Calls of a judge by outcome.", []string{"model", "outcome"}, nil)
	metricTokens   = prometheus.NewDesc("verigraph_judge_tokens_total", "Tokens spent on a judge.", []string{"model", "kind"}, nil)
	metricBreaker  = prometheus.NewDesc("verigraph_judge_breaker_open", "1 while calls are held back.", []string{"model"}, nil)
)

// scoringMetrics reads a Scoring's books when /metrics is asked.
type scoringMetrics struct{ s *Scoring }

func (m scoringMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		metricRollouts, metricEdges, metricUnscored, metricVerdicts, metricCached, metricFaults, metricPaused, metricCalls, metricTokens, metricBreaker,
	} {
		ch <- d
	}
	m.s.seconds.Describe(ch)
}

func (m scoringMetrics) Collect(ch chan<- prometheus.Metric) {
	counter := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	m.s.seconds.Collect(ch)
	b := m.s.Book.Snapshot()
	for _, status := range []trajectory.ScoreStatus{trajectory.ScoreOK, trajectory.ScoreUnscored, trajectory.ScoreUnjudgeable, trajectory.ScoreLost} {
		counter(metricRollouts, float64(b.Status[status]), string(status))
	}
	for _, e := range b.Edges {
		upTo := strconv.Itoa(e.UpTo)
		if e.UpTo < 0 {
			upTo = "inf"
		}
		counter(metricEdges, float64(e.Rollouts-e.Unscored-e.Unjudgeable), upTo, "ok")
		counter(metricEdges, float64(e.Unscored), upTo, "unscored")
		counter(metricEdges, float64(e.Unjudgeable), upTo, "unjudgeable")
	}
	gauge(metricUnscored, b.UnscoredShare())
	for _, kind := range []trajectory.VerdictKind{trajectory.Entailed, trajectory.NotEntailed, trajectory.Abstained, trajectory.NoVerdict} {
		counter(metricVerdicts, float64(b.Verdicts[kind]), string(kind))
	}
	counter(metricCached, float64(b.Cached))
	counter(metricFaults, float64(m.s.cache.StoreFaults()))
	gauge(metricPaused, one(m.s.Guard != nil && m.s.Guard.State().Paused)) // rules have no canaries
	seen := map[string]bool{}
	for _, j := range m.s.judges {
		if seen[j.Name()] {
			continue // one model may judge from several addresses
		}
		seen[j.Name()] = true
		u := j.Usage()
		counter(metricCalls, float64(u.Calls-u.FailedCalls-u.UnreadReplies), j.Name(), "verdict")
		counter(metricCalls, float64(u.FailedCalls), j.Name(), "failed")
		counter(metricCalls, float64(u.UnreadReplies), j.Name(), "unread")
		counter(metricTokens, float64(u.PromptTokens), j.Name(), "prompt")
		counter(metricTokens, float64(u.CompletionTokens), j.Name(), "completion")
		open, _ := j.Breaker()
		gauge(metricBreaker, one(open), j.Name())
	}
}

func one(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
