package pod

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/journal"
)

const (
	// SystemCritical is the lowest priority of the two built-in critical classes, 2 billion (docs:
	// guaranteed scheduling for critical add-ons).
	SystemCritical int32 = 2_000_000_000

	// SourceAnnotation says where the kubelet has a Pod from; "api" or absent for Pods of the API.
	SourceAnnotation = "kubernetes.io/config.source"
)

// Ref names the Pod in the journal.
func Ref(p *v1.Pod) journal.Ref {
	return journal.Ref{Namespace: p.Namespace, Name: p.Name, UID: string(p.UID)}
}

// Key is "namespace/name".
func Key(p *v1.Pod) string { return p.Namespace + "/" + p.Name }

// IsTerminal tells whether the Pod has ended for good: its phase is Succeeded or Failed.
func IsTerminal(p *v1.Pod) bool { return IsPhaseTerminal(p.Status.Phase) }

// IsPhaseTerminal tells whether a Pod in the phase has ended for good.
func IsPhaseTerminal(phase v1.PodPhase) bool {
	return phase == v1.PodSucceeded || phase == v1.PodFailed
}

// IsActive tells whether the Pod counts as one of its owner's (upstream: IsPodActive): it has not
// ended and is not being deleted.
func IsActive(p *v1.Pod) bool { return !IsTerminal(p) && p.DeletionTimestamp == nil }

// Condition is the Pod's condition of the type (upstream: GetPodCondition), a pointer into the Pod;
// nil if it has none.
func Condition(p *v1.Pod, t v1.PodConditionType) *v1.PodCondition {
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == t {
			return &p.Status.Conditions[i]
		}
	}
	return nil
}

// IsConditionTrue tells whether the Pod has the condition with status True.
func IsConditionTrue(p *v1.Pod, t v1.PodConditionType) bool {
	c := Condition(p, t)
	return c != nil && c.Status == v1.ConditionTrue
}

// ReadyCondition is the Pod's Ready condition, nil if it has none.
func ReadyCondition(p *v1.Pod) *v1.PodCondition { return Condition(p, v1.PodReady) }

// UntilAvailable returns how long a ready Pod must stay ready to be available (upstream:
// IsPodAvailable): at most 0 if it is. A Pod without a time since when it is ready is not
// available; for one that is not ready the result means nothing.
func UntilAvailable(p *v1.Pod, minReadySeconds int32, now time.Time) time.Duration {
	c := ReadyCondition(p)
	wait := time.Duration(minReadySeconds) * time.Second
	if c == nil || c.LastTransitionTime.IsZero() {
		return wait
	}
	return wait - now.Sub(c.LastTransitionTime.Time)
}

// IsReady tells whether the Pod's Ready condition is True.
func IsReady(p *v1.Pod) bool { return IsConditionTrue(p, v1.PodReady) }

// Priority is spec.priority, 0 when unset (docs: pod priority and preemption).
func Priority(p *v1.Pod) int32 {
	if p.Spec.Priority != nil {
		return *p.Spec.Priority
	}
	return 0
}

// IsMirror tells whether the Pod is the API's image of a static Pod.
func IsMirror(p *v1.Pod) bool {
	_, ok := p.Annotations[v1.MirrorPodAnnotationKey]
	return ok
}

// IsStatic tells whether the kubelet read the Pod from a file or URL rather than from the API.
func IsStatic(p *v1.Pod) bool {
	src, ok := p.Annotations[SourceAnnotation]
	return ok && src != "api"
}

// IsCritical tells whether the Pod is excepted from eviction and may preempt others at admission:
// static and mirror Pods, and priorities of SystemCritical or more.
func IsCritical(p *v1.Pod) bool {
	return IsStatic(p) || IsMirror(p) || p.Spec.Priority != nil && *p.Spec.Priority >= SystemCritical
}

// CanRestartAll tells whether the end of one container may start all of them again (KEP-5532).
func CanRestartAll(p *v1.Pod) bool {
	for _, list := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			for _, r := range list[i].RestartPolicyRules {
				if r.Action == v1.ContainerRestartRuleActionRestartAllContainers {
					return true
				}
			}
		}
	}
	return false
}

// IsSidecar tells whether an init container keeps running beside the app containers (restartPolicy
// Always).
func IsSidecar(c *v1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways
}

// HostPorts lists the ports the Pod takes on its node: those of app containers and of sidecars with
// hostPort set. Ordinary init containers are over before others start and take none (as upstream's
// scheduler counts).
func HostPorts(p *v1.Pod) []v1.ContainerPort {
	var out []v1.ContainerPort
	add := func(c *v1.Container) {
		for _, port := range c.Ports {
			if port.HostPort > 0 {
				out = append(out, port)
			}
		}
	}
	for i := range p.Spec.InitContainers {
		if IsSidecar(&p.Spec.InitContainers[i]) {
			add(&p.Spec.InitContainers[i])
		}
	}
	for i := range p.Spec.Containers {
		add(&p.Spec.Containers[i])
	}
	return out
}

// ContainersInOrder are the init containers and the containers in the order in which they start.
func ContainersInOrder(p *v1.Pod) []*v1.Container {
	out := make([]*v1.Container, 0, len(p.Spec.InitContainers)+len(p.Spec.Containers))
	for _, list := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			out = append(out, &list[i])
		}
	}
	return out
}

// EndsBeforeOthers tells whether the container of that name is an init container that ends before
// the next starts: no sidecar.
func EndsBeforeOthers(p *v1.Pod, name string) bool {
	for i := range p.Spec.InitContainers {
		if c := &p.Spec.InitContainers[i]; c.Name == name {
			return !IsSidecar(c)
		}
	}
	return false
}
