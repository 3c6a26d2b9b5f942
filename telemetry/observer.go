package telemetry

import (
	"cmp"
	"context"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// Observer is what [Telemetry.Instrument] adds, for who does not use that. It is empty, and costs nothing, if nothing
// is exported.
func (t *Telemetry) Observer() server.Observer {
	if t.tracer == nil && t.meters == nil {
		return server.Observer{}
	}
	return server.Observer{Request: t.request, Turn: t.turn, Effect: t.effect}
}

// request is what is known of a request under way. Turns that it has begun may outlast it.
type request struct {
	t      *Telemetry
	began  time.Time
	method string
	span   trace.Span                      // nil if it is not recorded
	traced bool                            // the client has sent a trace context
	turn   atomic.Pointer[server.TurnInfo] // the last; of it the Kind and the Name, which do not change
	failed atomic.Bool                     // it ended with a failure of the tool
}

type requestKey struct{}

func (t *Telemetry) request(ctx context.Context, r *server.RequestInfo) (context.Context, func(error)) {
	current := &request{t: t, began: time.Now(), method: methodOf(r), traced: r.Trace != ""}
	ctx, current.span = t.requestSpan(ctx, r, current.method)
	ctx = context.WithValue(ctx, requestKey{}, current)
	return ctx, func(err error) { current.end(ctx, err, r.Bound) }
}

func (r *request) end(ctx context.Context, err error, bound string) {
	labels, name := append(make([]attribute.KeyValue, 0, 5), keyMethod.String(r.method)), r.method
	if turn := r.turn.Load(); turn != nil {
		labels, name = appendTarget(labels, turn.Kind, turn.Name), strings.TrimSpace(name+" "+turn.Name)
	}
	failed, errorType := failure(err, bound, r.failed.Load())
	labels = append(labels, failed...)
	if m := r.t.meters; m != nil {
		m.requests.Record(measured(ctx, r.span), time.Since(r.began).Seconds(), m.options.of(labels...))
	}
	if r.span != nil {
		r.span.SetName(name)
		r.span.SetAttributes(labels...)
		end(r.span, errorType)
	}
}

// requestSpan begins the span of a request: its parent is what the client was doing. A saga that begins in a request of a
// client that says nothing of that belongs to this span. It is nil if it is not recorded.
func (t *Telemetry) requestSpan(ctx context.Context, r *server.RequestInfo, method string) (context.Context, trace.Span) {
	if t.tracer == nil {
		return ctx, nil
	}
	var links []trace.Link
	around := trace.SpanContextFromContext(ctx) // of a program that traces HTTP
	if r.Trace != "" {
		if around.IsValid() {
			links = append(links, trace.Link{SpanContext: around})
		}
		ctx = trace.ContextWithRemoteSpanContext(ctx, spanContext(r.Trace, r.TraceState()))
	}
	if ambient := spanContext(headerOf(r, "Traceparent"), ""); ambient.IsValid() && headerOf(r, "Traceparent") != r.Trace {
		links = append(links, trace.Link{SpanContext: ambient})
	}
	ctx, span := t.tracer.Start(ctx, method, trace.WithSpanKind(trace.SpanKindServer), trace.WithLinks(links...))
	if !span.IsRecording() {
		return ctx, nil
	}
	if r.Trace == "" {
		r.Trace = traceparent(span)
	}
	if id := r.ID(); id != "" {
		span.SetAttributes(keyRequest.String(clip(strings.Trim(id, `"`))))
	}
	if version := headerOf(r, "Mcp-Protocol-Version"); version != "" {
		span.SetAttributes(keyVersion.String(clip(version)), attribute.String("network.transport", "tcp"), attribute.String("network.protocol.name", "http"))
	}
	return ctx, span
}

func (t *Telemetry) turn(ctx context.Context, i *server.TurnInfo) (context.Context, func(error)) {
	began := time.Now()
	current, _ := ctx.Value(requestKey{}).(*request)
	if current != nil {
		current.turn.Store(i)
	}
	ctx, span := t.turnSpan(ctx, i, current)
	return ctx, func(error) {
		if current != nil {
			current.failed.Store(i.Outcome == "failed")
		}
		if t.meters != nil {
			t.meters.turnTaken(measured(ctx, span), i, time.Since(began))
		}
		if span != nil {
			endTurn(span, i)
		}
	}
}

// turnSpan begins the span of a turn. The later ones of a saga are linked to where it began, and belong to that if their
// request is not recorded, or there is none, so that who samples sees all of a saga.
func (t *Telemetry) turnSpan(ctx context.Context, i *server.TurnInfo, current *request) (context.Context, trace.Span) {
	if t.tracer == nil {
		return ctx, nil
	}
	later := i.Turn > 1 || current == nil
	if current != nil && current.span == nil && (!later || current.traced) {
		return ctx, nil // its request is not recorded
	}
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindInternal)}
	if later {
		around, began := trace.SpanContextFromContext(ctx), spanContext(i.Trace, "")
		if began.IsValid() && began.SpanID() != around.SpanID() {
			options = append(options, trace.WithLinks(trace.Link{SpanContext: began, Attributes: []attribute.KeyValue{attribute.String("mcpsaga.link", "began")}}))
		}
		if began.IsSampled() && !around.IsSampled() && (current == nil || !current.traced) {
			ctx = trace.ContextWithRemoteSpanContext(ctx, began)
		}
	}
	if of := trace.SpanContextFromContext(ctx); of.IsValid() && !of.IsSampled() {
		return ctx, nil
	}
	ctx, span := t.tracer.Start(ctx, strings.TrimSpace("mcpsaga.turn "+i.Name), options...)
	if !span.IsRecording() {
		return ctx, nil
	}
	span.SetAttributes(keyAction.String(i.Action), keyKind.String(i.Kind), keyName.String(i.Name))
	if i.Saga != (saga.ID{}) {
		span.SetAttributes(keySaga.String(i.Saga.String()), keyTurn.Int(i.Turn))
	}
	if len(i.Answers) > 0 {
		span.AddEvent("mcpsaga.answered", trace.WithAttributes(keyCount.Int(len(i.Answers)), keyWaited.Float64(i.Waited.Seconds())))
	}
	return ctx, span
}

