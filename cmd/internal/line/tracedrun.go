package line

import (
	"context"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/verigraph/verigraph/cmd/internal/tracing"
	"github.com/verigraph/verigraph/dataset/feed"
	"github.com/verigraph/verigraph/dataset/leader"
	"github.com/verigraph/verigraph/jetstream"
	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

// caller is ctx below the trace that a gRPC client is in, if it says so.
func caller(ctx context.Context) context.Context {
	md, _ := metadata.FromIncomingContext(ctx)
	if v := md.Get("traceparent"); len(v) == 1 {
		return tracing.Remote(ctx, v[0])
	}
	return ctx
}

// tracedPrompt is what publishes one prompt: ctx then carries the first span of the prompt's trace.
func tracedPrompt(ctx context.Context, t *tracing.Tracer, run string, publish func(context.Context) error) error {
	if t == nil {
		return publish(ctx)
	}
	ctx, span := t.Root(caller(ctx), tracing.SpanPrompt, tracing.Run.String(run))
	err := publish(jetstream.WithTrace(ctx, tracing.Parent(ctx)))
	tracing.End(span, err)
	return err
}

// newTrace begins the trace of a prompt that came without one.
func newTrace(ctx context.Context, t *tracing.Tracer, run string) (parent string) {
	if t == nil {
		return ""
	}
	_ = tracedPrompt(ctx, t, run, func(ctx context.Context) error { parent = tracing.Parent(ctx); return nil })
	return parent
}

// tracedStreams is the leader's side of the broker with spans. It remembers when scored groups came, by dispatch.
type tracedStreams struct {
	leaderStreams
	t     *tracing.Tracer
	taken *sync.Map
}

func (s tracedStreams) NextPrompt(ctx context.Context) (leader.Held[leader.BacklogItem], error) {
	h, err := s.leaderStreams.NextPrompt(ctx)
	if err == nil && h.Trace == "" && !h.Value.Final {
		h.Trace = newTrace(ctx, s.t, s.run)
	}
	return h, err
}

func (s tracedStreams) Publish(ctx context.Context, d task.Dispatch) error {
	ctx, span := s.t.Start(tracing.Remote(ctx, d.Trace), tracing.SpanDispatch, tracing.Run.String(d.Run), tracing.Dispatch.String(d.ID))
	err := s.bus.PublishOnce(jetstream.WithTrace(ctx, tracing.Parent(ctx)), jetstream.Prompts, s.run, d.ID, d)
	tracing.End(span, err)
	return err
}

func (s tracedStreams) NextScored(ctx context.Context) (leader.Held[trajectory.ScoredGroup], error) {
	h, err := s.leaderStreams.NextScored(ctx)
	if err != nil {
		return h, err
	}
	id := h.Value.Group.Dispatch.ID
	s.taken.Store(id, time.Now())
	ack := h.Ack
	h.Ack = func(ctx context.Context) error { // in a batch, or closed
		s.taken.Delete(id)
		return ack(ctx)
	}
	return h, nil
}

// tracedBatches makes the batch's span in the trace of each of its groups.
type tracedBatches struct {
	leader.Log[leader.BatchRecord]
	t     *tracing.Tracer
	taken *sync.Map
}

func (b tracedBatches) Append(ctx context.Context, r leader.BatchRecord) error {
	if err := b.Log.Append(ctx, r); err != nil {
		return err
	}
	for _, g := range r.Groups {
		start := time.Now()
		if at, ok := b.taken.Load(g.Dispatch); ok {
			start = at.(time.Time)
		}
		b.t.Below(ctx, g.Trace, tracing.SpanBatch, start, tracing.Dispatch.String(g.Dispatch), tracing.Sequence.Int64(r.Sequence))
	}
	return nil
}

// tracedObjects makes the delivery's span in the trace of each group of a batch that is read.
type tracedObjects struct {
	feed.Objects
	t    *tracing.Tracer
	lead *Lead
}

func (o tracedObjects) ReadRange(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	start := time.Now()
	r, err := o.Objects.ReadRange(ctx, name, offset, length)
	if err != nil {
		return nil, err
	}
	return &tracedReader{ReadCloser: r, done: func(n int64) {
		for _, g := range o.lead.groupsOf(name) {
			o.t.Below(caller(ctx), g.Trace, tracing.SpanDelivery, start, tracing.Dispatch.String(g.Dispatch), tracing.Offset.Int64(offset), tracing.Bytes.Int64(n))
		}
	}}, nil
}

type tracedReader struct {
	io.ReadCloser
	n    int64
	done func(read int64)
}

func (r *tracedReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	r.n += int64(n)
	return n, err
}

func (r *tracedReader) Close() error {
	r.done(r.n)
	return r.ReadCloser.Close()
}

// groupsOf are the groups of the batch that an object holds, the newest batches first.
func (l *Lead) groupsOf(object string) []leader.BatchGroup {
	cur := l.current()
	if cur == nil {
		return nil
	}
	for seq := cur.Last(); seq > 0; seq-- {
		if r, _, ok := cur.Batch(seq); ok && r.Object == object {
			return r.Groups
		}
	}
	return nil
}

// acknowledged makes the span that ends the trace of each group of the batches [from, to].
func (l *Lead) acknowledged(ctx context.Context, from, to int64, start time.Time) {
	cur := l.current()
	if l.tracer == nil || cur == nil {
		return
	}
	for seq := from; seq <= to; seq++ {
		r, _, _ := cur.Batch(seq)
		for _, g := range r.Groups {
			l.tracer.Below(caller(ctx), g.Trace, tracing.SpanAck, start, tracing.Dispatch.String(g.Dispatch), tracing.Sequence.Int64(seq))
		}
	}
}

// leaves remembers when the rows of a request's group began to leave, for as long as the call lasts.
func (l *Lead) leaves(ctx context.Context, dispatch string) {
	if l.tracer == nil {
		return
	}
	l.leaving.Store(dispatch, time.Now())
	context.AfterFunc(ctx, func() { l.leaving.Delete(dispatch) })
}

// delivered makes the span that ends the trace of a request's group: there is no acknowledgement.
func (l *Lead) delivered(ctx context.Context, cur *leader.Leader, dispatch string) {
	start, ok := l.leaving.LoadAndDelete(dispatch)
	a, _ := cur.Answer(dispatch)
	if l.tracer == nil || !ok || a.Result == nil {
		return
	}
	l.tracer.Below(caller(ctx), a.Result.Trace, tracing.SpanDelivery, start.(time.Time), tracing.Dispatch.String(dispatch), tracing.Bytes.Int64(a.Result.Size))
}
