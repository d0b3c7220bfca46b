package cri

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2"
)

// Events subscribes to the runtime's container events until ctx ends; then the channel is closed.
//
// A nil event means that the stream was opened (again), so earlier events may be missing: the
// caller must list everything now. A runtime without events (containerd before 1.7) never sends
// one; the channel then carries nothing and the caller must relist periodically. The caller must
// read promptly: containerd stops delivering to all clients after 100 unread events.
func (c *Client) Events(ctx context.Context) <-chan *runtimeapi.ContainerEventResponse {
	out := make(chan *runtimeapi.ContainerEventResponse, 256)
	go func() {
		defer close(out)
		for ctx.Err() == nil {
			err := c.streamOnce(ctx, out)
			if ctx.Err() != nil {
				return
			}
			pause := firstRetryDelay
			if status.Code(err) == codes.Unimplemented {
				klog.FromContext(ctx).Info("The container runtime offers no events; relisting alone finds changes",
					"runtime", c.version.GetRuntimeName())
				<-ctx.Done()
				return
			}
			klog.FromContext(ctx).V(2).Info("Container event stream ended; opening it again", "err", err)
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			}
		}
	}()
	return out
}

// streamOnce opens the stream, sends a nil event, and passes events on until the stream breaks.
func (c *Client) streamOnce(ctx context.Context, out chan<- *runtimeapi.ContainerEventResponse) error {
	stream, err := c.runtime.api.GetContainerEvents(ctx, &runtimeapi.GetEventsRequest{}, grpc.WaitForReady(true))
	if err != nil {
		return err
	}
	return forward(ctx, stream, out)
}

func forward(ctx context.Context, stream runtimeapi.RuntimeService_GetContainerEventsClient,
	out chan<- *runtimeapi.ContainerEventResponse) error {
	send := func(e *runtimeapi.ContainerEventResponse) error {
		select {
		case out <- e:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := send(nil); err != nil {
		return err
	}
	for {
		e, err := stream.Recv()
		if err != nil {
			return err
		}
		if err := send(e); err != nil {
			return err
		}
	}
}
