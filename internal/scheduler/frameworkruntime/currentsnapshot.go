package frameworkruntime

import (
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// CurrentSnapshot is the snapshot of the cycle under way, for plugins that ask for it through the
// Handle.
type CurrentSnapshot struct {
	// AssignedPod gives a Pod as it is on a node now, nil for others; for RunPreEnqueuePlugins
	// only, because the scheduler's lock must be held. May be nil.
	AssignedPod   func(types.UID) *v1.Pod
	PodGroupStore *PodGroups // nil: PodGroups are not served

	snapshot atomic.Pointer[snapshot.Snapshot]
}

// Set is called when a cycle begins.
func (c *CurrentSnapshot) Set(s *snapshot.Snapshot) { c.snapshot.Store(s) }

// Get is the snapshot; an empty one before the first cycle.
func (c *CurrentSnapshot) Get() *snapshot.Snapshot {
	if s := c.snapshot.Load(); s != nil {
		return s
	}
	return snapshot.Of(nil, nil)
}

// NodeInfos implements framework.SharedLister.
func (c *CurrentSnapshot) NodeInfos() framework.NodeInfoLister { return c.Get() }

// StorageInfos implements framework.SharedLister.
func (c *CurrentSnapshot) StorageInfos() framework.StorageInfoLister { return c.Get() }

// PodGroupStates implements framework.SharedLister.
func (c *CurrentSnapshot) PodGroupStates() framework.PodGroupStateLister {
	if c.PodGroupStore != nil {
		return c.PodGroupStore.PodGroupStates()
	}
	return c.Get().PodGroupStates()
}

// PodGroups implements framework.SharedLister.
func (c *CurrentSnapshot) PodGroups() framework.PodGroupLister {
	if c.PodGroupStore != nil {
		return c.PodGroupStore.PodGroups()
	}
	return c.Get().PodGroups()
}

// CompositePodGroupStates implements framework.SharedLister.
func (c *CurrentSnapshot) CompositePodGroupStates() framework.CompositePodGroupStateLister {
	return c.Get().CompositePodGroupStates()
}

// CompositePodGroups implements framework.SharedLister.
func (c *CurrentSnapshot) CompositePodGroups() framework.CompositePodGroupLister {
	return c.Get().CompositePodGroups()
}
