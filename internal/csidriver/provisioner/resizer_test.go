package provisioner

import (
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
		next := progressed(c, step.how, metav1.Now())
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
		if again := progressed(next, step.how, metav1.Now()); again != nil {
			t.Errorf("%s is written again", step.how)
		}
		c = next
	}
	c.Spec.Resources.Requests[v1.ResourceStorage] = resource.MustParse("3Gi")
	if progressed(c, v1.PersistentVolumeClaimNodeResizePending, metav1.Now()) == nil {
		t.Error("a bigger request is not written")
	}
}
