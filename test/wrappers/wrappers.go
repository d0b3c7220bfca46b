// Package wrappers builds Pods and Nodes for tests, in the words of kube-scheduler's st.MakePod and
// st.MakeNode: each method sets one field and returns the builder, Obj returns the object. What is
// not set stays zero; no default of the API server is applied.
package wrappers

import (
	"maps"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Resources parses amounts; it panics at a bad one.
func Resources(amounts map[v1.ResourceName]string) v1.ResourceList {
	out := v1.ResourceList{}
	for name, amount := range amounts {
		out[name] = resource.MustParse(amount)
	}
	return out
}

// ResourceList parses pairs of a name and an amount; it panics at a bad one.
func ResourceList(pairs ...string) v1.ResourceList {
	out := v1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[v1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

// PodWrapper builds a Pod.
type PodWrapper struct{ v1.Pod }

// CPUAndMemory are amounts of both; an empty text leaves one out.
func CPUAndMemory(cpu, memory string) v1.ResourceList {
	l := v1.ResourceList{}
	if cpu != "" {
		l[v1.ResourceCPU] = resource.MustParse(cpu)
	}
	if memory != "" {
		l[v1.ResourceMemory] = resource.MustParse(memory)
	}
	return l
}

// PodCondition is a condition of p; empty when p has none of the type.
func PodCondition(p *v1.Pod, kind v1.PodConditionType) v1.PodCondition {
	for _, c := range p.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return v1.PodCondition{}
}

// MakePod begins an empty Pod.
func MakePod() *PodWrapper { return &PodWrapper{} }

// Obj returns the Pod, after the changes given.
func (p *PodWrapper) Obj(changes ...func(*v1.Pod)) *v1.Pod {
	for _, change := range changes {
		change(&p.Pod)
	}
	return &p.Pod
}

// Name sets the name.
func (p *PodWrapper) Name(s string) *PodWrapper { p.ObjectMeta.Name = s; return p }

// Namespace sets the namespace.
func (p *PodWrapper) Namespace(s string) *PodWrapper { p.ObjectMeta.Namespace = s; return p }

// UID sets the UID.
func (p *PodWrapper) UID(s string) *PodWrapper { p.ObjectMeta.UID = types.UID(s); return p }

// ResourceVersion sets the version that the API server gave.
func (p *PodWrapper) ResourceVersion(s string) *PodWrapper {
	p.ObjectMeta.ResourceVersion = s
	return p
}

// Generation sets the generation of the spec.
func (p *PodWrapper) Generation(n int64) *PodWrapper { p.ObjectMeta.Generation = n; return p }

// CreationTimestamp sets when the Pod was created.
func (p *PodWrapper) CreationTimestamp(t metav1.Time) *PodWrapper {
	p.ObjectMeta.CreationTimestamp = t
	return p
}

// Label adds a label.
func (p *PodWrapper) Label(key, value string) *PodWrapper {
	return p.Labels(map[string]string{key: value})
}

// Labels adds labels.
func (p *PodWrapper) Labels(labels map[string]string) *PodWrapper {
	if p.ObjectMeta.Labels == nil {
		p.ObjectMeta.Labels = map[string]string{}
	}
	maps.Copy(p.ObjectMeta.Labels, labels)
	return p
}

// Node sets the node that the Pod is bound to.
func (p *PodWrapper) Node(s string) *PodWrapper { p.Spec.NodeName = s; return p }

// SchedulerName sets the scheduler that is to bind the Pod.
func (p *PodWrapper) SchedulerName(s string) *PodWrapper { p.Spec.SchedulerName = s; return p }

// Priority sets the priority.
func (p *PodWrapper) Priority(n int32) *PodWrapper { p.Spec.Priority = &n; return p }

// RestartPolicy sets the restart policy.
func (p *PodWrapper) RestartPolicy(s v1.RestartPolicy) *PodWrapper {
	p.Spec.RestartPolicy = s
	return p
}

// TerminationGracePeriodSeconds sets the grace period.
func (p *PodWrapper) TerminationGracePeriodSeconds(n int64) *PodWrapper {
	p.Spec.TerminationGracePeriodSeconds = &n
	return p
}

// Container adds a container of this name and image.
func (p *PodWrapper) Container(name, image string) *PodWrapper {
	return p.Containers(v1.Container{Name: name, Image: image})
}

// Containers adds containers.
func (p *PodWrapper) Containers(cs ...v1.Container) *PodWrapper {
	p.Spec.Containers = append(p.Spec.Containers, cs...)
	return p
}

// InitContainers adds init containers.
func (p *PodWrapper) InitContainers(cs ...v1.Container) *PodWrapper {
	p.Spec.InitContainers = append(p.Spec.InitContainers, cs...)
	return p
}

// Volumes adds volumes.
func (p *PodWrapper) Volumes(vs ...v1.Volume) *PodWrapper {
	p.Spec.Volumes = append(p.Spec.Volumes, vs...)
	return p
}

// Claims adds a volume of each PersistentVolumeClaim, which is named as the claim is.
func (p *PodWrapper) Claims(names ...string) *PodWrapper {
	for _, n := range names {
		p.Volumes(v1.Volume{Name: n, VolumeSource: v1.VolumeSource{
			PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: n}}})
	}
	return p
}

// SchedulingGroup makes the Pod a member of a PodGroup.
func (p *PodWrapper) SchedulingGroup(group string) *PodWrapper {
	p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &group}
	return p
}

// Req makes the last container, or a first one named "c", ask for amounts.
func (p *PodWrapper) Req(amounts map[v1.ResourceName]string) *PodWrapper {
	p.last().Resources.Requests = Resources(amounts)
	return p
}

func (p *PodWrapper) last() *v1.Container {
	if len(p.Spec.Containers) == 0 {
		p.Container("c", "")
	}
	return &p.Spec.Containers[len(p.Spec.Containers)-1]
}

// Phase sets the phase.
func (p *PodWrapper) Phase(s v1.PodPhase) *PodWrapper { p.Status.Phase = s; return p }

// PodIP sets the address, in both fields of the status.
func (p *PodWrapper) PodIP(ip string) *PodWrapper {
	p.Status.PodIP, p.Status.PodIPs = ip, []v1.PodIP{{IP: ip}}
	return p
}

// Condition adds a condition.
func (p *PodWrapper) Condition(t v1.PodConditionType, s v1.ConditionStatus) *PodWrapper {
	p.Status.Conditions = append(p.Status.Conditions, v1.PodCondition{Type: t, Status: s})
	return p
}

// Ready adds the condition Ready, true or false.
func (p *PodWrapper) Ready(ready bool) *PodWrapper {
	if ready {
		return p.Condition(v1.PodReady, v1.ConditionTrue)
	}
	return p.Condition(v1.PodReady, v1.ConditionFalse)
}

// NodeWrapper builds a Node.
type NodeWrapper struct{ v1.Node }

// MakeNode begins an empty Node.
func MakeNode() *NodeWrapper { return &NodeWrapper{} }

// Obj returns the Node, after the changes given.
func (n *NodeWrapper) Obj(changes ...func(*v1.Node)) *v1.Node {
	for _, change := range changes {
		change(&n.Node)
	}
	return &n.Node
}

// Name sets the name.
func (n *NodeWrapper) Name(s string) *NodeWrapper { n.ObjectMeta.Name = s; return n }

// UID sets the UID.
func (n *NodeWrapper) UID(s string) *NodeWrapper { n.ObjectMeta.UID = types.UID(s); return n }

// Hostname sets the name, and the label of the hostname with it, as a kubelet does.
func (n *NodeWrapper) Hostname(s string) *NodeWrapper { return n.Name(s).Label(v1.LabelHostname, s) }

// Label adds a label.
func (n *NodeWrapper) Label(key, value string) *NodeWrapper {
	if n.ObjectMeta.Labels == nil {
		n.ObjectMeta.Labels = map[string]string{}
	}
	n.ObjectMeta.Labels[key] = value
	return n
}

// Allocatable sets what Pods may ask for.
func (n *NodeWrapper) Allocatable(amounts map[v1.ResourceName]string) *NodeWrapper {
	n.Status.Allocatable = Resources(amounts)
	return n
}

// Taints adds taints.
func (n *NodeWrapper) Taints(taints ...v1.Taint) *NodeWrapper {
	n.Spec.Taints = append(n.Spec.Taints, taints...)
	return n
}

// PodCIDRs sets the ranges that the node's Pods get addresses of.
func (n *NodeWrapper) PodCIDRs(ranges ...string) *NodeWrapper {
	if len(ranges) > 0 {
		n.Spec.PodCIDR, n.Spec.PodCIDRs = ranges[0], ranges
	}
	return n
}
