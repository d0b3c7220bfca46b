package grpc_test

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/probe"
	probegrpc "github.com/gantry-project/gantry/internal/kubelet/probe/grpc"
	"github.com/gantry-project/gantry/internal/kubelet/probe/probetest"
	"github.com/gantry-project/gantry/test/ports"
)

func listen(t *testing.T) (net.Listener, int32) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l, int32(l.Addr().(*net.TCPAddr).Port)
}

func serve(t *testing.T, register func(*grpc.Server)) int32 {
	l, port := listen(t)
	s := grpc.NewServer()
	register(s)
	go func() {
		if err := s.Serve(l); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(s.Stop)
	return port
}

func target(port int32, service string) probe.Target {
	return probe.Target{
		PodIP: "127.0.0.1", Timeout: 5 * time.Second,
		Probe: &v1.Probe{ProbeHandler: v1.ProbeHandler{GRPC: &v1.GRPCAction{Port: port, Service: &service}}},
	}
}

func TestConformance(t *testing.T) {
	probetest.Run(t, probetest.Subject{
		Prober: probegrpc.Prober{UserAgent: "kube-probe/1.37"},
		Target: func(t *testing.T, c probetest.Condition) probe.Target {
			switch c {
			case probetest.Absent:
				return target(int32(ports.Closed(t)), "")
			case probetest.Unresponsive:
				_, port := listen(t) // the kernel takes the connection, nobody speaks
				return target(port, "")
			}
			return target(serve(t, func(s *grpc.Server) {
				h := health.NewServer()
				if c == probetest.Failing {
					h.SetServingStatus("", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
				}
				grpc_health_v1.RegisterHealthServer(s, h)
			}), "")
		},
	})
}

// row: PRB-12
func TestOutputTextsAreUpstreams(t *testing.T) {
	a := probegrpc.Prober{}
	healthy := serve(t, func(s *grpc.Server) {
		h := health.NewServer()
		h.SetServingStatus("sick", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
		h.SetServingStatus("unsure", grpc_health_v1.HealthCheckResponse_UNKNOWN)
		grpc_health_v1.RegisterHealthServer(s, h)
	})
	noHealthService := serve(t, func(*grpc.Server) {})
	closed, port := listen(t)
	closed.Close()
	away := target(port, "")
	away.Timeout = 200 * time.Millisecond
	for _, tc := range []struct {
		to     probe.Target
		result probe.Result
		text   string
	}{
		{target(healthy, ""), probe.Success, "service healthy"},
		{target(healthy, "sick"), probe.Failure, `service unhealthy (responded with "NOT_SERVING")`},
		{target(healthy, "unsure"), probe.Failure, `service unhealthy (responded with "UNKNOWN")`},
		{target(healthy, "nosuch"), probe.Failure,
			"error: health rpc probe failed: rpc error: code = NotFound desc = unknown service"},
		{target(noHealthService, ""), probe.Failure,
			"error: this server does not implement the grpc health protocol (grpc.health.v1.Health): unknown service " +
				"grpc.health.v1.Health"},
		{away, probe.Failure, `timeout: failed to connect service "127.0.0.1:`}, // recordings/pods/readiness-grpc-ok
	} {
		if got := a.Probe(t.Context(), tc.to); got.Result != tc.result || got.Err != nil ||
			!strings.HasPrefix(got.Output, tc.text) {
			t.Errorf("got %+v, want %v %q", got, tc.result, tc.text)
		}
	}
	if got := a.Probe(t.Context(), away); !strings.HasSuffix(got.Output, " within 200ms: context deadline exceeded") {
		t.Errorf(`got %v, want Output ending in "within 200ms: context deadline exceeded"`, got.Output)
	}
}

// Whether anybody took the connection is told, as the text of a timeout does not tell it.
func TestConnectionResultIsReported(t *testing.T) {
	closed, nobody := listen(t)
	closed.Close()
	other, somebody := listen(t)
	go func() {
		for {
			c, err := other.Accept()
			if err != nil {
				return // the test has ended
			}
			_, _ = c.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")) // the prober has perhaps hung up
			c.Close()
		}
	}()
	for port, want := range map[int32]string{nobody: journal.ProbeRefused, somebody: journal.ProbeConnected} {
		to := target(port, "")
		to.Timeout = time.Minute
		ctx, cancel := context.WithCancel(t.Context())
		var dials atomic.Int32
		a := probegrpc.Prober{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			if dials.Add(1) == 2 {
				cancel() // how the first one went is known by now
			}
			return (&net.Dialer{}).DialContext(ctx, network, address)
		}}
		if got := a.Probe(ctx, to); got.Connection != want || got.Result != probe.Failure {
			t.Errorf("got %+v, want %s", got, want)
		}
		cancel()
	}
	plain := target(serve(t, func(*grpc.Server) {}), "")
	if got := (probegrpc.Prober{}).Probe(t.Context(), plain); got.Connection != "" {
		t.Errorf("got %+v, want no word of the connection where the answer tells it", got)
	}
}
