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

// patience is how long a call may go without an answer before the runtime is doubted.
const patience = 5 * time.Second

// Signs are what the traffic with a runtime tells of it without a question of its own. Each channel holds one token at most, and one reader takes it.
type Signs struct {
	Doubt  <-chan struct{} // the connection broke or came back, a call failed as it does where the runtime is not well, or one has no answer for five seconds
	Images <-chan struct{} // a call of this client brought or removed an image
}

// Signs returns the client's; they are the same each time.
func (c *Client) Signs() Signs { return Signs{Doubt: c.signs.doubt, Images: c.signs.images} }

// signs are the writing ends.
type signs struct{ doubt, images chan struct{} }

func newSigns() signs { return signs{make(chan struct{}, 1), make(chan struct{}, 1)} }

func put(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// heed looks at a call. Those by which the runtime is asked for its state are left out: who asks knows.
func (s signs) heed(ctx context.Context, path string, req, reply any, cc *grpc.ClientConn, call grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	method := path[strings.LastIndexByte(path, '/')+1:]
	if method == "Status" || method == "Version" {
		return call(ctx, path, req, reply, cc, opts...)
	}
	if !mayTake(method) {
		defer time.AfterFunc(patience, func() { put(s.doubt) }).Stop()
	}
	err := call(ctx, path, req, reply, cc, opts...)
	switch {
	case doubtful(method, status.Code(err)):
		put(s.doubt)
	case err == nil && (method == "PullImage" || method == "RemoveImage"):
		put(s.images)
	}
	return err
}

// mayTake are calls whose time is up to a registry or a container.
func mayTake(method string) bool {
	return method == "PullImage" || method == "ExecSync" || method == "StopContainer"
}

// doubtful says whether a call that ended so is a reason to ask how the runtime is. A sandbox mostly fails for its network, which is part of the runtime's state.
func doubtful(method string, code codes.Code) bool {
	switch code {
	case codes.OK, codes.Canceled:
		return false
	case codes.Unavailable:
		return true
	case codes.DeadlineExceeded:
		return !mayTake(method)
	}
	return method == "RunPodSandbox"
}

// follow doubts whenever the connection breaks and whenever it is there again, until ctx ends.
func (s signs) follow(ctx context.Context, conn *grpc.ClientConn) {
	was := conn.GetState()
	for conn.WaitForStateChange(ctx, was) {
		now := conn.GetState()
		if (now == connectivity.Ready) != (was == connectivity.Ready) {
			put(s.doubt)
		}
		was = now
	}
}
