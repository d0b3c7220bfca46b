package server

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	internalapi "k8s.io/cri-api/pkg/apis"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// Pods is what the server asks the kubelet about the Pods it has. Both return the latest status the
// kubelet knows, static Pods included.
type Pods interface {
	Pods() []*v1.Pod
	PodByName(namespace, name string) (*v1.Pod, bool)
}

// Options are the parts the server stands on. Zero fields have the default their comment names; a
// missing required one is an error of New.
type Options struct {
	NodeName string // required
	Address  string // 0.0.0.0
	Port     int    // 10250; negative lets the system choose
	Listener net.Listener
	TLS      *tls.Config // serving certificate; required. Client certificates are asked for whatever ClientAuth says

	Authenticator authenticator.Request              // required; see Delegated
	Authorizer    authorizer.UnconditionalAuthorizer // required; see Delegated

	Pods    Pods                       // required
	Runtime internalapi.RuntimeService // required

	Healthz   func() error // nil is healthy; an error is the answer's text
	Configz   func() any   // what /configz shows under kubeletconfig; nil: 404
	Metrics   http.Handler // /metrics; nil serves the process's default registry
	Stats     Stats        // /stats/summary; nil: 404
	Endpoints Endpoints
}

// Stats measures node, Pods and containers; brief leaves all but processors and memory out.
type Stats interface {
	Summary(ctx context.Context, brief bool) (*statsapi.Summary, error)
}

// Endpoints are what is served beside the Pods. A nil handler is a page that is not there.
type Endpoints struct {
	Cadvisor, Resource, Probes http.Handler // /metrics/cadvisor, /metrics/resource, /metrics/probes

	NodeLogs    string   // directory that /logs shows; /var/log/ when empty
	Checkpoints string   // directory of archives
	Disabled    Disabled // what the configuration switches off
	LogQuery    bool     // enableSystemLogQuery: /logs?query= asks journalctl and files
	// streams on which nothing moves for so long are cut: streamingConnectionIdleTimeout; 0 is 4 h
	Idle time.Duration

	PortForwarded func(p *v1.Pod) // called when ports of a Pod are asked for; may be nil

	// Sockets are where a Pod's processes take TCP connections: /listening; nil: 404.
	Sockets func(p *v1.Pod) ([]string, error)
	// DriverCalls are the calls that CSI drivers have not answered yet: /drivercalls; nil: 404.
	DriverCalls func() DriverCalls

	// Observe is told of each request, its path's first element and whether it lasts, and calls the
	// result at the end; nil counts nothing.
	Observe func(method, path string, long bool) (end func())
}

// Disabled names pages that are answered with 405.
type Disabled struct {
	// enableDebuggingHandlers false: run, exec, attach, portForward, containerLogs, runningpods,
	// logs, pprof
	Debugging  bool
	SystemLogs bool // enableSystemLogHandler false: logs
	Profiling  bool // enableProfilingHandler false: pprof
	DebugFlags bool // enableDebugFlagsHandler false: /debug/flags/v
}
