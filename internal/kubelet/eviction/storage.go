package eviction

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/podplan"
)

// Reason is status.reason of a Pod that was evicted, and the reason of the event.
const Reason = "Evicted"

// Grace is what the containers of a Pod over its own limits get.
const Grace = time.Second

// Usage is what a Pod takes of the node's local storage, in bytes.
type Usage struct {
	Volumes        map[string]int64 // by name; those that share the node's file system, and emptyDirs of every medium
	Shared         map[string]bool  // volumes that share the node's file system
	Containers     map[string]int64 // writable layer and logs, by container
	ContainerLogs  map[string]int64 // logs alone, by container
	Logs           int64            // of all containers, dead ones too
	WritableLayers int64            // writable layers
}

// rules are tried in order; the first that finds something wins.
var rules = []func(*v1.Pod, Usage) *exceededLimit{emptyDirLimitEviction, podEphemeralStorageLimitEviction,
	containerEphemeralStorageLimitEviction}

// exceededLimit is a broken limit: upstream's text, and the numbers it leaves out.
type exceededLimit struct {
	text string
	fact journal.StorageExceeded
}

// HasStorageLimits tells whether a Pod has a limit that could be broken: only such Pods have to be
// measured.
func HasStorageLimits(p *v1.Pod) bool {
	for i := range p.Spec.Volumes {
		if sizeLimit(&p.Spec.Volumes[i]) > 0 {
			return true
		}
	}
	return podStorageLimit(p) > 0 || slices.ContainsFunc(p.Spec.Containers,
		func(c v1.Container) bool { return c.Resources.Limits.StorageEphemeral().Sign() > 0 })
}

// LocalStorageEviction is the end of a Pod that takes more than it may, and what took how much; nil
// for one that does not.
func LocalStorageEviction(p *v1.Pod, u Usage, now time.Time) (*podplan.Termination, journal.StorageExceeded) {
	for _, rule := range rules {
		if x := rule(p, u); x != nil {
			slices.SortStableFunc(x.fact.Parts,
				func(a, b journal.StoragePart) int { return cmp.Compare(b.Bytes, a.Bytes) })
			return &podplan.Termination{Cause: "evicted", Reason: Reason, Message: x.text, RequestedAt: now,
				Grace: Grace}, x.fact
		}
	}
	return nil, journal.StorageExceeded{}
}

func sizeLimit(v *v1.Volume) int64 {
	if v.EmptyDir == nil || v.EmptyDir.SizeLimit == nil {
		return 0
	}
	return v.EmptyDir.SizeLimit.Value()
}

// emptyDirLimitEviction finds an emptyDir over its sizeLimit.
func emptyDirLimitEviction(p *v1.Pod, u Usage) *exceededLimit {
	for i := range p.Spec.Volumes {
		v := &p.Spec.Volumes[i]
		if most := sizeLimit(v); most > 0 && u.Volumes[v.Name] > most {
			return &exceededLimit{
				fmt.Sprintf("Usage of EmptyDir volume %q exceeds the limit %q. ", v.Name,
					v.EmptyDir.SizeLimit.String()),
				journal.StorageExceeded{Of: journal.OfVolume, Name: v.Name, Used: u.Volumes[v.Name], Limit: most},
			}
		}
	}
	return nil
}

func podStorageLimit(p *v1.Pod) int64 {
	q := resource.PodLimits(p, resource.PodResourcesOptions{})[v1.ResourceEphemeralStorage]
	return q.Value()
}

// podEphemeralStorageLimitEviction finds a Pod over the sum of its containers' limits.
func podEphemeralStorageLimitEviction(p *v1.Pod, u Usage) *exceededLimit {
	most := podStorageLimit(p)
	sum := u.WritableLayers + u.Logs
	parts := []journal.StoragePart{{What: "writable layers", Bytes: u.WritableLayers}, {What: "logs", Bytes: u.Logs}}
	for _, name := range slices.Sorted(maps.Keys(u.Volumes)) {
		if used := u.Volumes[name]; u.Shared[name] {
			sum += used
			parts = append(parts, journal.StoragePart{What: "volume", Name: name, Bytes: used})
		}
	}
	if most == 0 || sum <= most {
		return nil
	}
	parts = slices.DeleteFunc(parts, func(x journal.StoragePart) bool { return x.Bytes == 0 })
	q := resource.PodLimits(p, resource.PodResourcesOptions{})[v1.ResourceEphemeralStorage]
	return &exceededLimit{
		fmt.Sprintf("Pod ephemeral local storage usage exceeds the total limit of containers %s. ", q.String()),
		journal.StorageExceeded{Of: journal.OfPod, Used: sum, Limit: most, Parts: parts},
	}
}

// containerEphemeralStorageLimitEviction finds a container over its own limit.
func containerEphemeralStorageLimitEviction(p *v1.Pod, u Usage) *exceededLimit {
	for _, name := range slices.Sorted(maps.Keys(u.Containers)) {
		i := slices.IndexFunc(p.Spec.Containers, func(c v1.Container) bool { return c.Name == name })
		if i < 0 {
			continue
		}
		if most := p.Spec.Containers[i].Resources.Limits.StorageEphemeral(); most.Sign() > 0 &&
			u.Containers[name] > most.Value() {
			return &exceededLimit{
				fmt.Sprintf("Container %s exceeded its local ephemeral storage limit %q. ", name, most.String()),
				journal.StorageExceeded{Of: journal.OfContainer, Name: name, Used: u.Containers[name],
					Limit: most.Value(), Parts: []journal.StoragePart{
						{What: "writable layer", Bytes: u.Containers[name] - u.ContainerLogs[name]},
						{What: "logs", Bytes: u.ContainerLogs[name]},
					}},
			}
		}
	}
	return nil
}
