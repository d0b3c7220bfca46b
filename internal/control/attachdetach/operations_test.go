package attachdetach

import (
	"fmt"
	"slices"
	"testing"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// row: OPS-11
// An operation ends when the attacher says so, fails each time the attacher says something new, or
// nothing for two minutes, and goes on.
func TestOperationsOfAttachersEnd(t *testing.T) {
	start := time.Unix(10000, 0)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	attaching := attachmentOf("n1", func(a *storagev1.VolumeAttachment) { a.Status.Attached = false })
	failing := func(seconds int) *storagev1.VolumeAttachment {
		a := attaching.DeepCopy()
		a.Status.AttachError = &storagev1.VolumeError{Time: metav1.NewTime(at(seconds)), Message: "busy"}
		return a
	}
	held := attachmentOf("n1", func(a *storagev1.VolumeAttachment) {
		a.Status.DetachError = &storagev1.VolumeError{Message: "in use"}
	})
	type step struct {
		at    int // seconds
		found *storagev1.VolumeAttachment
		want  string
	}
	for name, c := range map[string]struct {
		operation string
		steps     []step
	}{
		"attached": {volumeAttach, []step{{1, nil, ""}, {2, attaching, ""}, {3, attachmentOf("n1"), "success 3s"},
			{4, attachmentOf("n1"), ""}}},
		"fails, then attached": {volumeAttach, []step{{5, failing(5), "fail 5s"}, {6, failing(5), ""},
			{9, failing(9), "fail 4s"}, {10, attachmentOf("n1"), "success 1s"}}},
		"says nothing": {volumeAttach, []step{{119, attaching, ""}, {120, attaching, "fail 2m0s"},
			{130, attaching, ""}}},
		"detached":             {volumeDetach, []step{{1, attachmentOf("n1"), ""}, {2, nil, "success 2s"}}},
		"fails, then detached": {volumeDetach, []step{{3, held, "fail 3s"}, {4, held, ""}, {7, nil, "success 4s"}}},
	} {
		o := operations{}
		o.begin(attaching.Name, operation{volume: "pv", driver: "d", name: c.operation, began: start})
		o.begin(attaching.Name, operation{volume: "pv", driver: "d", name: c.operation, began: at(1)})
		if got := o.observe("other", nil, at(9)); len(got) > 0 {
			t.Errorf("%s: got %v of another volume, want nothing", name, got)
		}
		for _, s := range c.steps {
			var found []*storagev1.VolumeAttachment
			if s.found != nil {
				found = append(found, s.found)
			}
			var got, want []string
			for _, e := range o.observe("pv", found, at(s.at)) {
				got = append(got, fmt.Sprint(map[bool]string{false: "success ", true: "fail "}[e.failed], e.took))
			}
			if s.want != "" {
				want = []string{s.want}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s, after %d s: got %q, want %q", name, s.at, got, want)
			}
		}
	}
}
