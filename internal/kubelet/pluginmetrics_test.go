package kubelet_test

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/gantry-project/gantry/internal/kubelet"
	"github.com/gantry-project/gantry/internal/kubelet/metrics"
)

// measured has the kubelet count from now on.
func (r *rig) measured() func() string { return r.measuredBy(metrics.New()) }

// measuredBy has these metrics count from now on.
func (r *rig) measuredBy(m *metrics.Metrics) func() string {
	r.stop()
	r.with = func(o *kubelet.Options) { o.Dependencies.Metrics = m }
	r.start()
	return func() string {
		w := httptest.NewRecorder()
		m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		return w.Body.String()
	}
}

// Image volumes are counted with their mounts, and the mounts that the runtime could not make
// apart.
//
// row: OPS-11
func TestImageVolumesAreCounted(t *testing.T) {
	runTest(t, func(r *rig) {
		scrape := r.measured()
		p := pod("p", scriptContainer("app", runs))
		p.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{
			Image: &v1.ImageVolumeSource{Reference: "busybox:1", PullPolicy: v1.PullIfNotPresent}}}}
		p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "data", MountPath: "/a"},
			{Name: "data", MountPath: "/b"}}
		if err := r.fake.Fault("CreateContainer", "1*error(ImageVolumeMountFailed: no such layer)->ok"); err != nil {
			t.Fatal(err)
		}
		r.create(p)
		r.advance(time.Minute)
		r.phase("p", v1.PodRunning)
		got := scrape()
		for _, want := range []string{"kubelet_image_volume_requested_total 2",
			"kubelet_image_volume_mounted_errors_total 2", "kubelet_image_volume_mounted_succeed_total 2"} {
			if !strings.Contains(got, "\n"+want+"\n") {
				t.Errorf("got\n%s\nwant the line %q", grep(got, "kubelet_image_volume"), want)
			}
		}
	})
}

// row: OPS-11
// An image that a container asks for is counted by its policy, whether it was there, and whether it
// had to be pulled; what a driver says of its storage stands until it says something else.
func TestImagesAndStorageAreCounted(t *testing.T) {
	runTest(t, func(r *rig) {
		m := metrics.New()
		scrape := r.measuredBy(m)
		p := pod("p", scriptContainer("app", runs))
		p.Spec.Containers[0].ImagePullPolicy = v1.PullIfNotPresent
		r.create(p)
		r.advance(time.Minute)
		r.phase("p", v1.PodRunning)
		m.StorageHealth("d.x", []storagev1.StorageHealthCondition{{Status: storagev1.StorageDegraded, Reason: "Old"}})
		m.StorageHealth("d.x", []storagev1.StorageHealthCondition{{Status: storagev1.StorageDegraded, Reason: "Slow"}})
		got := scrape()
		for _, want := range []string{
			`kubelet_image_manager_ensure_image_requests_total{present_locally="true",pull_policy="ifnotpresent",` +
				`pull_required="false"} 1`,
			`csi_node_storage_health_status{driver_name="d.x",reason="Slow",status="StorageDegraded"} 1`} {
			if !strings.Contains(got, "\n"+want+"\n") {
				t.Errorf("got\n%s%s\nwant the line %q", grep(got, "ensure_image"), grep(got, "storage_health"), want)
			}
		}
		if strings.Contains(got, `reason="Old"`) {
			t.Errorf("what a driver said before stands:\n%s", grep(got, "storage_health"))
		}
	})
}

// grep is the lines of a text with a word.
func grep(text, word string) string {
	var out []string
	for line := range strings.Lines(text) {
		if strings.Contains(line, word) {
			out = append(out, line)
		}
	}
	return strings.Join(out, "")
}
