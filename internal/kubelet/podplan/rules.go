package podplan

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/pod"
)

// Member is one container of the Pod's spec, whichever its list.
type Member struct {
	*v1.Container
	Kind   Kind
	Target string // of an ephemeral container: the container whose processes it sees
}

// Members lists a Pod's containers: init containers in order, app containers, ephemeral ones.
func Members(p *v1.Pod) []Member {
	out := make([]Member, 0, len(p.Spec.InitContainers)+len(p.Spec.Containers)+len(p.Spec.EphemeralContainers))
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		k := Init
		if pod.IsSidecar(c) {
			k = Sidecar
		}
		out = append(out, Member{Container: c, Kind: k})
	}
	for i := range p.Spec.Containers {
		out = append(out, Member{Container: &p.Spec.Containers[i]})
	}
	for i := range p.Spec.EphemeralContainers {
		e := &p.Spec.EphemeralContainers[i]
		c := v1.Container(e.EphemeralContainerCommon)
		out = append(out, Member{Container: &c, Kind: Ephemeral, Target: e.TargetContainerName})
	}
	return out
}

// MemberOf finds a container of the spec by name.
func MemberOf(pod *v1.Pod, name string) (Member, bool) {
	for _, m := range Members(pod) {
		if m.Name == name {
			return m, true
		}
	}
	return Member{}, false
}

// ShouldRestart tells whether a container that ended with this code is to be started again: the
// first matching rule of the container, else the container's restart policy, else the Pod's; init
// containers treat Always as OnFailure.
// https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#restart-policy
func ShouldRestart(p *v1.Pod, m Member, code int32) bool {
	if m.Kind == Ephemeral {
		return false
	}
	if m.Kind == Sidecar {
		return true
	}
	for _, r := range m.RestartPolicyRules {
		if r.Action == v1.ContainerRestartRuleActionRestart && matches(r.ExitCodes, code) {
			return true
		}
	}
	switch pod.RestartPolicy(&p.Spec, m.Container) {
	case v1.RestartPolicyNever:
		return false
	case v1.RestartPolicyOnFailure:
		return code != 0
	}
	return m.Kind != Init || code != 0
}

// restartsUnobserved tells whether a container that is stopped while it runs is to be started
// again. Its rules, which go by exit codes, have no say; so does upstream.
func restartsUnobserved(p *v1.Pod, m Member) bool {
	return m.Kind != Ephemeral && pod.RestartPolicy(&p.Spec, m.Container) != v1.RestartPolicyNever
}

// shouldRestart is ShouldRestart of a container that has ended.
func (c Container) shouldRestart(p *v1.Pod, m Member) bool {
	return c.Restarting || ShouldRestart(p, m, c.Exit.Code)
}

func matches(e *v1.ContainerRestartRuleOnExitCodes, code int32) bool {
	if e == nil {
		return false
	}
	in := slices.Contains(e.Values, code)
	return in == (e.Operator == v1.ContainerRestartRuleOnExitCodesOpIn)
}

// Outcome says how the Pod's containers have ended for good; done is false while something runs,
// may run, or will be started again. It looks at init and app containers only: a Pod does not wait
// for its sidecars.
func Outcome(pod *v1.Pod, seen Observed) (phase v1.PodPhase, done bool) {
	if RestartingAll(pod, seen) {
		return "", false
	}
	phase = v1.PodSucceeded
	startedAt := slices.ContainsFunc(Members(pod),
		func(m Member) bool { return m.Kind == App && seen.Latest(m.Name) != nil })
	for _, m := range Members(pod) {
		if m.Kind == Sidecar || m.Kind == Ephemeral {
			continue
		}
		c := seen.Latest(m.Name)
		switch {
		case m.Kind == Init && (startedAt || c == nil):
			continue
		case m.Kind == Init:
			if c.State == Exited && c.Exit.Code != 0 && !c.shouldRestart(pod, m) {
				return v1.PodFailed, true
			}
			continue
		case c == nil || c.State != Exited || c.shouldRestart(pod, m):
			return "", false
		case c.Exit.Code != 0:
			phase = v1.PodFailed
		}
	}
	return phase, startedAt
}

// Initialized tells whether the init containers' work is done in this sandbox: an app container has
// been made, or every init container has succeeded (a sidecar: has started).
func Initialized(pod *v1.Pod, seen Observed, sandbox string, health map[string]Health) bool {
	for _, m := range Members(pod) {
		if m.Kind == App && seen.In(sandbox, m.Name) != nil {
			return true
		}
	}
	for _, m := range Members(pod) {
		c := seen.In(sandbox, m.Name)
		switch {
		case m.Kind == Init && (c == nil || c.State != Exited || c.Exit.Code != 0):
			return false
		case m.Kind == Sidecar && (c == nil || c.State != Running || !health[m.Name].Started):
			return false
		}
	}
	return true
}
