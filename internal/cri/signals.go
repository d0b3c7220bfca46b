package cri

import (
	"context"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"
)

// suspectAfter is how long a call may take before the runtime is suspected to be unhealthy.
const suspectAfter = 5 * time.Second

// Signals report conditions derived from calls, without extra requests. Each channel has capacity 1
// and one reader. The status of a healthy runtime is polled once a minute; these cause a check at
// once. A network that fails silently shows at the next sandbox, or the next poll.
type Signals struct {
	// the connection broke or came back, a call failed in a way that suggests an unhealthy runtime,
	// or one takes longer than five seconds
	RuntimeSuspect <-chan struct{}
	ImagesChanged  <-chan struct{} // a call of this client added or removed an image
}

// Signals returns the client's channels, always the same ones.
func (c *Client) Signals() Signals {
	return Signals{RuntimeSuspect: c.signals.runtimeSuspect, ImagesChanged: c.signals.imagesChanged}
}

// signals are the sending ends.
type signals struct{ runtimeSuspect, imagesChanged chan struct{} }

func newSignals() signals { return signals{make(chan struct{}, 1), make(chan struct{}, 1)} }

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// intercept watches a call. Status calls are left out: their caller sees the result.
func (s signals) intercept(ctx context.Context, path string, req, reply any, cc *grpc.ClientConn,
	call grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	method := path[strings.LastIndexByte(path, '/')+1:]
	if method == "Status" || method == "Version" {
		return call(ctx, path, req, reply, cc, opts...)
	}
	if !isLongRunning(method) {
		defer time.AfterFunc(suspectAfter, func() { notify(s.runtimeSuspect) }).Stop()
	}
	err := call(ctx, path, req, reply, cc, opts...)
	switch {
	case suggestsFailure(method, status.Code(err)):
		notify(s.runtimeSuspect)
	case err == nil && (method == "PullImage" || method == "RemoveImage"):
		notify(s.imagesChanged)
	}
	return err
}

// isLongRunning reports whether a call's duration depends on a registry or a container.
func isLongRunning(method string) bool {
	return method == "PullImage" || method == "ExecSync" || method == "StopContainer"
}

// suggestsFailure reports whether the error of a call is a reason to check the runtime's status. A
// sandbox mostly fails because of its network, which is part of that status.
func suggestsFailure(method string, code codes.Code) bool {
	switch code {
	case codes.OK, codes.Canceled:
		return false
	case codes.Unavailable:
		return true
	case codes.DeadlineExceeded:
		return !isLongRunning(method)
	}
	return method == "RunPodSandbox"
}

// watchConnection signals RuntimeSuspect whenever the connection breaks or is re-established, until
// ctx ends.
func (s signals) watchConnection(ctx context.Context, conn *grpc.ClientConn) {
	was := conn.GetState()
	for conn.WaitForStateChange(ctx, was) {
		now := conn.GetState()
		if (now == connectivity.Ready) != (was == connectivity.Ready) {
			notify(s.runtimeSuspect)
		}
		was = now
	}
}
