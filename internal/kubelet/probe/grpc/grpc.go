// Package grpc is the gRPC probe: the standard gRPC health service.
//
// In: a grpc probe. Out: Success when the service answers SERVING.
package grpc

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/probe"
	"github.com/gantry-project/gantry/internal/kubelet/probe/dial"
)

// Prober asks over gRPC, without TLS.
type Prober struct {
	UserAgent string    // kube-probe/1.37
	Dial      dial.Func // nil dials the network
}

// Probe connects, asks for the service's health and hangs up.
func (a Prober) Probe(ctx context.Context, t probe.Target) probe.Outcome {
	ctx, cancel := context.WithTimeout(ctx, t.Timeout)
	defer cancel()
	addr := net.JoinHostPort(t.PodIP, strconv.Itoa(int(t.Probe.GRPC.Port)))
	var last atomic.Value // how connecting went last
	conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUserAgent(a.UserAgent),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			c, err := a.Dial.Or(t.Timeout)(ctx, "tcp", addr)
			if how := connection(err); how != "" {
				last.Store(how)
			}
			return c, err
		}))
	if err != nil {
		return failed("error: failed to connect service at %q: %+v", addr, err)
	}
	defer conn.Close()
	for s := conn.GetState(); s != connectivity.Ready; s = conn.GetState() {
		if s == connectivity.Idle {
			conn.Connect()
		}
		if !conn.WaitForStateChange(ctx, s) {
			out := failed("timeout: failed to connect service %q within %v: %+v", addr, t.Timeout, ctx.Err())
			out.Connection, _ = last.Load().(string) // empty when that is not known
			return out
		}
	}
	req := &grpc_health_v1.HealthCheckRequest{}
	if t.Probe.GRPC.Service != nil {
		req.Service = *t.Probe.GRPC.Service
	}
	resp, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, req)
	if err != nil {
		return refused(err, t.Timeout)
	}
	if s := resp.GetStatus(); s != grpc_health_v1.HealthCheckResponse_SERVING {
		return failed("service unhealthy (responded with %q)", s.String())
	}
	return probe.Outcome{Result: probe.Success, Output: "service healthy"}
}

// connection says how connecting went.
func connection(err error) string {
	switch {
	case err == nil:
		return journal.ProbeConnected
	case strings.Contains(err.Error(), "connection refused"):
		return journal.ProbeRefused
	}
	return ""
}

func refused(err error, timeout time.Duration) probe.Outcome {
	switch s, _ := status.FromError(err); s.Code() {
	case codes.Unimplemented:
		return failed("error: this server does not implement the grpc health protocol (grpc.health.v1.Health): %s",
			s.Message())
	case codes.DeadlineExceeded:
		return failed("timeout: health rpc did not complete within %v", timeout)
	}
	return failed("error: health rpc probe failed: %+v", err)
}

func failed(format string, args ...any) probe.Outcome {
	return probe.Outcome{Result: probe.Failure, Output: fmt.Sprintf(format, args...)}
}
