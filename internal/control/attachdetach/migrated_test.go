package attachdetach

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
)

// row: CSI-15
// Volumes of in-tree plugins are attached as their CSI driver's: behind a claim with the name of
// the PersistentVolume, in a Pod with what stands for it; and detached again.
func TestMigratedVolumesAreAttached(t *testing.T) {
	ebs := v1.VolumeSource{AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-1",
		FSType: "ext4"}}
	pv := disk()
	pv.Spec.PersistentVolumeSource = v1.PersistentVolumeSource{AWSElasticBlockStore: ebs.AWSElasticBlockStore}
	claimed := v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}
	const unique = "kubernetes.io/csi/ebs.csi.aws.com^vol-1"
	for name, c := range map[string]struct {
		source v1.VolumeSource
		key    string
	}{"claim": {claimed, "pv"}, "inline": {ebs, unique}} {
		client := fake.NewClientset(node("n1"))
		shared := informers.NewSharedInformerFactory(client, 0)
		New(controllerruntime.ControllerContext{Informers: shared, Client: client})
		k, core := counted.from.Load(), shared.Core().V1()
		pods, attachments := core.Pods().Informer(), shared.Storage().V1().VolumeAttachments().Informer()
		pod := user("ns", "p", "n1")
		pod.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: c.source}}
		claim := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data"},
			Spec: v1.PersistentVolumeClaimSpec{VolumeName: "pv"}}
		for to, o := range map[cache.SharedIndexInformer]runtime.Object{pods: pod, core.Nodes().Informer(): node("n1"),
			core.PersistentVolumeClaims().Informer(): claim, core.PersistentVolumes().Informer(): pv} {
			if err := to.GetIndexer().Add(o); err != nil {
				t.Fatal(err)
			}
		}
		if got := k.keysOfPod(nil, pod); len(got) != 1 || got[0] != c.key {
			t.Errorf("%s: got the keys %q, want %q", name, got, c.key)
		}
		sync := func(want int) []storagev1.VolumeAttachment {
			t.Helper()
			if _, err := k.syncHandler(t.Context(), c.key); err != nil {
				t.Fatal(err)
			}
			list, err := client.StorageV1().VolumeAttachments().List(t.Context(), metav1.ListOptions{})
			if err != nil || len(list.Items) != want {
				t.Fatalf("%s: got %d attachments (%v), want %d", name, len(list.Items), err, want)
			}
			return list.Items
		}
		a := sync(1)[0]
		source := a.Spec.Source
		if a.Spec.Attacher != "ebs.csi.aws.com" || a.Name != attachmentName("vol-1", "ebs.csi.aws.com", "n1") {
			t.Errorf("%s: got %s of %s, want that of vol-1, ebs.csi.aws.com and n1", name, a.Name, a.Spec.Attacher)
		}
		if name == "claim" && (source.PersistentVolumeName == nil || *source.PersistentVolumeName != "pv") ||
			name == "inline" && (source.InlineVolumeSpec == nil ||
				source.InlineVolumeSpec.CSI.VolumeHandle != "vol-1") {
			t.Errorf("%s: got the source %+v", name, source)
		}
		if !k.pending[a.Name].migrated {
			t.Errorf("%s: got an operation that is not migrated", name)
		}
		a.Status.Attached = true
		if err := attachments.GetIndexer().Add(&a); err != nil {
			t.Fatal(err)
		}
		if got := volumeOf(&a); len(got) != 1 || got[0] != c.key {
			t.Errorf("%s: got the keys %q of its attachment, want %q", name, got, c.key)
		}
		sync(1)
		n, err := client.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{})
		if err != nil || len(n.Status.VolumesAttached) != 1 || n.Status.VolumesAttached[0].Name != unique {
			t.Errorf("%s: got %v attached (%v), want %s", name, n.Status.VolumesAttached, err, unique)
		}
		if err := pods.GetIndexer().Delete(pod); err != nil {
			t.Fatal(err)
		}
		sync(0)
	}
}
