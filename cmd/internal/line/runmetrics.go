package line

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/verigraph/verigraph/jetstream"
)

var (
	metricLeading     = prometheus.NewDesc("verigraph_leader_leading", "1 while this process leads the run.", nil, nil)
	metricLedger      = prometheus.NewDesc("verigraph_ledger_rollouts", "Rollouts of the run by where they are; the leader states it.", []string{"state"}, nil)
	metricUnaccounted = prometheus.NewDesc("verigraph_ledger_unaccounted", "Rollouts that the ledger cannot explain.", nil, nil)
	metricBatches     = prometheus.NewDesc("verigraph_batches", "Batches of the run by what became of them.", []string{"state"}, nil)
	metricAges        = prometheus.NewDesc("verigraph_batch_age_versions", "Training batches by age in policy versions.", nil, nil)
	metricBacklog     = prometheus.NewDesc("verigraph_backlog_prompts", "Prompts that are not dispatched yet.", nil, nil)
	metricTrainer     = prometheus.NewDesc("verigraph_trainer_policy_version", "Policy version that the trainer stated last.", nil, nil)
	metricPolicyStop  = prometheus.NewDesc("verigraph_trainer_paused", "1 while the trainer pauses the policy.", nil, nil)
	metricRate        = prometheus.NewDesc("verigraph_delivered_rollouts_per_second", "Delivered rollouts per second, of late.", nil, nil)
	metricQueue       = prometheus.NewDesc("verigraph_queue_groups", "Groups in a stage's queue: waiting, or held by its takers.", []string{"stage", "state"}, nil)
	metricReadErrors  = prometheus.NewDesc("verigraph_metrics_unreadable", "1 where this scrape could not read a part of the run.", []string{"part"}, nil)
)

// readTime bounds what one scrape may ask the broker.
const readTime = 3 * time.Second

// ageBuckets are policy versions.
var ageBuckets = []float64{0, 1, 2, 3, 4, 8, 16}

// runMetrics reads the leader's books and the queues when /metrics is asked. What cannot be read is left out and said,
// never stated as 0.
type runMetrics struct{ s *RewardServer }

// Describe implements prometheus.Collector.
func (m runMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		metricLeading, metricLedger, metricUnaccounted, metricBatches, metricAges, metricBacklog, metricTrainer, metricPolicyStop, metricRate, metricQueue, metricReadErrors,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m runMetrics) Collect(ch chan<- prometheus.Metric) {
	// A collector is handed no context: the bound is its own.
	ctx, cancel := context.WithTimeout(context.Background(), readTime)
	defer cancel()
	ledger := m.collectLedger(ctx, ch)
	queues := m.collectQueues(ctx, ch)
	gauge(ch, metricReadErrors, one(ledger != nil), "ledger")
	gauge(ch, metricReadErrors, one(queues != nil), "queues")
}

func gauge(ch chan<- prometheus.Metric, d *prometheus.Desc, v float64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

func (m runMetrics) collectLedger(ctx context.Context, ch chan<- prometheus.Metric) error {
	cur := m.s.lead.current()
	gauge(ch, metricLeading, one(cur != nil))
	if cur == nil {
		return nil // the leader states it
	}
	st, err := m.s.status(ctx, cur)
	if err != nil {
		return err
	}
	l := st.Ledger
	for state, n := range map[string]int64{
		"dispatched": l.Dispatched, "delivered": l.Delivered, "filtered": l.Filtered, "stale": l.Stale, "unscored": l.Unscored,
		"failed": l.Failed, "set_aside": l.SetAside, "in_flight": l.InFlight,
	} {
		gauge(ch, metricLedger, float64(n), state)
	}
	for state, n := range map[string]int64{
		"written": st.BatchesWritten, "acknowledged": st.BatchesAcknowledged, "committed": st.BatchesCommitted, "dropped": st.BatchesDropped,
	} {
		gauge(ch, metricBatches, float64(n), state)
	}
	gauge(ch, metricUnaccounted, float64(st.Unaccounted))
	gauge(ch, metricBacklog, float64(st.Backlog))
	gauge(ch, metricTrainer, float64(st.Policy.Version))
	gauge(ch, metricPolicyStop, one(st.Policy.Paused))
	gauge(ch, metricRate, st.DeliveredPerSecond)
	ch <- ages(st.Ages)
	return nil
}

// ages is a histogram of counts by age.
func ages(counts map[int64]int64) prometheus.Metric {
	var n uint64
	var sum float64
	buckets := map[float64]uint64{}
	for _, b := range ageBuckets {
		buckets[b] = 0
	}
	for age, c := range counts {
		n += uint64(c)
		sum += float64(age * c)
		for _, b := range ageBuckets {
			if float64(age) <= b {
				buckets[b] += uint64(c)
			}
		}
	}
	return prometheus.MustNewConstHistogram(metricAges, n, sum, buckets)
}

func (m runMetrics) collectQueues(ctx context.Context, ch chan<- prometheus.Metric) error {
	for stage, stream := range map[string]string{"prompts": jetstream.Prompts, "trajectories": jetstream.Trajectories, "scored": jetstream.Scored} {
		waiting, held, err := m.s.bus.Lag(ctx, stream, m.s.run)
		if err != nil {
			return err
		}
		gauge(ch, metricQueue, float64(waiting), stage, "waiting")
		gauge(ch, metricQueue, float64(held), stage, "held")
	}
	return nil
}
