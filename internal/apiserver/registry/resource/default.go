package resource

import (
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

func defaultDevices(d *resourcev1.DeviceClaim) {
	for i := range d.Requests {
		r := &d.Requests[i]
		if e := r.Exactly; e != nil {
			defaultMode(&e.AllocationMode, &e.Count)
			defaultTolerations(e.Tolerations)
		}
		for k := range r.FirstAvailable {
			s := &r.FirstAvailable[k]
			defaultMode(&s.AllocationMode, &s.Count)
			defaultTolerations(s.Tolerations)
		}
	}
}

// defaultMode asks for one device where a request does not say how many.
func defaultMode(mode *resourcev1.DeviceAllocationMode, count *int64) {
	typed.SetDefaultString(mode, resourcev1.DeviceAllocationModeExactCount)
	if *mode == resourcev1.DeviceAllocationModeExactCount && *count == 0 {
		*count = 1
	}
}

func defaultTolerations(list []resourcev1.DeviceToleration) {
	for i := range list {
		typed.SetDefaultString(&list[i].Operator, resourcev1.DeviceTolerationOpEqual)
	}
}

func defaultStatus(s *resourcev1.ResourceClaimStatus) {
	if s.Allocation == nil {
		return
	}
	for i := range s.Allocation.Devices.Results {
		defaultTolerations(s.Allocation.Devices.Results[i].Tolerations)
	}
}

func defaultSlice(s *resourcev1.ResourceSlice) {
	for i := range s.Spec.Devices {
		for k := range s.Spec.Devices[i].Taints {
			defaultTaint(&s.Spec.Devices[i].Taints[k])
		}
	}
}

// refreshTaint gives a taint whose effect changed the present time, unless the client gave another.
func refreshTaint(t, previous *resourcev1.DeviceTaint) {
	if t.Effect != previous.Effect && t.TimeAdded.Equal(previous.TimeAdded) {
		t.TimeAdded = nil
		defaultTaint(t)
	}
}

// defaultTaint says when a taint was added. What is stored has a time, so only what a client sends
// gets the present one.
func defaultTaint(t *resourcev1.DeviceTaint) {
	if t.TimeAdded == nil {
		t.TimeAdded = &metav1.Time{Time: time.Now().Truncate(time.Second)}
	}
}
