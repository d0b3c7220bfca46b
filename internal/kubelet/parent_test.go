package kubelet_test

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/gantry-project/gantry/internal/kubelet"
	kubeletresource "github.com/gantry-project/gantry/internal/kubelet/resource"
)

// The runtime gets the cgroup that the kubelet made for the Pod, in the form of the driver that
// both use.
//
// row: CRI-12
// row: QOS-08
func TestParentCgroupInTheRequest(t *testing.T) {
	for driver, want := range map[kubeletresource.Driver]map[string]string{
		kubeletresource.Cgroupfs: {"burstable": "/kubepods/burstable/podUID",
			"besteffort": "/kubepods/besteffort/podUID", "guaranteed": "/kubepods/podUID"},
		kubeletresource.Systemd: {"burstable": "kubepods-burstable-podUID.slice",
			"besteffort": "kubepods-besteffort-podUID.slice", "guaranteed": "kubepods-podUID.slice"},
	} {
		t.Run(string(driver), func(t *testing.T) {
			runTest(t, func(r *rig) {
				r.stop()
				o := kubeletresource.Options{Driver: driver, CFSQuota: true}
				r.with = func(k *kubelet.Options) { k.Resources = o }
				r.start()
				box, both := scriptContainer("app", runs), amounts("100m", "32Mi")
				r.create(pod("burstable", asking(box, both, nil)))
				r.create(pod("besteffort", box))
				r.create(pod("guaranteed", asking(box, both, both)))
				r.advance(time.Second)
				asked := map[string]string{}
				for _, c := range r.fake.Calls() {
					if q, ok := c.Request.(*runtimeapi.RunPodSandboxRequest); ok {
						asked[q.Config.Metadata.Name] = q.Config.Linux.CgroupParent
					}
				}
				for name, parent := range want {
					p := r.phase(name, v1.PodRunning)
					uid := string(p.UID)
					if driver == kubeletresource.Systemd {
						uid = strings.ReplaceAll(uid, "-", "_")
					}
					if got := asked[name]; got != strings.ReplaceAll(parent, "UID", uid) {
						t.Errorf("cgroup_parent of %s: %q, want %s with the uid %s", name, got, parent, uid)
					}
					if !r.groups.has[o.PodPath(p)] {
						t.Errorf("there is no cgroup %s: %v", o.PodPath(p), r.groups.has)
					}
				}
			})
		})
	}
}
