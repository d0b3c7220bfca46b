package evict

import (
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"

	"github.com/gantry-project/gantry/internal/kubelet/podplan"
)

// Reason is status.reason of a Pod that was evicted, and the reason of the event.
const Reason = "Evicted"

// Grace is what the containers of a Pod over its own limits get.
const Grace = time.Second

// Use is what a Pod takes of the node's local storage, in bytes.
type Use struct {
	Volumes    map[string]int64 // by name; those that share the node's file system, and emptyDirs of every medium
	Shared     map[string]bool  // volumes that share the node's file system
	Containers map[string]int64 // writable layer and logs, by container
	Logs       int64            // of all containers, dead ones too
	Layers     int64            // writable layers
}

// rules are tried in order; the first that finds something wins.
var rules = []func(*v1.Pod, Use) string{volumes, whole, each}

// Limited tells whether a Pod has a limit that could be broken: only such Pods have to be measured.
func Limited(p *v1.Pod) bool {
	for i := range p.Spec.Volumes {
		if sizeLimit(&p.Spec.Volumes[i]) > 0 {
			return true
		}
	}
	return limit(p) > 0 || slices.ContainsFunc(p.Spec.Containers, func(c v1.Container) bool { return c.Resources.Limits.StorageEphemeral().Sign() > 0 })
}

// Over is the end of a Pod that takes more than it may; nil for one that does not.
func Over(p *v1.Pod, u Use, now time.Time) *podplan.End {
	for _, rule := range rules {
		if text := rule(p, u); text != "" {
			return &podplan.End{Cause: "evicted", Reason: Reason, Message: text, Asked: now, Grace: Grace}
		}
	}
	return nil
}

func sizeLimit(v *v1.Volume) int64 {
	if v.EmptyDir == nil || v.EmptyDir.SizeLimit == nil {
		return 0
	}
	return v.EmptyDir.SizeLimit.Value()
}

// volumes finds an emptyDir over its sizeLimit.
func volumes(p *v1.Pod, u Use) string {
	for i := range p.Spec.Volumes {
		v := &p.Spec.Volumes[i]
		if most := sizeLimit(v); most > 0 && u.Volumes[v.Name] > most {
			return fmt.Sprintf("Usage of EmptyDir volume %q exceeds the limit %q. ", v.Name, v.EmptyDir.SizeLimit.String())
		}
	}
	return ""
}

func limit(p *v1.Pod) int64 {
	q := resource.PodLimits(p, resource.PodResourcesOptions{})[v1.ResourceEphemeralStorage]
	return q.Value()
}

// whole finds a Pod over the sum of its containers' limits.
func whole(p *v1.Pod, u Use) string {
	most := limit(p)
	sum := u.Layers + u.Logs
	for name, used := range u.Volumes {
		if u.Shared[name] {
			sum += used
		}
	}
	if most == 0 || sum <= most {
		return ""
	}
	q := resource.PodLimits(p, resource.PodResourcesOptions{})[v1.ResourceEphemeralStorage]
	return fmt.Sprintf("Pod ephemeral local storage usage exceeds the total limit of containers %s. ", q.String())
}

// each finds a container over its own limit.
func each(p *v1.Pod, u Use) string {
	for _, name := range slices.Sorted(maps.Keys(u.Containers)) {
		i := slices.IndexFunc(p.Spec.Containers, func(c v1.Container) bool { return c.Name == name })
		if i < 0 {
			continue
		}
		if most := p.Spec.Containers[i].Resources.Limits.StorageEphemeral(); most.Sign() > 0 && u.Containers[name] > most.Value() {
			return fmt.Sprintf("Container %s exceeded its local ephemeral storage limit %q. ", name, most.String())
		}
	}
	return ""
}
