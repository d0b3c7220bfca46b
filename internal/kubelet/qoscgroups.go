package kubelet

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/kubelet/resource"
	nodeutil "github.com/gantry-project/gantry/internal/node"
)

// qosContainerManager is the cgroup tree whose tiers have the shares and the protected memory of
// all their Pods together, brought up to date whenever a Pod comes or goes.
type qosContainerManager struct {
	Cgroups
	opts resource.Options
	pods func() []*v1.Pod // that take part of the node
	// allocatable is the node's, of which MemoryReserved keeps a part
	allocatable func() v1.ResourceList
	// protected is told the bytes that Guaranteed and Burstable Pods keep
	protected func(min, low int64)

	mu   sync.Mutex
	last map[string]resource.Values // what the tiers have, by path
}

// Ensure makes a cgroup and balances the tiers.
func (t *qosContainerManager) Ensure(path string, v resource.Values) error {
	if err := t.Cgroups.Ensure(path, v); err != nil {
		return err
	}
	return t.updateCgroups()
}

// Remove removes a cgroup and balances the tiers.
func (t *qosContainerManager) Remove(path string) error {
	if err := t.Cgroups.Remove(path); err != nil {
		return err
	}
	return t.updateCgroups()
}

func (t *qosContainerManager) updateCgroups() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	pods := t.pods()
	t.protected(resource.ProtectedMemory(pods, t.opts))
	// from the root down: a tier has no more protection than what is above it
	if err := t.update(t.opts.PodsPath(), resource.ForAllPods(pods, t.opts)); err != nil {
		return err
	}
	var allocatable v1.ResourceList
	if t.opts.MemoryReserved != nil {
		allocatable = t.allocatable()
	}
	tiers := resource.ForTiers(pods, allocatable, t.opts)
	if err := t.updateTier(v1.PodQOSBurstable, tiers.Burstable); err != nil || t.opts.MemoryReserved == nil {
		return err
	}
	return t.updateTier(v1.PodQOSBestEffort, tiers.BestEffort)
}

// updateTier writes the values of a tier. A limit below what the tier uses may be refused: then it
// keeps the one it has, until its Pods change.
func (t *qosContainerManager) updateTier(class v1.PodQOSClass, v resource.Values) error {
	path := t.opts.QOSPath(class)
	err := t.update(path, v)
	if err == nil || v.Memory == nil {
		return err
	}
	klog.Background().Error(err, "Failed to update QoS cgroup configuration", "class", class, "limit", *v.Memory)
	v.Memory = nil
	return t.update(path, v)
}

// update writes the values of a tier that differ from what it has; t.mu is held.
func (t *qosContainerManager) update(path string, v resource.Values) error {
	if reflect.DeepEqual(v, t.last[path]) {
		return nil
	}
	if err := t.Cgroups.Ensure(path, v); err != nil {
		return fmt.Errorf("values of %s: %w", path, err)
	}
	if t.last == nil {
		t.last = map[string]resource.Values{}
	}
	t.last[path] = v
	return nil
}

// activePods are the Pods that take part of the node.
func (k *Kubelet) activePods() []*v1.Pod {
	var out []*v1.Pod
	for _, v := range k.podWorkers.Views() {
		if v.Stage > podplan.Waiting && v.Stage < podplan.Stopped {
			out = append(out, v.Pod)
		}
	}
	return out
}

// enforcementRetry is how soon a refused limit of all Pods is tried again: upstream's period.
const enforcementRetry = time.Minute

// createCgroups makes the cgroups that hold all Pods, and the tiers in them.
func (k *Kubelet) createCgroups() error {
	for _, path := range k.opts.Resources.Tree() {
		v := resource.Values{}
		if path == k.opts.Resources.QOSPath(v1.PodQOSBestEffort) {
			v = resource.ForBestEffort()
		}
		if err := k.opts.Dependencies.Cgroups.Ensure(path, v); err != nil {
			return fmt.Errorf("cgroup %s of the Pods: %w", path, err)
		}
	}
	return nil
}

// enforceNodeAllocatable writes what the node's reservations leave to all Pods together, and says
// so in an event of the node. The kernel refuses a limit that Pods exceed already: retry tries
// again each minute, while evictions bring them down, until ctx ends. It is nil when there is
// nothing left to do.
func (k *Kubelet) enforceNodeAllocatable(ctx context.Context) (retry func()) {
	v := k.podsCgroupValues()
	if reflect.DeepEqual(v, resource.Values{}) {
		return nil
	}
	path, node := k.opts.Resources.PodsPath(), nodeutil.Reference(k.opts.NodeName)
	enforce := func() bool {
		if err := k.opts.Dependencies.Cgroups.Ensure(path, v); err != nil {
			message := fmt.Sprintf("Failed to update Node Allocatable Limits %q: %v", path, err)
			k.events.Event(node, v1.EventTypeWarning, "FailedNodeAllocatableEnforcement", message)
			klog.FromContext(ctx).Error(err, "Failed to update node allocatable limits; the next try is in a minute",
				"cgroup", path)
			return false
		}
		k.events.Event(node, v1.EventTypeNormal, "NodeAllocatableEnforced",
			"Updated Node Allocatable limit across pods")
		return true
	}
	if enforce() {
		return nil
	}
	return func() {
		tick := time.NewTicker(enforcementRetry)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if enforce() {
				return
			}
		}
	}
}

// podsCgroupValues bound all Pods together, unless the configuration does not want that or the
// capacity is not known.
func (k *Kubelet) podsCgroupValues() resource.Values {
	c, capacity := k.opts.Config, k.node.capacity()
	if len(capacity) == 0 ||
		c.EnforceNodeAllocatable != nil && !slices.Contains(c.EnforceNodeAllocatable, "pods") {
		return resource.Values{}
	}
	return resource.ForPods(capacity,
		resource.Reserved{System: resource.ParseQuantities(c.SystemReserved),
			Kube: resource.ParseQuantities(c.KubeReserved)})
}
