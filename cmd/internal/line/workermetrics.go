package line

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/verigraph/verigraph/rollout"
)

var (
	metricKept      = prometheus.NewDesc("verigraph_rollout_kept_total", "Finished rollouts of another worker that were kept.", nil, nil)
	metricContinued = prometheus.NewDesc("verigraph_rollout_continued_total", "Rollouts that went on from their recorded turns.", nil, nil)
	metricRestarted = prometheus.NewDesc("verigraph_rollout_restarted_total", "Rollouts whose recorded turns were given up.", []string{"reason"}, nil)
)

// resumedMetrics reads what came of journals when /metrics is asked.
type resumedMetrics struct{ r *rollout.Resumed }

func (m resumedMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{metricKept, metricContinued, metricRestarted} {
		ch <- d
	}
}

func (m resumedMetrics) Collect(ch chan<- prometheus.Metric) {
	counter := func(d *prometheus.Desc, v int64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	counter(metricKept, m.r.Kept.Load())
	counter(metricContinued, m.r.Continued.Load())
	for why, n := range m.r.Restarts() {
		counter(metricRestarted, n, string(why))
	}
}
