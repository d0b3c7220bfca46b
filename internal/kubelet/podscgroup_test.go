package kubelet_test

import (
	"os"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gantry-project/gantry/internal/kubelet"
	"github.com/gantry-project/gantry/test/expect"
)

// enforceNodeAllocatable: what the node keeps for itself is no Pod's, also before the API has told
// of the node.
//
// row: QOS-13
func TestAllPodsTogetherGetWhatTheReservationsLeave(t *testing.T) {
	for _, c := range []struct {
		enforce []string
		want    string
	}{{nil, "memory=3221225472"}, {[]string{"pods"}, "memory=3221225472"}, {[]string{"none"}, ""}} {
		root, err := os.MkdirTemp("", "kubelet")
		expect.NoError(t, err)
		defer os.RemoveAll(root)
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, root)
			r.with = func(o *kubelet.Options) {
				o.Config.EnforceNodeAllocatable = c.enforce
				o.Config.SystemReserved = map[string]string{"memory": "1Gi"}
				o.Dependencies.LocalNode = func() *v1.Node {
					return &v1.Node{Status: v1.NodeStatus{Capacity: v1.ResourceList{
						v1.ResourceMemory: resource.MustParse("4Gi"), v1.ResourceCPU: resource.MustParse("2")}}}
				}
			}
			r.start()
			defer r.fake.Close()
			defer func() { r.stop() }()
			if got := r.groups.log("kubepods"); got != c.want {
				t.Errorf("enforceNodeAllocatable %v: got %q, want %q", c.enforce, got, c.want)
			}
		})
	}
}
