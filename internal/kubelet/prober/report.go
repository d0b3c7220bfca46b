package prober

import (
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/events"
	"github.com/gantry-project/gantry/internal/kubelet/probe"
	"github.com/gantry-project/gantry/internal/pod"
)

// report is what is to be reported of one answer.
type report struct {
	pod     *v1.Pod
	key     probe.Key
	answer  probe.Answer
	stopped bool            // the probe ended before the answer came: only the event is reported
	silent  bool            // another container has taken the place of the one that was asked: not even that
	changed bool            // the result is another than before
	fact    *journal.Probed // nil: no news
}

// report tells an answer to all who listen: metric, event, journal, and the Pod's worker when the
// result changed. No lock is held.
func (a *Manager) report(r report) {
	if !r.stopped {
		a.d.Probed(r.pod, Measurement{Key: r.key, Result: r.answer.String(), Took: r.answer.Took, Late: r.answer.Late})
	}
	if r.silent || probe.ContainerGone(r.answer.Err) {
		return
	}
	if e, ok := probe.EventFor(r.key.Kind, r.answer.Outcome); ok {
		a.d.Recorder.Event(events.RefOf(r.pod, events.FieldPath(r.pod, r.key.Container)), v1.EventTypeWarning, e.Reason,
			e.Message)
	}
	if f := r.fact; f != nil {
		if a.d.Sockets != nil && f.Result != "success" && (f.Connection == journal.ProbeRefused ||
			strings.Contains(f.Message, "connection refused")) {
			f.Listening = a.d.Sockets(r.pod)
		}
		a.d.Journal.Put(pod.Ref(r.pod), *f)
	}
	if r.changed {
		a.d.Changed(r.key.UID)
	}
}
