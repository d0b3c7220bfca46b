package events

import (
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

// Limit lets at most eventRecordQPS events a second through to the API, and eventBurst at once; the others wait. Zero events a second mean no limit.
func Limit(to record.EventSink, c *kubeletconfig.KubeletConfiguration) record.EventSink {
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
