package finding

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// An unhealthy volume is one finding about its claim, with driver, node and Pods, whoever is asked
// about; a volume that is well again is none.
func TestUnhealthyVolumesAreNamed(t *testing.T) {
	c := &Cluster{Namespace: "shop"}
	ill := func(status corev1.VolumeHealthStatusType, why string) []corev1.VolumeHealthCondition {
		return []corev1.VolumeHealthCondition{{Status: status, Reason: why, Message: "the image is gone"}}
	}
	pod := func(name, claim string, conditions []corev1.VolumeHealthCondition) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
		p.Spec.NodeName, p.Spec.Volumes = "n1", []corev1.Volume{{Name: "v"}}
		if claim != "" {
			p.Spec.Volumes[0].PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}
		}
		p.Status.VolumeHealth = []corev1.PodVolumeHealth{{Name: "v", HealthConditions: conditions}}
		return p
	}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data"},
		Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "pv-1"}}
	claim.Status.HealthStatus = &corev1.VolumeHealthStatus{HealthConditions: ill(corev1.VolumeHealthDegraded, "Worn")}
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-1"}}
	volume.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "disk.example.com"}
	node := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	node.Status.StorageHealth = []storagev1.StorageHealth{{Name: "disk.example.com",
		HealthConditions: []storagev1.StorageHealthCondition{{Status: storagev1.StorageUnreachable, Reason: "NoRoute"},
			{Status: storagev1.StorageDegraded, Reason: "Slow", Message: "one path"}}}}
	c.Add("Pod", pod("a", "data", ill(corev1.VolumeHealthInaccessible, "ImageMissing")))
	c.Add("Pod", pod("b", "data", ill(corev1.VolumeHealthInaccessible, "ImageMissing")))
	c.Add("Pod", pod("well", "other", nil))
	c.Add("Pod", pod("inline", "", ill(corev1.VolumeHealthDataLoss, "Torn")))
	c.Add("PersistentVolumeClaim", claim)
	c.Add("PersistentVolume", volume)
	c.Add("CSINode", node)
	const shared = "The volume of persistentvolumeclaim data cannot be accessed on node n1: the image is gone " +
		"(ImageMissing). The CSI driver disk.example.com says so. Pods that have it there: a and b."
	const worn = "The volume of persistentvolumeclaim data works worse than it should: the image is gone (Worn)."
	const torn = "The volume of pod inline has lost data, or may have on node n1: the image is gone (Torn)."
	const far = "The storage of CSI driver disk.example.com cannot be reached from node n1: no more is said (NoRoute)."
	const slow = "The storage of CSI driver disk.example.com works worse than it should from node n1: one path (Slow)."
	texts := func(list []Finding) string {
		var out []string
		for _, f := range list {
			if f.Code == "VolumeUnhealthy" || f.Code == "StorageUnhealthy" {
				out = append(out, f.Message)
			}
		}
		return strings.Join(out, "\n")
	}
	object := func(kind, ns, name string) Object { return Object{Kind: kind, Namespace: ns, Name: name} }
	for _, x := range []struct {
		about Object
		want  []string
	}{
		{object("Pod", "shop", "a"), []string{shared, worn}},
		{object("Pod", "shop", "well"), nil},
		{object("Pod", "shop", "inline"), []string{torn}},
		{object("PersistentVolumeClaim", "shop", "data"), []string{shared, worn}},
		{object("CSINode", "", "n1"), []string{far, slow}},
	} {
		if got, want := texts(Of(c, x.about)), strings.Join(x.want, "\n"); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", x.about, got, want)
		}
	}
	all := texts(All(c, ""))
	for _, one := range []string{shared, worn, torn, far, slow} {
		if n := strings.Count(all, one); n != 1 {
			t.Errorf("all together: %q is said %d times, want once; all of\n%s", one, n, all)
		}
	}
	for _, f := range Of(c, object("Pod", "shop", "a")) {
		if f.Message == shared && (f.Severity != Broken || f.Object.Name != "data" || f.Value != "pv-1" ||
			len(f.Related) != 5) {
			t.Errorf("got %+v, want what is broken, with two Pods, volume, driver and node", f)
		}
	}
}
