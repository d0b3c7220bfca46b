package fork

import (
	"testing"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// How long attaching takes is the median of each driver, from what the API kept of the writes.
func TestAttachingIsLearnt(t *testing.T) {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	attachment := func(driver string, took time.Duration, attached bool) runtime.Object {
		at := metav1.NewTime(began.Add(took))
		return &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(began),
			ManagedFields: []metav1.ManagedFieldsEntry{{Time: &metav1.Time{Time: began}},
				{Subresource: "status", Time: &at}}},
			Spec:   storagev1.VolumeAttachmentSpec{Attacher: driver},
			Status: storagev1.VolumeAttachmentStatus{Attached: attached}}
	}
	a := newAttacher([]runtime.Object{attachment("slow", 9*time.Second, true), attachment("slow", 12*time.Second, true),
		attachment("slow", 40*time.Second, true), attachment("slow", time.Hour, true),
		attachment("other", 30*time.Second, false)})
	if slow, other := a.usual("slow"), a.usual("other"); slow != 12*time.Second || other != assumedAttaching {
		t.Errorf("slow %s, other %s, want 12s and what is assumed", slow, other)
	}
}
