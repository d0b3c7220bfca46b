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

// suspectAfter is how long a call may go without an answer before the runtime is doubted.
const suspectAfter = 5 * time.Second

// Signals are what the traffic with a runtime tells of it without a question of its own. Each
// channel holds one token at most, and one reader takes it. A runtime that is well is asked for its
// status once a minute; these have it asked at once. A network that fails in silence shows at the
// next sandbox, or at the audit.
type Signals struct {
	// the connection broke or came back, a call failed as it does where the runtime is not well, or
	// one has no answer for five seconds
	RuntimeSuspect <-chan struct{}
	ImagesChanged  <-chan struct{} // a call of this client brought or removed an image
}

// Signals returns the client's; they are the same each time.
func (c *Client) Signals() Signals {
	return Signals{RuntimeSuspect: c.signals.runtimeSuspect, ImagesChanged: c.signals.imagesChanged}
}

// signals are the writing ends.
type signals struct{ runtimeSuspect, imagesChanged chan struct{} }

func newSignals() signals { return signals{make(chan struct{}, 1), make(chan struct{}, 1)} }

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// intercept looks at a call. Those by which the runtime is asked for its state are left out: who
// asks knows.
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

// isLongRunning are calls whose time is up to a registry or a container.
func isLongRunning(method string) bool {
	return method == "PullImage" || method == "ExecSync" || method == "StopContainer"
}

// suggestsFailure says whether a call that ended so is a reason to ask how the runtime is. A
// sandbox mostly fails for its network, which is part of the runtime's state.
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

// watchConnection doubts whenever the connection breaks and whenever it is there again, until ctx
// ends.
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
