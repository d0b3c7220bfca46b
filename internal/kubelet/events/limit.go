package events

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
)

// limited writes events no faster than the configuration allows.
type limited struct {
	to   record.EventSink
	pace flowcontrol.RateLimiter
}

// lag is how old an event is at least when it is written. What happens to a container is told by an event and by the Pod's status: written at once, the event,
// which nobody waits for, would keep the disk busy when the status comes.
const lag = 20 * time.Millisecond

// lagging writes events when they are old enough.
type lagging struct{ to record.EventSink }

// wait takes no longer than lag, also where the event's time is not of this clock.
func (l lagging) wait(e *v1.Event) { time.Sleep(min(lag, time.Until(e.LastTimestamp.Add(lag)))) }

// Create writes a new event.
func (l lagging) Create(e *v1.Event) (*v1.Event, error) {
	l.wait(e)
	return l.to.Create(e)
}

// Update writes an event anew.
func (l lagging) Update(e *v1.Event) (*v1.Event, error) {
	l.wait(e)
	return l.to.Update(e)
}

// Patch changes an event.
func (l lagging) Patch(e *v1.Event, data []byte) (*v1.Event, error) {
	l.wait(e)
	return l.to.Patch(e, data)
}

// Limit writes events when they are 20 ms old, and lets at most eventRecordQPS events a second through to the API, and eventBurst at once; the others wait. Zero events
// a second mean no limit.
func Limit(to record.EventSink, c *kubeletconfig.KubeletConfiguration) record.EventSink {
	to = lagging{to}
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
	return limited{to, flowcontrol.NewTokenBucketRateLimiter(float32(qps), burst)}
}

// Create waits for its turn and writes a new event.
func (l limited) Create(e *v1.Event) (*v1.Event, error) {
	l.pace.Accept()
	return l.to.Create(e)
}

// Update waits for its turn and writes an event anew.
func (l limited) Update(e *v1.Event) (*v1.Event, error) {
	l.pace.Accept()
	return l.to.Update(e)
}

// Patch waits for its turn and changes an event: its count, as a rule.
func (l limited) Patch(e *v1.Event, data []byte) (*v1.Event, error) {
	l.pace.Accept()
	return l.to.Patch(e, data)
}
