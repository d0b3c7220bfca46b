package otlp

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/trace"
	"github.com/gantry-project/gantry/test/ports"
)

// recordingExporter is a collector that keeps what it gets.
type recordingExporter struct {
	collector.UnimplementedTraceServiceServer
	got chan *collector.ExportTraceServiceRequest
}

func (s *recordingExporter) Export(_ context.Context,
	r *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	s.got <- r
	return &collector.ExportTraceServiceResponse{}, nil
}

func sampleTrace() trace.PodTrace {
	t0 := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ref := journal.Ref{Namespace: "default", Name: "web", UID: "uid-1"}
	return trace.PodTraces([]journal.Entry{
		{At: t0, Ref: ref, By: "apiserver", Fact: journal.Written{Verb: "create"}},
		{At: t0.Add(time.Millisecond), Ref: ref, By: "kubelet", Node: "n1", Fact: journal.Accepted{Source: "api"}},
		{At: t0.Add(100 * time.Millisecond), Ref: ref, By: "kubelet",
			Fact: journal.Called{Service: "CRI", Method: "RunPodSandbox", Took: journal.Took(90 * time.Millisecond),
				Error: "no address left"}},
	})[0]
}

func TestACollectorGetsTheLifeAsOneTrace(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &recordingExporter{got: make(chan *collector.ExportTraceServiceRequest, 10)}
	server := grpc.NewServer()
	collector.RegisterTraceServiceServer(server, s)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)

	send := func() map[string]string {
		t.Helper()
		if err := Send(t.Context(), l.Addr().String(), sampleTrace()); err != nil {
			t.Fatal(err)
		}
		ids := map[string]string{}
		for _, rs := range (<-s.got).ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				for _, span := range ss.Spans {
					ids[span.Name] = string(span.TraceId) + string(span.SpanId)
					if span.Name == "CRI RunPodSandbox" {
						if took := time.Duration(span.EndTimeUnixNano - span.StartTimeUnixNano); took !=
							90*time.Millisecond {
							t.Errorf("the call lasted %s in the trace, want %v", took, 90*time.Millisecond)
						}
						if span.Status.GetMessage() != "no address left" || len(span.ParentSpanId) == 0 {
							t.Errorf("error or parent lost: %v", span)
						}
					}
				}
			}
		}
		return ids
	}
	first, second := send(), send()
	for _, name := range []string{"life", "starting", "CRI RunPodSandbox"} {
		if first[name] == "" || first[name] != second[name] {
			t.Errorf("span %q: %q, and when sent again %q", name, first[name], second[name])
		}
	}
}

func TestACollectorThatIsAwayIsAnError(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if Send(ctx, fmt.Sprintf("127.0.0.1:%d", ports.Closed(t)), sampleTrace()) == nil {
		t.Fatal("spans vanished without an error")
	}
}
