package tracing_test

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/verigraph/verigraph/cmd/internal/config"
	"github.com/verigraph/verigraph/cmd/internal/tracing"
	"github.com/verigraph/verigraph/cmd/internal/tracing/tracingtest"
	"github.com/verigraph/verigraph/task"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// spans are what a collector received, and all of its text.
func spans(c *tracingtest.Collector) (all []*otlp.Span, text string) {
	received, _ := c.Received()
	for _, rs := range received {
		text += rs.String()
		for _, s := range rs.GetScopeSpans() {
			all = append(all, s.GetSpans()...)
		}
	}
	return all, text
}

func open(t *testing.T, cfg config.Traces) *tracing.Tracer {
	t.Helper()
	tracer, err := tracing.Open(t.Context(), cfg, "reward-server", "first", zap.NewNop())
	require.NoError(t, err)
	return tracer
}

func TestNothingIsTracedUnlessAskedFor(t *testing.T) {
	require.Nil(t, open(t, config.Defaults().Telemetry.Traces))
	_, endpoint := tracingtest.Start(t)
	t.Setenv("OTEL_SDK_DISABLED", "true")
	require.Nil(t, open(t, config.Traces{Endpoint: endpoint, SampleRatio: 1}))
}

func TestTheEnvironmentWinsOverTheConfiguration(t *testing.T) {
	got, endpoint := tracingtest.Start(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
	t.Setenv("OTEL_SERVICE_NAME", "mine")
	tracer := open(t, config.Traces{Endpoint: "http://192.0.2.1:4317", SampleRatio: 1})
	_, span := tracer.Start(t.Context(), tracing.SpanCell)
	span.End()
	require.NoError(t, tracer.Close())
	all, text := spans(got)
	require.Len(t, all, 1)
	require.Contains(t, text, "mine")
}

func TestAnErrorsTextIsNotInItsSpan(t *testing.T) {
	t.Parallel()
	got, endpoint := tracingtest.Start(t)
	tracer := open(t, config.Traces{Endpoint: endpoint, SampleRatio: 1})
	_, span := tracer.Start(t.Context(), tracing.SpanPolicy)
	tracing.End(span, errors.New("secret-key-1 was refused"))
	require.NoError(t, tracer.Close())
	all, text := spans(got)
	require.Equal(t, otlp.Status_STATUS_CODE_ERROR, all[0].GetStatus().GetCode())
	require.NotContains(t, text, "secret")
}

// What one process decided about a trace holds in all others, and the row names no trace that nobody keeps.
func TestATraceIsSampledOnceForAllProcesses(t *testing.T) {
	t.Parallel()
	first, begins := tracingtest.Start(t)
	second, goesOn := tracingtest.Start(t)
	one, other := open(t, config.Traces{Endpoint: begins, SampleRatio: 0}), open(t, config.Traces{Endpoint: goesOn, SampleRatio: 1})
	ctx, root := one.Root(t.Context(), tracing.SpanPrompt)
	parent := tracing.Parent(ctx)
	root.End()
	id, sampled := task.TraceID(parent)
	require.Equal(t, root.SpanContext().TraceID().String(), id)
	require.False(t, sampled)
	_, child := other.Start(tracing.Remote(t.Context(), parent), tracing.SpanRollout)
	child.End()
	other.Below(t.Context(), parent, tracing.SpanAck, time.Now())
	require.NoError(t, errors.Join(one.Close(), other.Close()))
	for _, r := range []*tracingtest.Collector{first, second} {
		all, _ := spans(r)
		require.Empty(t, all)
	}
}

func TestTheTrainersOwnTraceIsLinkedAndNotJoined(t *testing.T) {
	t.Parallel()
	got, endpoint := tracingtest.Start(t)
	tracer := open(t, config.Traces{Endpoint: endpoint, SampleRatio: 1})
	const theirs = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	ctx, root := tracer.Root(tracing.Remote(t.Context(), theirs), tracing.SpanPrompt)
	root.End()
	start := time.Now().Add(-time.Hour)
	tracer.Below(tracing.Remote(t.Context(), theirs), tracing.Parent(ctx), tracing.SpanAck, start)
	require.NoError(t, tracer.Close())
	all, _ := spans(got)
	require.Len(t, all, 2)
	for _, s := range all {
		require.Equal(t, root.SpanContext().TraceID(), trace.TraceID(s.GetTraceId()))
		require.Len(t, s.GetLinks(), 1)
		require.Equal(t, theirs[3:35], trace.TraceID(s.GetLinks()[0].GetTraceId()).String())
		if s.GetName() == tracing.SpanAck {
			require.Equal(t, uint64(start.UnixNano()), s.GetStartTimeUnixNano())
			require.Equal(t, root.SpanContext().SpanID(), trace.SpanID(s.GetParentSpanId()))
		}
	}
}

func TestACollectorThatIsAwayIsNoError(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := "http://" + l.Addr().String()
	require.NoError(t, l.Close())
	tracer := open(t, config.Traces{Endpoint: address, SampleRatio: 1})
	_, span := tracer.Start(t.Context(), tracing.SpanCell)
	span.End()
	require.NoError(t, tracer.Close())
}

func TestACollectorsAddressIsCheckedAndHoldsNoSecret(t *testing.T) {
	t.Parallel()
	for endpoint, want := range map[string]string{
		"collector:4317": "is not http://HOST:PORT", "ftp://collector": "is not http://HOST:PORT", "http://me:secret@collector:4317": "OTEL_EXPORTER_OTLP_HEADERS",
	} {
		cfg := config.Defaults()
		cfg.Telemetry.Traces.Endpoint = endpoint
		err := cfg.ValidateRole(config.RoleReward)
		require.ErrorContains(t, err, "telemetry.traces.endpoint")
		require.ErrorContains(t, err, want)
		require.False(t, strings.Contains(err.Error(), "secret"))
	}
	cfg := config.Defaults()
	cfg.Telemetry.Traces.SampleRatio = 1.5
	require.ErrorContains(t, cfg.ValidateRole(config.RoleReward), "telemetry.traces.sample_ratio")
}
