// Package otlp exports the spans of a Pod to an OpenTelemetry collector.
//
// In: a trace.PodTrace and a collector's address. Out: one trace per Pod, with an id derived from
// the Pod's UID, so that exporting it twice gives the same trace.
package otlp

import (
	"context"
	"crypto/sha256"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/gantry-project/gantry/internal/trace"
)

// Send exports the Pod's spans over OTLP/gRPC to endpoint (host:port, without TLS) and returns when
// the collector has accepted them, or an error.
func Send(ctx context.Context, endpoint string, life trace.PodTrace) error {
	exporter, err := otlptracegrpc.New(ctx, otlptracegrpc.WithEndpoint(endpoint), otlptracegrpc.WithInsecure())
	if err != nil {
		return fmt.Errorf("OTLP endpoint %s: %w", endpoint, err)
	}
	return Export(ctx, exporter, life)
}

// Export exports the Pod's spans through exporter and shuts it down.
func Export(ctx context.Context, exporter sdktrace.SpanExporter, life trace.PodTrace) error {
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(exporter),
		sdktrace.WithIDGenerator(&spanIDs{seed: life.Ref.UID}),
		sdktrace.WithResource(resource.NewSchemaless(
			attribute.String("service.name", "gantry"),
			attribute.String("k8s.pod.name", life.Ref.Name),
			attribute.String("k8s.namespace.name", life.Ref.Namespace),
			attribute.String("k8s.pod.uid", life.Ref.UID),
			attribute.String("k8s.node.name", life.Node),
		)))
	tracer := provider.Tracer("github.com/gantry-project/gantry")
	for _, s := range life.Spans {
		emit(ctx, tracer, s)
	}
	if err := provider.Shutdown(ctx); err != nil {
		return fmt.Errorf("sending spans: %w", err)
	}
	return nil
}

func emit(ctx context.Context, tracer oteltrace.Tracer, s trace.Span) {
	ctx, span := tracer.Start(ctx, s.Name, oteltrace.WithTimestamp(s.Start))
	if s.By != "" {
		span.SetAttributes(attribute.String("gantry.component", s.By))
	}
	if s.Note != "" {
		span.SetAttributes(attribute.String("gantry.note", s.Note))
	}
	if s.Error != "" {
		span.SetStatus(codes.Error, s.Error)
	}
	for _, c := range s.Children {
		emit(ctx, tracer, c)
	}
	span.End(oteltrace.WithTimestamp(s.End))
}

// spanIDs derives trace and span ids from the Pod's UID, so that they are stable.
type spanIDs struct {
	seed string
	n    int
}

// NewIDs returns the ids of a root span.
func (g *spanIDs) NewIDs(ctx context.Context) (oteltrace.TraceID, oteltrace.SpanID) {
	sum := sha256.Sum256([]byte("trace " + g.seed))
	return oteltrace.TraceID(sum[:16]), g.NewSpanID(ctx, oteltrace.TraceID(sum[:16]))
}

// NewSpanID returns the id of another span.
func (g *spanIDs) NewSpanID(context.Context, oteltrace.TraceID) oteltrace.SpanID {
	g.n++
	sum := sha256.Sum256(fmt.Appendf(nil, "span %s %d", g.seed, g.n))
	return oteltrace.SpanID(sum[:8])
}
