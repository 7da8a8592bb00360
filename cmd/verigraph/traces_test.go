package main

import (
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	common "go.opentelemetry.io/proto/otlp/common/v1"

	"github.com/verigraph/verigraph/cmd/internal/tracing/tracingtest"
	"github.com/verigraph/verigraph/dataset"
)

// span is one that a collector received.
type span struct {
	name, id, parent, service string
	attributes                map[string]string
	links                     int
}

func text(list []*common.KeyValue) map[string]string {
	out := map[string]string{}
	for _, kv := range list {
		switch v := kv.GetValue().GetValue().(type) {
		case *common.AnyValue_StringValue:
			out[kv.GetKey()] = v.StringValue
		default:
			out[kv.GetKey()] = fmt.Sprint(kv.GetValue().GetIntValue())
		}
	}
	return out
}

// byTrace are the spans that a collector received, by trace id, and a channel that closes when there are more.
func byTrace(c *tracingtest.Collector) (map[string][]span, <-chan struct{}) {
	received, grew := c.Received()
	all := map[string][]span{}
	for _, r := range received {
		service := text(r.GetResource().GetAttributes())["service.name"]
		for _, scope := range r.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				trace := hex.EncodeToString(s.GetTraceId())
				all[trace] = append(all[trace], span{
					s.GetName(), hex.EncodeToString(s.GetSpanId()), hex.EncodeToString(s.GetParentSpanId()), service, text(s.GetAttributes()), len(s.GetLinks()),
				})
			}
		}
	}
	return all, grew
}

// awaitTraces returns the spans by trace once nothing is wrong with them.
func awaitTraces(t *testing.T, c *tracingtest.Collector, wrong func(map[string][]span) string) map[string][]span {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		all, grew := byTrace(c)
		problem := wrong(all)
		if problem == "" {
			return all
		}
		select {
		case <-grew:
		case <-ctx.Done():
			t.Fatalf("%s\n%+v", problem, all)
		}
	}
}

// checkRequestTraces says that the trace of each of the groups of requests ends with the delivery of its rows.
func checkRequestTraces(t *testing.T, c *tracingtest.Collector, groups int) {
	t.Helper()
	awaitTraces(t, c, func(all map[string][]span) string {
		found := 0
		for trace, spans := range all {
			delivered, byID := 0, map[string]span{}
			for _, s := range spans {
				byID[s.id] = s
			}
			for _, s := range spans {
				if parent := byID[s.parent]; s.name == "delivery" && strings.HasPrefix(parent.attributes["verigraph.dispatch"], "request") {
					if parent.name != "dispatch" || s.attributes["verigraph.bytes"] == "0" {
						return fmt.Sprintf("trace %s: a delivery of %s bytes below %q", trace, s.attributes["verigraph.bytes"], parent.name)
					}
					delivered++
				}
			}
			if delivered > 1 {
				return "a group that was delivered twice"
			}
			found += delivered
		}
		if found < groups { // one may be asked for again
			return fmt.Sprintf("%d groups of requests were delivered, want %d", found, groups)
		}
		return ""
	})
}

// Below which span each one stands, and which program makes it.
var spanParents = map[string]string{
	"prompt": "", "dispatch": "prompt", "rollout": "dispatch", "turn": "rollout", "policy call": "turn", "session start": "turn",
	"cell": "turn", "score": "dispatch", "judge call": "score", "batch": "dispatch", "delivery": "dispatch", "ack": "dispatch",
}

var spanMakers = map[string]string{
	"prompt": "verigraph", "dispatch": "reward-server", "rollout": "rollout-worker", "turn": "rollout-worker", "policy call": "rollout-worker",
	"session start": "rollout-worker", "cell": "rollout-worker", "score": "reward-server", "judge call": "reward-server", "batch": "reward-server",
	"delivery": "reward-server", "ack": "reward-server",
}

var spanAttributes = []string{
	"verigraph.attempt", "verigraph.batch", "verigraph.bytes", "verigraph.dispatch", "verigraph.finish_reason", "verigraph.judge", "verigraph.offset",
	"verigraph.request_id", "verigraph.rollout_id", "verigraph.run", "verigraph.status", "verigraph.termination", "verigraph.tokens", "verigraph.turn",
	"verigraph.verdict",
}

// checkTraces compares the traces of a run with the rows of its batches: one trace a group, whole from the prompt to the
// trainer's acknowledgement.
func checkTraces(t *testing.T, c *tracingtest.Collector, rows []dataset.Row) {
	t.Helper()
	groups := map[string][]dataset.Row{}
	for _, r := range rows {
		require.NotNil(t, r.TraceID, r.RolloutID)
		groups[*r.TraceID] = append(groups[*r.TraceID], r)
	}
	judged := 0
	for trace, rows := range groups {
		for _, r := range rows {
			require.Equal(t, rows[0].UID, r.UID, "one trace a group")
		}
		got := awaitTraces(t, c, func(all map[string][]span) string { return problemOf(all[trace], rows) })[trace]
		for _, s := range got {
			require.Equal(t, spanMakers[s.name], s.service, s.name)
			require.Subset(t, spanAttributes, slices.Collect(maps.Keys(s.attributes)), s.name)
			for key, v := range s.attributes {
				require.Less(t, len(v), 100, key)
			}
			if s.name == "judge call" {
				judged++
				require.Contains(t, []string{"entailed", "not_entailed", "abstained"}, s.attributes["verigraph.verdict"])
			}
		}
	}
	require.Positive(t, judged)
}

func problemOf(all []span, rows []dataset.Row) string {
	byID, count := map[string]span{}, map[string]int{}
	for _, s := range all {
		byID[s.id] = s
		count[s.name]++
	}
	for _, s := range all {
		parent, known := spanParents[s.name]
		if !known || byID[s.parent].name != parent {
			return fmt.Sprintf("a span %q below %q", s.name, byID[s.parent].name)
		}
	}
	n := len(rows)
	var turns, calls int
	ended := map[string]string{}
	for _, r := range rows {
		turns, calls = turns+int(r.NumTurns), calls+int(r.ToolCalls)
		ended[r.RolloutID] = r.TerminationReason
	}
	for name, want := range map[string]int{
		"prompt": 1, "dispatch": 1, "rollout": n, "turn": turns, "policy call": turns, "session start": n, "cell": calls, "score": n, "batch": 1, "delivery": 1, "ack": 1,
	} {
		if count[name] != want {
			return fmt.Sprintf("%d spans %q, want %d", count[name], name, want)
		}
	}
	for _, s := range all {
		if id := s.attributes["verigraph.rollout_id"]; s.name == "rollout" && ended[id] != s.attributes["verigraph.termination"] {
			return fmt.Sprintf("rollout %q ended as %q", id, s.attributes["verigraph.termination"])
		}
	}
	return ""
}

// traced appends a section to a configuration.
func traced(t *testing.T, config, endpoint, ratio string) string {
	t.Helper()
	data, err := os.ReadFile(config)
	require.NoError(t, err)
	require.NotContains(t, string(data), "telemetry:")
	return write(t, "traced.yaml", strings.TrimRight(string(data), "\n")+"\ntelemetry:\n  traces: {endpoint: \""+endpoint+"\", sample_ratio: "+ratio+"}\n")
}
