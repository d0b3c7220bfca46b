package networkpolicy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"k8s.io/klog/v2"
)

// admitTimeout is how long the CNI plugin's request waits at most; the runtime retries.
const admitTimeout = 10 * time.Second

// servePods answers requests of the CNI plugin until the listener is closed.
func (k *Controller) servePods(ctx context.Context) {
	go func() { <-ctx.Done(); _ = k.o.PodListener.Close() }()
	for {
		c, err := k.o.PodListener.Accept()
		if errors.Is(err, net.ErrClosed) || ctx.Err() != nil {
			return
		}
		if err != nil {
			klog.FromContext(ctx).Error(err, "The gate for new Pods failed once")
			if !waitContext(ctx, 100*time.Millisecond) {
				return
			}
			continue
		}
		go func() {
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(admitTimeout + time.Second))
			answer := "ok"
			if err := k.admitPod(ctx, c); err != nil {
				answer = strings.Join(strings.Fields(err.Error()), " ")
			}
			_, _ = fmt.Fprintln(c, answer) // a plugin that disconnected asks again
		}()
	}
}

// admitPod reads one lease from c and returns when its rules are in force, or an error after
// admitTimeout.
func (k *Controller) admitPod(ctx context.Context, c net.Conn) error {
	var said struct {
		Pod string       `json:"pod"`
		UID string       `json:"uid"`
		IPs []netip.Addr `json:"ips"`
	}
	if err := json.NewDecoder(c).Decode(&said); err != nil {
		return fmt.Errorf("what the CNI plugin says cannot be read: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, admitTimeout,
		errors.New("the API server has not told the network policies yet, and no Pod starts without them"))
	defer cancel()
	a := &podArrival{lease: Lease{said.Pod, said.UID, said.IPs}, until: time.Now().Add(cacheLag),
		answer: make(chan error, 1)}
	came := time.Now()
	defer func() { k.metrics.podWait.Observe(time.Since(came).Seconds()) }()
	select {
	case k.arrivals <- a:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err := <-a.answer:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
