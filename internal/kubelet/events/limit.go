package events

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
)

// limitedSink writes events no faster than the configuration allows.
type limitedSink struct {
	to      record.EventSink
	limiter flowcontrol.RateLimiter
}

// delay is how old an event is at least when it is written. What happens to a container is told by
// an event and by the Pod's status: written at once, the event, which nobody waits for, would keep
// the disk busy when the status comes.
const delay = 20 * time.Millisecond

// delayedSink writes events when they are old enough.
type delayedSink struct{ to record.EventSink }

// wait takes no longer than lag, also where the event's time is not of this clock.
func (l delayedSink) wait(e *v1.Event) {
	time.Sleep(min(delay, time.Until(e.LastTimestamp.Add(delay))))
}

// Create writes a new event.
func (l delayedSink) Create(e *v1.Event) (*v1.Event, error) {
	l.wait(e)
	return l.to.Create(e)
}

// Update writes an event anew.
func (l delayedSink) Update(e *v1.Event) (*v1.Event, error) {
	l.wait(e)
	return l.to.Update(e)
}

// Patch changes an event.
func (l delayedSink) Patch(e *v1.Event, data []byte) (*v1.Event, error) {
	l.wait(e)
	return l.to.Patch(e, data)
}

// Limit writes events when they are 20 ms old, and lets at most eventRecordQPS events a second
// through to the API, and eventBurst at once; the others wait. Zero events a second mean no limit.
func Limit(to record.EventSink, c *kubeletconfig.KubeletConfiguration) record.EventSink {
	to = delayedSink{to}
	qps := int32(50)
	if c.EventRecordQPS != nil {
		qps = *c.EventRecordQPS
	}
	if qps <= 0 {
		return to
	}
	burst := int(c.EventBurst)
	if burst <= 0 {
		burst = 100
	}
	return limitedSink{to, flowcontrol.NewTokenBucketRateLimiter(float32(qps), burst)}
}

// Create waits for its turn and writes a new event.
func (l limitedSink) Create(e *v1.Event) (*v1.Event, error) {
	l.limiter.Accept()
	return l.to.Create(e)
}

// Update waits for its turn and writes an event anew.
func (l limitedSink) Update(e *v1.Event) (*v1.Event, error) {
	l.limiter.Accept()
	return l.to.Update(e)
}

// Patch waits for its turn and changes an event: its count, as a rule.
func (l limitedSink) Patch(e *v1.Event, data []byte) (*v1.Event, error) {
	l.limiter.Accept()
	return l.to.Patch(e, data)
}
