package podplan

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/gantry-project/gantry/internal/pod"
)

// A resize reaches podplan when the node has granted it: In.Pod then has the new sizes, In.Applied what was really put into force. KEP-1287, KEP-5419.

// Applied is what runs have been given: resources of running containers by name, and of the Pod's cgroup under PodSize. A missing entry is as the Pod's spec.
type Applied map[string]v1.ResourceRequirements

// PodSize names the Pod as a whole in Applied.
const PodSize = "/pod"

// On is the Pod with what was applied in place of what its spec says.
func (a Applied) On(p *v1.Pod) *v1.Pod {
	if len(a) == 0 {
		return p
	}
	s := pod.SizesOf(p)
	for name, r := range a {
		if _, known := s.Containers[name]; known {
			s.Containers[name] = r
		}
	}
	if r, ok := a[PodSize]; ok && p.Spec.Resources != nil {
		s.Pod = &r
	}
	return s.On(p)
}

// With is what is applied once a container, or the Pod, has been given r; the receiver stays.
func (a Applied) With(name string, r v1.ResourceRequirements) Applied {
	out := Applied{}
	maps.Copy(out, a)
	out[name] = r
	return out
}

// sized is what the cgroup of the whole Pod is measured by.
func sized(p *v1.Pod) v1.ResourceRequirements {
	if p.Spec.Resources != nil {
		return *p.Spec.Resources
	}
	return pod.Totals(p)
}

// Size is what a container of that name, or the Pod for PodSize, is to have.
func Size(p *v1.Pod, name string) v1.ResourceRequirements {
	if name == PodSize {
		return sized(p)
	}
	m, _ := MemberOf(p, name)
	if m.Container == nil {
		return v1.ResourceRequirements{}
	}
	return m.Resources
}

// differs tells for which resources a container runs with other values than it was granted.
func (in In) differs(name string) []v1.ResourceName {
	have, known := in.Applied[name]
	if !known {
		return nil
	}
	want := Size(in.Pod, name)
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
	box := in.Seen.Sandbox()
	if box == nil {
		return false
	}
	for _, m := range Members(in.Pod) {
		if c := in.Seen.In(box.ID, m.Name); c != nil && c.State == Running && len(in.differs(m.Name)) > 0 {
			return true
		}
	}
	return len(in.differs(PodSize)) > 0
}

// anew tells whether a running container has to be restarted for its new size.
func (in In) anew(m Member) bool {
	if m.Kind == Init || m.Kind == Ephemeral {
		return false
	}
	return slices.ContainsFunc(in.differs(m.Name), func(r v1.ResourceName) bool { return pod.ResizePolicy(m.Container, r) == v1.RestartContainer })
}

// resize adds what gives running containers and the Pod's cgroup their granted sizes without a restart.
func resize(in In, p *Plan) {
	box := in.Seen.Sandbox()
	a := Resize{Settle: true}
	for _, m := range Members(in.Pod) {
		c := in.Seen.In(box.ID, m.Name)
		if c == nil || c.State != Running || len(in.differs(m.Name)) == 0 || in.anew(m) {
			continue
		}
		a.Containers = append(a.Containers, Sized{ID: c.ID, Name: m.Name})
	}
	if len(a.Containers) == 0 && equal(in.Applied, in.Pod) {
		return
	}
	if !in.held(p, ResizeTry) {
		p.Do = append(p.Do, a)
	}
}

func equal(a Applied, p *v1.Pod) bool {
	have, known := a[PodSize]
	return !known || equality.Semantic.DeepEqual(have, sized(p))
}
