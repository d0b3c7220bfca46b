package scheduler

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/scheduler/glue"
	"github.com/gantry-project/gantry/internal/scheduler/queue"
)

func ref(p *v1.Pod) journal.Ref { return pod.Ref(p) }

func queued(m queue.Move) journal.Queued {
	f := journal.Queued{Queue: string(m.To), Cause: m.Cause, Attempt: m.Entry.Attempts, By: m.By, Ignored: m.Ignored}
	if m.To == queue.Backoff {
		f.Until = m.Entry.BackoffUntil
	}
	switch o := m.About.(type) {
	case *v1.Node:
		f.Object = "node/" + o.Name
	case *v1.Pod:
		f.Object = "pod/" + pod.Key(o)
	}
	return f
}

// preempted writes down who was asked to leave for whom.
func (s *Scheduler) preempted(preemptor *v1.Pod, node string, victims []*v1.Pod) {
	f := journal.Preempting{Node: node}
	for _, v := range victims {
		f.Victims = append(f.Victims, pod.Key(v))
		s.Journal.Put(ref(v), journal.Acted{Controller: "scheduler", Action: "preempted", Message: "for Pod " + pod.Key(preemptor) + " on node " + node})
	}
	s.Journal.Put(ref(preemptor), f)
	s.meter.preempted(len(victims))
}

// parked writes down for whom a Pod waits that has a node and is not bound yet.
func (s *Scheduler) parked(c glue.Cycle, w glue.Wait) {
	f := journal.Waiting{For: "plugin " + w.Plugin + " at Permit, with node " + c.Node + " held", Since: time.Now(), Next: "after " + w.Most.String() + " the Pod gives the node back and is tried again"}
	if w.Why != "" {
		f.For += ": " + w.Why
	}
	s.Journal.Put(ref(c.Pod), f)
}