func endTurn(span trace.Span, i *server.TurnInfo) {
	span.SetAttributes(keyOutcome.String(i.Outcome))
	if i.Reason != "" {
		span.SetAttributes(keyReason.String(i.Reason))
	}
	if i.TokenSize > 0 {
		span.SetAttributes(keyToken.Int(i.TokenSize))
	}
	if len(i.Asked) > 0 {
		span.AddEvent("mcpsaga.asked", trace.WithAttributes(keyCount.Int(len(i.Asked))))
	}
	why := ""
	switch i.Outcome {
	case "refused", "broken":
		why = i.Reason
	case "failed":
		why = "tool_error"
	}
	end(span, why)
}

func (t *Telemetry) effect(ctx context.Context, e *server.EffectInfo) (context.Context, func(error)) {
	began := time.Now()
	turn := cmp.Or(e.Turn, new(server.TurnInfo))
	labels := []attribute.KeyValue{
		keyKind.String(turn.Kind), keyName.String(turn.Name), keyEffect.String(e.Name), keyUndo.Bool(e.Undo),
	}
	var span trace.Span
	if t.tracer != nil && trace.SpanContextFromContext(ctx).IsSampled() {
		what := "mcpsaga.effect "
		if e.Undo {
			what = "mcpsaga.undo "
		}
		ctx, span = t.tracer.Start(ctx, what+e.Name, trace.WithSpanKind(trace.SpanKindClient))
	}
	return ctx, func(err error) {
		errorType := ""
		if err != nil {
			errorType = "effect_error" // its text is the tool's own
			labels = append(labels, keyError.String(errorType))
		}
		if t.meters != nil {
			t.meters.effects.Record(measured(ctx, span), time.Since(began).Seconds(), t.meters.options.of(labels...))
		}
		if span != nil {
			span.SetAttributes(append(labels, keyAttempt.Int(e.Attempt))...)
			end(span, errorType)
		}
	}
}

// measured is the context for what is measured: that of a span which is recorded, an example of what was measured, or one
// in which there is nothing to look for.
func measured(ctx context.Context, span trace.Span) context.Context {
	if span == nil {
		return context.Background()
	}
	return ctx
}

// end ends a span. Texts of errors are not for traces: they may have anything in them.
func end(span trace.Span, errorType string) {
	if errorType != "" {
		span.SetAttributes(keyError.String(errorType))
		span.SetStatus(codes.Error, "")
	}
	span.End()
}

// spanContext reads a traceparent, and what comes beside it.
func spanContext(traceparent, state string) trace.SpanContext {
	if traceparent == "" {
		return trace.SpanContext{}
	}
	carrier := propagation.MapCarrier{"traceparent": traceparent, "tracestate": state}
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier))
}

func traceparent(span trace.Span) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(trace.ContextWithSpan(context.Background(), span), carrier)
	return carrier["traceparent"]
}

// headerOf is a header of a request's, which it has once.
func headerOf(r *server.RequestInfo, name string) string {
	if values := r.Header[name]; len(values) == 1 {
		return values[0]
	}
	return ""
}

// clip shortens what a client has chosen.
func clip(s string) string {
	const longest = 64
	if len(s) > longest {
		s = s[:longest]
	}
	return strings.ToValidUTF8(s, "")
}
