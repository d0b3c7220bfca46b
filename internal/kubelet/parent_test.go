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
	for _, c := range []struct {
		driver           kubeletresource.Driver
		want             string
		requests, limits v1.ResourceList
	}{
		{kubeletresource.Cgroupfs, "/kubepods/burstable/podUID", amounts("100m", "32Mi"), nil},
		{kubeletresource.Systemd, "kubepods-burstable-podUID.slice", amounts("100m", "32Mi"), nil},
		{kubeletresource.Cgroupfs, "/kubepods/besteffort/podUID", nil, nil},
		{kubeletresource.Systemd, "kubepods-besteffort-podUID.slice", nil, nil},
		{kubeletresource.Cgroupfs, "/kubepods/podUID", amounts("100m", "32Mi"), amounts("100m", "32Mi")},
		{kubeletresource.Systemd, "kubepods-podUID.slice", amounts("100m", "32Mi"), amounts("100m", "32Mi")},
	} {
		driver, want := c.driver, c.want
		t.Run(string(driver), func(t *testing.T) {
			runTest(t, func(r *rig) {
				r.stop()
				o := kubeletresource.Options{Driver: driver, CFSQuota: true}
				r.with = func(k *kubelet.Options) { k.Resources = o }
				r.start()
				r.create(pod("web", asking(scriptContainer("app", runs), c.requests, c.limits)))
				r.advance(time.Second)
				p := r.phase("web", v1.PodRunning)
				uid := string(p.UID)
				if driver == kubeletresource.Systemd {
					uid = strings.ReplaceAll(uid, "-", "_")
				}
				for _, c := range r.fake.Calls() {
					if q, ok := c.Request.(*runtimeapi.RunPodSandboxRequest); ok && q.Config.Metadata.Name == "web" {
						if got := q.Config.Linux.CgroupParent; got != strings.ReplaceAll(want, "UID", uid) {
							t.Errorf("cgroup_parent %q, want %s with the uid %s", got, want, uid)
						}
						if !r.groups.has[o.PodPath(p)] {
							t.Errorf("there is no cgroup %s: %v", o.PodPath(p), r.groups.has)
						}
						return
					}
				}
				t.Error("no sandbox was asked for")
			})
		})
	}
}
