package kubelet_test

import (
	"os"
	"testing"
	"testing/synctest"
	"time"

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
				o.Config.SystemReserved = map[string]string{"memory": "768Mi"}
				o.Config.KubeReserved = map[string]string{"memory": "256Mi"}
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

// A limit that Pods exceed already keeps no Pod from starting: the node says so, and the limit is
// written as soon as the kernel takes it.
//
// row: QOS-13
func TestLimitOfAllPodsThatIsRefusedIsTriedAgain(t *testing.T) {
	root, err := os.MkdirTemp("", "kubelet")
	expect.NoError(t, err)
	defer os.RemoveAll(root)
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, root)
		r.groups.refuseMemory = true
		r.with = func(o *kubelet.Options) {
			o.Config.SystemReserved = map[string]string{"memory": "1Gi"}
			o.Dependencies.LocalNode = func() *v1.Node {
				return &v1.Node{Status: v1.NodeStatus{Capacity: v1.ResourceList{
					v1.ResourceMemory: resource.MustParse("4Gi")}}}
			}
		}
		r.start()
		defer r.fake.Close()
		defer func() { r.stop() }()
		time.Sleep(90 * time.Second)
		if got := r.groups.log("kubepods"); got != "" {
			t.Fatalf("got %q while the kernel refuses, want nothing", got)
		}
		r.groups.mu.Lock()
		r.groups.refuseMemory = false
		r.groups.mu.Unlock()
		time.Sleep(time.Minute)
		if got := r.groups.log("kubepods"); got != "memory=3221225472" {
			t.Errorf("got %q when the kernel takes it, want the limit", got)
		}
	})
}
