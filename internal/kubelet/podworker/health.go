package podworker

import (
	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/kubelet/probe"
	"github.com/gantry-project/gantry/internal/kubelet/probe/ask"
)

// health tells the prober which containers run and asks for its verdicts. A container that ran before this kubelet did begins with what the API says of it.
func (w *worker) health(in podplan.In) map[string]podplan.Health {
	out := map[string]podplan.Health{}
	var running []ask.Running
	for _, m := range podplan.Members(in.Pod) {
		c := in.Seen.Latest(m.Name)
		if c == nil || c.State != podplan.Running || w.life.hooking[m.Name] || m.Kind == podplan.Init || m.Kind == podplan.Ephemeral {
			continue
		}
		r := ask.Running{Name: m.Name, ID: c.ID, StartedAt: c.Started}
		if st := statusOf(in.Pod, m); st != nil && st.State.Running != nil && sameID(st.ContainerID, c.ID) {
			r.Adopted, r.Ready, r.Started = true, st.Ready, st.Started != nil && *st.Started
		}
		running = append(running, r)
	}
	w.pool.d.Probes.Sync(in.Pod, podIP(in), running)
	for _, r := range running {
		m, _ := podplan.MemberOf(in.Pod, r.Name)
		out[r.Name] = w.verdicts(m)
	}
	return out
}

func (w *worker) verdicts(m podplan.Member) podplan.Health {
	ask := func(k probe.Kind, p *v1.Probe) probe.Verdict {
		if p == nil {
			return probe.Good
		}
		v, ok := w.pool.d.Probes.Verdict(probe.Key{UID: w.uid, Container: m.Name, Kind: k})
		if !ok {
			return probe.Pending
		}
		return v
	}
	var h podplan.Health
	startup := ask(probe.Startup, m.StartupProbe)
	h.Started = startup == probe.Good
	h.Ready = h.Started && ask(probe.Readiness, m.ReadinessProbe) == probe.Good
	switch {
	case startup == probe.Bad:
		h.Sick = "startup"
	case ask(probe.Liveness, m.LivenessProbe) == probe.Bad:
		h.Sick = "liveness"
	}
	return h
}

func statusOf(pod *v1.Pod, m podplan.Member) *v1.ContainerStatus {
	list := pod.Status.ContainerStatuses
	if m.Kind == podplan.Sidecar {
		list = pod.Status.InitContainerStatuses
	}
	for i := range list {
		if list[i].Name == m.Name {
			return &list[i]
		}
	}
	return nil
}

// sameID compares containerd://<id> with <id>.
func sameID(inAPI, id string) bool {
	return len(inAPI) > len(id) && inAPI[len(inAPI)-len(id):] == id
}

func podIP(in podplan.In) string {
	if box := in.Seen.Sandbox(); box != nil && len(box.IPs) > 0 {
		return box.IPs[0]
	}
	return in.Pod.Status.HostIP
}
