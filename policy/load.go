package policy

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
)

// Load is what an endpoint says about its engine, summed over its ranks (KVUsage: the highest).
type Load struct {
	// Running and Waiting are requests; KVUsage is in [0,1]; Preemptions counts since the start.
	Running, Waiting, KVUsage, Preemptions float64
}

var errNoLoad = errors.New("the metrics hold neither vLLM's nor SGLang's gauges")

// Load reads GET /metrics.
func (c *Client) Load(ctx context.Context) (Load, error) {
	var out Load
	err := c.exchange(ctx, Call{Kind: "metrics"}, 0, http.MethodGet, "/metrics", nil, func(data []byte, _ *CallResult) (err error) {
		out, err = parseLoad(data)
		return err
	})
	return out, err
}

// Health asks whether the engine is alive (GET /health).
func (c *Client) Health(ctx context.Context) error {
	return c.exchange(ctx, Call{Kind: "health"}, 0, http.MethodGet, "/health", nil, func([]byte, *CallResult) error { return nil })
}

// parseLoad reads the few gauges that matter from the text form of Prometheus.
func parseLoad(data []byte) (Load, error) {
	var out Load
	found := false
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		cut := strings.IndexAny(line, "{ ")
		if cut < 0 || line[0] == '#' {
			continue
		}
		fields := strings.Fields(line[strings.LastIndexByte(line, '}')+1:])
		if line[cut] == ' ' {
			fields = strings.Fields(line[cut:])
		}
		if len(fields) == 0 {
			continue
		}
		v, err := strconv.ParseFloat(fields[0], 64)
		if err != nil {
			continue
		}
		known := true
		switch line[:cut] {
		case "vllm:num_requests_running", "sglang:num_running_reqs":
			out.Running += v
		case "vllm:num_requests_waiting", "sglang:num_queue_reqs":
			out.Waiting += v
		case "vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "sglang:token_usage":
			out.KVUsage = max(out.KVUsage, v)
		case "vllm:num_preemptions_total", "vllm:num_preemptions", "sglang:num_retracted_reqs":
			out.Preemptions += v
		default:
			known = false
		}
		found = found || known
	}
	if !found {
		return Load{}, errNoLoad
	}
	return out, nil
}
