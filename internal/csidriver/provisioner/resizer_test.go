package provisioner

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The claim's status says what is allocated, whose turn it is, and one condition of both, as the
// external-resizer has it; it is written once.
func TestTheClaimSaysHowFarItsGrowthIs(t *testing.T) {
	c := &v1.PersistentVolumeClaim{}
	c.Spec.Resources.Requests = v1.ResourceList{v1.ResourceStorage: resource.MustParse("2Gi")}
	c.Status.Conditions = []v1.PersistentVolumeClaimCondition{{Type: "Other"}}
	for _, step := range []struct {
		how       v1.ClaimResourceStatus
		condition v1.PersistentVolumeClaimConditionType
	}{
		{v1.PersistentVolumeClaimControllerResizeInProgress, v1.PersistentVolumeClaimResizing},
		{v1.PersistentVolumeClaimNodeResizePending, v1.PersistentVolumeClaimFileSystemResizePending},
	} {
		next := withResizeStatus(c, step.how, metav1.Now())
		if next == nil {
			t.Fatalf("%s is not written", step.how)
		}
		allocated := next.Status.AllocatedResources[v1.ResourceStorage]
		if got := next.Status.AllocatedResourceStatuses[v1.ResourceStorage]; got != step.how ||
			allocated.String() != "2Gi" {
			t.Errorf("got %s and %s allocated, want %s and 2Gi", got, &allocated, step.how)
		}
		if got := next.Status.Conditions; len(got) != 2 || got[0].Type != "Other" || got[1].Type != step.condition {
			t.Errorf("got conditions %v, want Other and %s", got, step.condition)
		}
		if again := withResizeStatus(next, step.how, metav1.Now()); again != nil {
			t.Errorf("%s is written again", step.how)
		}
		c = next
	}
	c.Spec.Resources.Requests[v1.ResourceStorage] = resource.MustParse("3Gi")
	if withResizeStatus(c, v1.PersistentVolumeClaimNodeResizePending, metav1.Now()) == nil {
		t.Error("a bigger request is not written")
	}
}

// A size that cannot be is left alone: nothing is written and no driver is asked until the request
// changes, and what is written about a growth has nobody look again.
func TestAnInfeasibleSizeIsLeftAlone(t *testing.T) {
	c := &v1.PersistentVolumeClaim{}
	c.Spec.Resources.Requests = v1.ResourceList{v1.ResourceStorage: resource.MustParse("2Gi")}
	c.Status.Phase = v1.ClaimBound
	doing := withResizeStatus(c, v1.PersistentVolumeClaimControllerResizeInProgress, metav1.Now())
	is := withResizeStatus(doing, v1.PersistentVolumeClaimControllerResizeInfeasible, metav1.Now())
	if infeasible(c) || infeasible(doing) || !infeasible(is) {
		t.Errorf("got %t, %t and %t, want only the last infeasible", infeasible(c), infeasible(doing), infeasible(is))
	}
	if got, want := []bool{
		worthLooking(c, doing), worthLooking(doing, is),
	}, []bool{false, false}; !slices.Equal(got, want) {
		t.Errorf("what is written about a growth has the claim looked at again: got %v, want %v", got, want)
	}
	asked := is.DeepCopy()
	asked.Spec.Resources.Requests[v1.ResourceStorage] = resource.MustParse("3Gi")
	if got, want := []bool{
		infeasible(asked), worthLooking(is, asked),
	}, []bool{false, true}; !slices.Equal(got, want) {
		t.Errorf("another request is left alone: got %v, want %v", got, want)
	}
	for name, change := range map[string]func(*v1.PersistentVolumeClaim){
		"phase": func(c *v1.PersistentVolumeClaim) { c.Status.Phase = v1.ClaimLost },
		"size": func(c *v1.PersistentVolumeClaim) {
			c.Status.Capacity = v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}
		},
	} {
		next := is.DeepCopy()
		if change(next); !worthLooking(is, next) {
			t.Errorf("another %s is not looked at", name)
		}
	}
}

// A claim that has grown says nothing of a growth any more; what others say of it stays.
func TestAGrownClaimKeepsOthersConditions(t *testing.T) {
	c := &v1.PersistentVolumeClaim{}
	c.Spec.Resources.Requests = v1.ResourceList{v1.ResourceStorage: resource.MustParse("2Gi")}
	for _, condition := range []v1.PersistentVolumeClaimConditionType{v1.PersistentVolumeClaimResizing, "Other",
		v1.PersistentVolumeClaimFileSystemResizePending, v1.PersistentVolumeClaimControllerResizeError,
		v1.PersistentVolumeClaimNodeResizeError, v1.PersistentVolumeClaimVolumeModifyingVolume} {
		c.Status.Conditions = append(c.Status.Conditions, v1.PersistentVolumeClaimCondition{Type: condition})
	}
	got := withResizeFinished(c)
	if size := got.Status.Capacity[v1.ResourceStorage]; size.String() != "2Gi" {
		t.Errorf("got %s, want 2Gi", &size)
	}
	if has := got.Status.Conditions; len(has) != 2 || has[0].Type != "Other" ||
		has[1].Type != v1.PersistentVolumeClaimVolumeModifyingVolume {
		t.Errorf("got conditions %v, want those that are not of a resize", has)
	}
}
