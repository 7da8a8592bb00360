// Package tracing makes spans of what a process does and sends them over OTLP.
//
// Invariants. A span holds ids, counts, times and words of closed sets: no text of a prompt, a model, an answer or an
// error, and no key. A trace is one prompt, from its submission to the acknowledgement of the batches that hold its
// rollouts; whether it is sampled is decided once, at its first span. A collector that is away costs spans, never work.
package tracing

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/verigraph/verigraph/cmd/internal/config"
)

// Names of spans.
const (
	SpanPrompt   = "prompt"   // from submission until the backlog holds it
	SpanDispatch = "dispatch" // until the queue of the workers holds the group
	SpanRollout  = "rollout"  // one attempt of one rollout
	SpanTurn     = "turn"
	SpanPolicy   = "policy call"
	SpanSession  = "session start"
	SpanCell     = "cell"
	SpanScore    = "score" // of one rollout
	SpanJudge    = "judge call"
	SpanBatch    = "batch"    // from a scored group until its batch is durable
	SpanDelivery = "delivery" // of the batch's bytes to a reader
	SpanAck      = "ack"      // the trainer has the batch
)

// Attributes of spans. There are no others.
const (
	Run         = attribute.Key("verigraph.run")
	Dispatch    = attribute.Key("verigraph.dispatch")
	Rollout     = attribute.Key("verigraph.rollout_id")
	Attempt     = attribute.Key("verigraph.attempt")
	Turn        = attribute.Key("verigraph.turn")
	Termination = attribute.Key("verigraph.termination")
	Request     = attribute.Key("verigraph.request_id")
	Finish      = attribute.Key("verigraph.finish_reason")
	Tokens      = attribute.Key("verigraph.tokens")
	Status      = attribute.Key("verigraph.status")
	Verdict     = attribute.Key("verigraph.verdict")
	Model       = attribute.Key("verigraph.judge")
	Sequence    = attribute.Key("verigraph.batch")
	Bytes       = attribute.Key("verigraph.bytes")
	Offset      = attribute.Key("verigraph.offset")
)

// closeTimeout bounds the last export.
const closeTimeout = 5 * time.Second

// Tracer makes spans. A nil one is off: callers leave their decorators away.
type Tracer struct {
	provider *sdktrace.TracerProvider
	exporter *otlptrace.Exporter
	tracer   trace.Tracer
}

// environment names where OTLP goes, if the configuration does not; these and the other OTEL_ variables are read by
// the exporter and win over the configuration.
var environment = []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"}

func fromEnvironment() bool {
	for _, name := range environment {
		if os.Getenv(name) != "" {
			return true
		}
	}
	return false
}

// Open returns nil where neither the configuration nor the environment names an endpoint. It does not wait for the
// collector.
func Open(ctx context.Context, cfg config.Traces, service, run string, log *zap.Logger) (*Tracer, error) {
	env := fromEnvironment()
	if cfg.Endpoint == "" && !env || strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return nil, nil
	}
	var target []otlptracegrpc.Option
	if !env {
		target = append(target, otlptracegrpc.WithEndpointURL(cfg.Endpoint))
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("traces", zap.Error(err)) }))
	exporter, err := otlptracegrpc.New(ctx, target...)
	if err != nil {
		return nil, fmt.Errorf("telemetry.traces.endpoint: %w", err)
	}
	about, err := resource.New(ctx, resource.WithAttributes(semconv.ServiceName(service), Run.String(run)), resource.WithFromEnv(), resource.WithTelemetrySDK())
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	options := []sdktrace.TracerProviderOption{sdktrace.WithBatcher(exporter), sdktrace.WithResource(about)}
	if os.Getenv("OTEL_TRACES_SAMPLER") == "" {
		options = append(options, sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(cfg.SampleRatio))))
	}
	p := sdktrace.NewTracerProvider(options...)
	return &Tracer{provider: p, exporter: exporter, tracer: p.Tracer("github.com/verigraph/verigraph")}, nil
}

// Close sends what is left, for a few seconds at most. What the collector did not take by then is lost.
func (t *Tracer) Close() error {
	if t == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	_ = t.provider.Shutdown(ctx)
	_ = t.exporter.Shutdown(ctx) // ends an export that is still tried
	return nil
}

// Start begins a span below that of ctx.
func (t *Tracer) Start(ctx context.Context, name string, attributes ...attribute.KeyValue) (context.Context, trace.Span) {
	return t.tracer.Start(ctx, name, trace.WithAttributes(attributes...))
}

// Root begins the first span of a trace. What ctx belongs to, such as the trainer's own trace, is linked.
func (t *Tracer) Root(ctx context.Context, name string, attributes ...attribute.KeyValue) (context.Context, trace.Span) {
	return t.tracer.Start(ctx, name, trace.WithNewRoot(), linked(ctx), trace.WithAttributes(attributes...))
}

// Below makes a whole span below a traceparent, from start until now, linked to that of ctx.
func (t *Tracer) Below(ctx context.Context, parent, name string, start time.Time, attributes ...attribute.KeyValue) {
	if parent == "" {
		return
	}
	link := linked(ctx)
	_, span := t.tracer.Start(Remote(ctx, parent), name, link, trace.WithTimestamp(start), trace.WithAttributes(attributes...))
	span.End()
}

func linked(ctx context.Context) trace.SpanStartOption {
	if other := trace.SpanContextFromContext(ctx); other.IsValid() {
		return trace.WithLinks(trace.Link{SpanContext: other})
	}
	return trace.WithLinks()
}

// End ends a span. Of an error it says only that there was one: its text may hold anything.
func End(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, "")
	}
	span.End()
}

const header = "traceparent"

// Remote is ctx below the span that a W3C traceparent names; ctx itself for none.
func Remote(ctx context.Context, traceparent string) context.Context {
	if traceparent == "" {
		return ctx
	}
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{header: traceparent})
}

// Parent is the W3C traceparent of the span of ctx, "" for none.
func Parent(ctx context.Context) string {
	c := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, c)
	return c[header]
}
