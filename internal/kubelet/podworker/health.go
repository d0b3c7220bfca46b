package podworker

import (
	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/kubelet/probe"
	"github.com/gantry-project/gantry/internal/kubelet/prober"
)

// syncProbes has the prober probe the containers that run, and returns their health by name. A
// container that ran before this kubelet did begins with what the API says of it.
func (w *worker) syncProbes(in podplan.In) map[string]podplan.Health {
	out := map[string]podplan.Health{}
	var running []prober.Running
	for _, m := range podplan.Members(in.Pod) {
		c := in.Observed.Latest(m.Name)
		if c == nil || c.State != podplan.Running || w.lastPlan.runningHooks[m.Name] || m.Kind == podplan.Init ||
			m.Kind == podplan.Ephemeral {
			continue
		}
		r := prober.Running{Name: m.Name, ID: c.ID, StartedAt: c.Started}
		if st := statusOf(in.Pod, m); st != nil && st.State.Running != nil && sameID(st.ContainerID, c.ID) {
			r.Adopted, r.Ready, r.Started = true, st.Ready, st.Started != nil && *st.Started
		}
		running = append(running, r)
	}
	w.pool.d.Probes.SyncPod(in.Pod, podIP(in), running, probesEnd(in))
	for _, r := range running {
		m, _ := podplan.MemberOf(in.Pod, r.Name)
		out[r.Name] = w.probeHealth(m)
	}
	return out
}

// probesEnd is what the end of the Pod means for its probes.
func probesEnd(in podplan.In) prober.End {
	switch {
	case in.End != nil:
		return prober.Stopped
	case podplan.EffectiveTermination(in) != nil:
		return prober.Ending
	}
	return prober.NotEnding
}

// probeHealth sums up the probe results of a container (upstream: the results managers of the
// prober, read in UpdatePodStatus): ready, started, and the probe that has failed.
func (w *worker) probeHealth(m podplan.Member) podplan.Health {
	healthOf := func(k probe.Kind, p *v1.Probe) probe.Health {
		if p == nil {
			return probe.Healthy
		}
		v, ok := w.pool.d.Probes.Health(probe.Key{UID: w.uid, Container: m.Name, Kind: k})
		if !ok {
			return probe.Pending
		}
		return v
	}
	var h podplan.Health
	startup := healthOf(probe.Startup, m.StartupProbe)
	h.Started = startup == probe.Healthy
	h.Ready = h.Started && healthOf(probe.Readiness, m.ReadinessProbe) == probe.Healthy
	switch {
	case startup == probe.Unhealthy:
		h.FailedProbe = "startup"
	case healthOf(probe.Liveness, m.LivenessProbe) == probe.Unhealthy:
		h.FailedProbe = "liveness"
	}
	return h
}

// statusOf is the container's status in the API; nil if there is none.
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
	if sandbox := in.Observed.Sandbox(); sandbox != nil && len(sandbox.IPs) > 0 {
		return sandbox.IPs[0]
	}
	return in.Pod.Status.HostIP
}
