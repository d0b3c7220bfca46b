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
// A nil event means: the stream was opened (at first or again), so what happened before it may be
// missing; list everything now. A runtime without events (containerd before 1.7) never sends one;
// the channel then carries nothing and the observer's own audit must do. The reader must not
// dawdle: containerd stops delivering to everybody after 100 events that nobody took.
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

// streamOnce opens the stream, says so, and passes events on until it breaks.
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
