package csi

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// notRequiredAnnotation is of claims whose volumes need no growing on nodes.
const notRequiredAnnotation = "volume.kubernetes.io/node-expansion-not-required"

// growth is what a node has to do for a volume whose PersistentVolume is bigger than what the node
// has.
type growth struct {
	size    resource.Quantity // to grow to
	call    bool              // the driver has to be asked
	marks   bool              // the claim says how far that is: its resizer knows of such states
	givesUp bool              // an error that is the driver's last word ends this growth: the claim asks for another
	done    bool              // nothing has to be done: the claim has the size
}

// nextGrowth decides it by the claim, as upstream. failed: the driver's last word about the volume
// was an error.
func nextGrowth(c *v1.PersistentVolumeClaim, capacity resource.Quantity, failed bool) growth {
	how := c.Status.AllocatedResourceStatuses[v1.ResourceStorage]
	if how == "" && c.Status.AllocatedResources == nil { // a resizer that knows nothing of such states
		return growth{size: capacity, call: true}
	}
	g := growth{size: c.Status.AllocatedResources[v1.ResourceStorage]}
	asked, has := c.Spec.Resources.Requests[v1.ResourceStorage], c.Status.Capacity[v1.ResourceStorage]
	g.givesUp = failed && asked.Cmp(g.size) != 0
	switch {
	case how == v1.PersistentVolumeClaimNodeResizePending || how == v1.PersistentVolumeClaimNodeResizeInProgress:
		g.call, g.marks = true, true
	case how == "" && has.Cmp(g.size) >= 0: // another node's growth was the claim's
		g.call = slices.Contains(c.Spec.AccessModes, v1.ReadWriteMany) &&
			!metav1.HasAnnotation(c.ObjectMeta, notRequiredAnnotation)
		g.done = !g.call
	}
	return g
}

// setGrowth writes how far the growth is; false when the claim says so already.
func setGrowth(c *v1.PersistentVolumeClaim, how v1.ClaimResourceStatus) bool {
	if c.Status.AllocatedResourceStatuses[v1.ResourceStorage] == how {
		return false
	}
	if c.Status.AllocatedResourceStatuses == nil {
		c.Status.AllocatedResourceStatuses = map[v1.ResourceName]v1.ClaimResourceStatus{}
	}
	c.Status.AllocatedResourceStatuses[v1.ResourceStorage] = how
	return true
}

// addGrowthError adds the condition of a growth that failed on the node; false when the claim has
// it already.
func addGrowthError(c *v1.PersistentVolumeClaim, message string, now time.Time) bool {
	isError := func(x v1.PersistentVolumeClaimCondition) bool {
		return x.Type == v1.PersistentVolumeClaimNodeResizeError
	}
	all := c.Status.Conditions
	if i := slices.IndexFunc(all, isError); i >= 0 && all[i].Status == v1.ConditionTrue {
		return false
	}
	c.Status.Conditions = append(slices.DeleteFunc(all, isError), v1.PersistentVolumeClaimCondition{
		Type: v1.PersistentVolumeClaimNodeResizeError, Status: v1.ConditionTrue,
		LastTransitionTime: metav1.NewTime(now), Message: message})
	return true
}

// finishGrowth writes that the volume has the size: nothing is left to do. Conditions that are not
// of a growth stay. False when the claim says so already.
func finishGrowth(c *v1.PersistentVolumeClaim, size resource.Quantity) bool {
	if has := c.Status.Capacity[v1.ResourceStorage]; has.Cmp(size) >= 0 &&
		c.Status.AllocatedResourceStatuses[v1.ResourceStorage] == "" {
		return false
	}
	if c.Status.Capacity == nil {
		c.Status.Capacity = v1.ResourceList{}
	}
	c.Status.Capacity[v1.ResourceStorage] = size
	if delete(c.Status.AllocatedResourceStatuses, v1.ResourceStorage); len(c.Status.AllocatedResourceStatuses) == 0 {
		c.Status.AllocatedResourceStatuses = nil
	}
	c.Status.Conditions = slices.DeleteFunc(c.Status.Conditions, func(x v1.PersistentVolumeClaimCondition) bool {
		switch x.Type {
		case v1.PersistentVolumeClaimResizing, v1.PersistentVolumeClaimFileSystemResizePending,
			v1.PersistentVolumeClaimControllerResizeError, v1.PersistentVolumeClaimNodeResizeError:
			return true
		}
		return false
	})
	return true
}
