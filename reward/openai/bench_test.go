package openai

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/verigraph/verigraph/reward"
)

// BenchmarkConcurrencyLimitStaysFull asks for verdicts of a judge with 500 ms latency from many rollouts
// at once. "full" is the mean number of calls in flight over the limit, from the first answer to the
// start of the last calls; "ideal" is the shortest possible time over the time taken.
func BenchmarkConcurrencyLimitStaysFull(b *testing.B) {
	const limit, rounds, latency = 32, 6, 500 * time.Millisecond
	var flying, most atomic.Int64
	var mu sync.Mutex
	var area float64 // calls in flight, integrated over time
	last, level := time.Now(), 0
	step := func(d int) {
		mu.Lock()
		defer mu.Unlock()
		now := time.Now()
		area += float64(level) * now.Sub(last).Seconds()
		last, level = now, level+d
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		step(1)
		n := flying.Add(1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
			continue
		}
		timer := time.NewTimer(latency)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
		}
		flying.Add(-1)
		step(-1)
		say(w, `{"reasoning": "r", "verdict": "entailed"}`, "stop")
	}))
	defer srv.Close()
	cfg := Defaults()
	cfg.BaseURL, cfg.Model, cfg.Concurrency = srv.URL+"/v1", "m", limit
	j, err := New(cfg)
	if err != nil {
		b.Fatal(err)
	}
	var full, ideal float64
	runs := 0
	for b.Loop() {
		start := time.Now()
		mu.Lock()
		area, last = 0, start
		mu.Unlock()
		var wg sync.WaitGroup
		for i := range limit * rounds {
			wg.Go(func() {
				if _, err := j.Entails(b.Context(), reward.Step{Conclusion: fmt.Sprint(i)}); err != nil {
					b.Error(err)
				}
			})
		}
		wg.Wait()
		took := time.Since(start)
		mu.Lock()
		full += area / (took.Seconds() * limit)
		mu.Unlock()
		ideal += (rounds * latency).Seconds() / took.Seconds()
		runs++
	}
	if most.Load() > limit {
		b.Errorf("%d calls in flight, the limit is %d", most.Load(), limit)
	}
	b.ReportMetric(full/float64(runs), "full")
	b.ReportMetric(ideal/float64(runs), "ideal")
	b.ReportMetric(limit/latency.Seconds()*ideal/float64(runs), "verdicts/s")
}
