package kubelet_test

import (
	"context"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A resize that waits for room is granted when the node's allocatable resources grow.
func TestResizeIsGrantedWhenTheNodeGrows(t *testing.T) {
	in(t, func(r *rig) {
		r.create(pod("other", asking(box("app", runs), amounts("1", ""), nil)))
		r.create(pod("web", asking(box("app", runs), amounts("500m", ""), nil)))
		r.resize("web", "app", amounts("1500m", ""), nil)
		if c := condition(r.get("web"), v1.PodResizePending); c == nil || c.Reason != v1.PodReasonDeferred {
			t.Fatalf("%+v\n%s", c, r.facts.all())
		}
		n, err := r.api.CoreV1().Nodes().Get(context.Background(), "n1", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		n = n.DeepCopy()
		n.Status.Allocatable[v1.ResourceCPU] = resource.MustParse("4")
		if _, err := r.api.CoreV1().Nodes().Update(context.Background(), n, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		r.pass(time.Second)
		r.wantSize("web", "1500m", "1500m", "0")
		if c := condition(r.get("web"), v1.PodResizePending); c != nil {
			t.Errorf("still %+v", c)
		}
	})
}
