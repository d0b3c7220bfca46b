package podplan

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/gantry-project/gantry/internal/pod"
)

// A resize reaches podplan when the node has granted it: In.Pod then has the new sizes, In.Applied
// what was really put into force. KEP-1287, KEP-5419.

// Applied is what runs have been given: resources of running containers by name, and of the Pod's
// cgroup under PodResources. A missing entry is as the Pod's spec.
type Applied map[string]v1.ResourceRequirements

// PodResources names the Pod as a whole in Applied.
const PodResources = "/pod"

// ApplyTo is the Pod with what was applied in place of what its spec says.
func (a Applied) ApplyTo(p *v1.Pod) *v1.Pod {
	if len(a) == 0 {
		return p
	}
	s := pod.AllocationOf(p)
	for name, r := range a {
		if _, known := s.Containers[name]; known {
			s.Containers[name] = r
		}
	}
	if r, ok := a[PodResources]; ok && p.Spec.Resources != nil {
		s.Pod = &r
	}
	return s.ApplyTo(p)
}

// With is what is applied once a container, or the Pod, has been given r; the receiver stays.
func (a Applied) With(name string, r v1.ResourceRequirements) Applied {
	out := Applied{}
	maps.Copy(out, a)
	out[name] = r
	return out
}

// podResources is what the cgroup of the whole Pod is measured by.
func podResources(p *v1.Pod) v1.ResourceRequirements {
	if p.Spec.Resources != nil {
		return *p.Spec.Resources
	}
	return pod.Totals(p)
}

// ResourcesOf is what a container of that name, or the Pod for PodResources, is to have.
func ResourcesOf(p *v1.Pod, name string) v1.ResourceRequirements {
	if name == PodResources {
		return podResources(p)
	}
	m, _ := MemberOf(p, name)
	if m.Container == nil {
		return v1.ResourceRequirements{}
	}
	return m.Resources
}

// resizedResources tells for which resources a container runs with other values than it was
// granted.
func (in In) resizedResources(name string) []v1.ResourceName {
	have, known := in.Applied[name]
	if !known {
		return nil
	}
	want := ResourcesOf(in.Pod, name)
	var out []v1.ResourceName
	for _, r := range []v1.ResourceName{v1.ResourceMemory, v1.ResourceCPU} {
		a, b := want.Requests[r], have.Requests[r]
		x, y := want.Limits[r], have.Limits[r]
		if a.Cmp(b) != 0 || x.Cmp(y) != 0 {
			out = append(out, r)
		}
	}
	return out
}

// Resizing tells whether something that runs has not got its granted size yet.
func Resizing(in In) bool {
	sandbox := in.Observed.Sandbox()
	if sandbox == nil {
		return false
	}
	for _, m := range Members(in.Pod) {
		if c := in.Observed.In(sandbox.ID, m.Name); c != nil && c.State == Running &&
			len(in.resizedResources(m.Name)) > 0 {
			return true
		}
	}
	return len(in.resizedResources(PodResources)) > 0
}

// restartsForResize tells whether a running container has to be restarted for its new size.
func (in In) restartsForResize(m Member) bool {
	if m.Kind == Init || m.Kind == Ephemeral {
		return false
	}
	return slices.ContainsFunc(in.resizedResources(m.Name),
		func(r v1.ResourceName) bool { return pod.ResizePolicy(m.Container, r) == v1.RestartContainer })
}

// planResize adds what gives running containers and the Pod's cgroup their granted sizes without a
// restart.
func planResize(in In, p *Plan) {
	sandbox := in.Observed.Sandbox()
	a := Resize{FinalizePodCgroup: true}
	for _, m := range Members(in.Pod) {
		c := in.Observed.In(sandbox.ID, m.Name)
		if c == nil || c.State != Running || len(in.resizedResources(m.Name)) == 0 || in.restartsForResize(m) {
			continue
		}
		a.Containers = append(a.Containers, ResizedContainer{ID: c.ID, Name: m.Name})
	}
	if len(a.Containers) == 0 && isActuated(in.Applied, in.Pod) {
		return
	}
	if !in.waitsForRetry(p, ResizeTry) {
		p.Do = append(p.Do, a)
	}
}

func isActuated(a Applied, p *v1.Pod) bool {
	have, known := a[PodResources]
	return !known || equality.Semantic.DeepEqual(have, podResources(p))
}
