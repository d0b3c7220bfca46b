package virtualnode

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/kubelet/podplan"
)

// begin begins an action at a time and returns when the next may begin.
func (w *podWorker) begin(a podplan.Action, at time.Time) time.Time {
	switch a := a.(type) {
	case podplan.PrepareVolumes:
		w.facts.VolumesReady = at
	case podplan.CreateSandbox:
		id := fmt.Sprint(len(w.observed.Sandboxes))
		w.observed.Sandboxes = append([]podplan.Sandbox{{ID: id, Attempt: a.Attempt, Ready: true, Created: at,
			IPs: []string{w.ip}}}, w.observed.Sandboxes...)
	case podplan.StopSandbox:
		for i := range w.observed.Sandboxes {
			if w.observed.Sandboxes[i].ID == a.ID {
				w.observed.Sandboxes[i].Ready = false
			}
		}
	case podplan.RemoveSandbox:
		w.removeSandbox(a.ID)
	case podplan.RemoveContainer:
		w.removeContainer(a.ID)
	case podplan.Start:
		return w.start(a, at)
	case podplan.Stop:
		w.stop(a, at)
	case podplan.Release:
		w.facts.Released = at
		if a.Logs {
			w.facts.Removed = at
		}
	}
	return at
}

// start runs a container. The first of the Pod takes the Pod's time to start, of which attaching
// its volumes was a part; containers of one plan are started one after the other.
func (w *podWorker) start(a podplan.Start, at time.Time) time.Time {
	if !w.began {
		w.began = true
		at = at.Add(max(w.times.Start-w.attaching, 0))
	}
	w.expect(outcome{at: at, blocks: true, do: func(w *podWorker, at time.Time) {
		m, _ := podplan.MemberOf(w.pod, a.Name)
		image := ""
		if m.Container != nil {
			image = m.Image
		}
		w.observed.Containers = append(w.observed.Containers, podplan.Container{
			ID: fmt.Sprintf("%s-%s-%d", w.pod.UID, a.Name, a.Attempt), Name: a.Name, Sandbox: a.Sandbox,
			Attempt: a.Attempt, State: podplan.Running, Created: at, Started: at,
			Image:       podplan.Image{Name: image, Ref: image},
			Annotations: podplan.Annotations{CrashDelay: a.CrashDelay}})
		w.observed.Sort()
		w.health[a.Name] = podplan.Health{Started: true}
		w.readyAt(a.Name, at.Add(w.times.Ready))
		w.endsAt(a.Name, at, at)
	}})
	return at
}

// readyAt makes a container ready at a time, if it still runs then.
func (w *podWorker) readyAt(name string, at time.Time) {
	id := w.latestID(name)
	w.expect(outcome{at: at, do: func(w *podWorker, _ time.Time) {
		if c := w.observed.Latest(name); c != nil && c.State == podplan.Running && c.ID == id {
			w.health[name] = podplan.Health{Started: true, Ready: true}
		}
	}})
}

// endsAt has a container that ends by itself do so: init containers, those of Pods that are not
// started again always, and those whose behavior is to end, unless they ran already in the cluster
// that was copied.
func (w *podWorker) endsAt(name string, started, now time.Time) {
	m, ok := podplan.MemberOf(w.pod, name)
	always := m.Kind == podplan.App && w.pod.Spec.RestartPolicy == v1.RestartPolicyAlways
	if !ok || m.Kind == podplan.Sidecar || always && !(w.times.Ends && started.Equal(now)) {
		return
	}
	at, code := started.Add(w.times.Run), w.times.ExitCode
	if m.Kind == podplan.Init {
		at, code = started.Add(w.times.Ready), 0
	}
	if at.Before(now) {
		at = now
	}
	id := w.latestID(name)
	w.expect(outcome{at: at, do: func(w *podWorker, at time.Time) {
		if w.latestID(name) == id {
			w.exit(name, code, at)
		}
	}})
}

// latestID is the id of a container's latest run; empty: there was none.
func (w *podWorker) latestID(name string) string {
	if c := w.observed.Latest(name); c != nil {
		return c.ID
	}
	return ""
}

// exit ends a container.
func (w *podWorker) exit(name string, code int32, at time.Time) {
	c := w.observed.Latest(name)
	if c == nil || c.State != podplan.Running {
		return
	}
	c.State, c.Finished, c.Exit = podplan.Exited, at, podplan.Exit{Code: code, Reason: "Completed"}
	if code != 0 {
		c.Exit.Reason = "Error"
	}
	delete(w.health, name)
}

// termCode is the exit code of a container that TERM ended before its work was over.
const termCode = 143

// killedCode and stoppedCode are the exit codes of a container that KILL and TERM ended.
const killedCode, stoppedCode = 137, 0

// stop stops containers: they end after their time to stop, or when their grace is over. A kill of
// higher order begins when those below it are over.
func (w *podWorker) stop(a podplan.Stop, at time.Time) {
	began, last := at, at
	order := 0
	for _, k := range a.Kills {
		if k.Order > order {
			order, began = k.Order, last
		}
		took, code := w.times.Stop, int32(stoppedCode)
		if grace := max(k.Grace-began.Sub(at), 0); took > grace {
			took, code = grace, killedCode
		}
		if w.evicted != nil && code == stoppedCode {
			code = termCode
		}
		ends := began.Add(took)
		if ends.After(last) {
			last = ends
		}
		w.expect(outcome{at: ends, blocks: true, do: func(w *podWorker, at time.Time) { w.exit(k.Name, code, at) }})
	}
}

func (w *podWorker) removeContainer(id string) {
	kept := w.observed.Containers[:0:0]
	for _, c := range w.observed.Containers {
		if c.ID != id {
			kept = append(kept, c)
		}
	}
	w.observed.Containers = kept
}

func (w *podWorker) removeSandbox(id string) {
	kept := w.observed.Sandboxes[:0:0]
	for _, s := range w.observed.Sandboxes {
		if s.ID != id {
			kept = append(kept, s)
		}
	}
	w.observed.Sandboxes = kept
}
