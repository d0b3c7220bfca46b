package attachdetach

import (
	"maps"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics/testutil"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
)

// row: OPS-11
// Volumes in use are counted by Pod, those to be attached by node, those that are by what the
// attacher says.
func TestVolumesAreCounted(t *testing.T) {
	shared := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	core, store := shared.Core().V1(), shared.Storage().V1()
	add := func(to cache.SharedIndexInformer, objects ...runtime.Object) {
		t.Helper()
		for _, o := range objects {
			if err := to.GetIndexer().Add(o); err != nil {
				t.Fatal(err)
			}
		}
	}
	c := New(controllerruntime.ControllerContext{Informers: shared})
	if c == nil {
		t.Fatal("got no controller")
	}
	claimed := func(name, node, claim string, change ...func(*v1.Pod)) *v1.Pod {
		p := user("ns", name, node, change...)
		p.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{
			PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}}
		return p
	}
	inline := user("ns", "inline", "n2")
	inline.Spec.Volumes = []v1.Volume{{VolumeSource: v1.VolumeSource{CSI: &v1.CSIVolumeSource{Driver: "inline.x"}}}}
	add(core.Pods().Informer(), claimed("a", "n1", "data"), claimed("b", "n1", "data"), claimed("c", "n2", "data"),
		claimed("ended", "n3", "data", setSucceeded), claimed("none", "", "data"), claimed("other", "n1", "unbound"),
		claimed("elsewhere", "n4", "data"), claimed("free", "n1", "free"), inline)
	bound := func(name, volume string) *v1.PersistentVolumeClaim {
		return &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
			Spec: v1.PersistentVolumeClaimSpec{VolumeName: volume}}
	}
	add(core.PersistentVolumeClaims().Informer(), bound("data", "pv"), bound("free", "pv-free"), bound("unbound", ""))
	free := disk()
	free.Name, free.Spec.CSI.Driver = "pv-free", "free.x"
	add(core.PersistentVolumes().Informer(), disk(), free)
	add(store.CSIDrivers().Informer(), &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "free.x"},
		Spec: storagev1.CSIDriverSpec{AttachRequired: new(false)}})
	add(core.Nodes().Informer(), node("n1"), node("n2"), node("n3"), node("n4", unmanaged))
	add(store.VolumeAttachments().Informer(), attachmentOf("n1"),
		attachmentOf("n2", func(a *storagev1.VolumeAttachment) { a.Status.Attached = false }))
	const driver = "kubernetes.io/csi:disk.example.com"
	want := map[series]int{
		{inUseVolumes, [2]string{"n1", driver}}: 2, {inUseVolumes, [2]string{"n2", driver}}: 1,
		{inUseVolumes, [2]string{"n3", driver}}: 1, {inUseVolumes, [2]string{"n4", driver}}: 1,
		{inUseVolumes, [2]string{"n1", "kubernetes.io/csi:free.x"}}:   1,
		{inUseVolumes, [2]string{"n2", "kubernetes.io/csi:inline.x"}}: 1,
		{totalVolumes, [2]string{driver, desiredState}}:               2,
		{totalVolumes, [2]string{driver, actualState}}:                1,
	}
	if got := counted.from.Load().count(); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// row: OPS-11
// A detach is forced when the node is not waited for, and counted with upstream's reason.
func TestForcedDetachesAreCounted(t *testing.T) {
	now := time.Unix(10000, 0)
	for name, c := range map[string]struct {
		node  *v1.Node
		since time.Duration
		want  string
	}{
		"not in use":               {node("n1"), time.Hour, ""},
		"gone":                     {nil, time.Hour, ""},
		"out of service":           {node("n1", using, outOfService), 0, "out-of-service"},
		"not ready for long":       {node("n1", using, notReady), 6 * time.Minute, "timeout"},
		"both":                     {node("n1", using, notReady, outOfService), time.Hour, "timeout"},
		"not ready and not in use": {node("n1", notReady), time.Minute, ""},
	} {
		a := attachmentOf("n1")
		p := Decide(In{Now: now, Volume: disk(), Attachments: []*storagev1.VolumeAttachment{a}, Attachable: true,
			Nodes:         func(string) *v1.Node { return c.node },
			UnwantedSince: func(string) time.Time { return now.Add(-c.since) }})
		if len(p.Detach) != 1 || p.Forced[a.Name] != c.want {
			t.Errorf("%s: detaches %v, forced %v; want one, with the reason %q", name, p.Detach, p.Forced, c.want)
		}
	}
	for name, c := range map[string]struct {
		node    *v1.Node
		detach  int
		because string
	}{
		"not ready for long":                 {node("n1", using, notReady), 0, ""},
		"not ready for long, not in use":     {node("n1", notReady), 1, ""},
		"not ready for long, out of service": {node("n1", using, notReady, outOfService), 1, "out-of-service"},
	} {
		a := attachmentOf("n1")
		p := Decide(In{Now: now, Volume: disk(), Attachments: []*storagev1.VolumeAttachment{a}, Attachable: true,
			Nodes: func(string) *v1.Node { return c.node }, NoForce: true,
			UnwantedSince: func(string) time.Time { return now.Add(-time.Hour) }})
		if len(p.Detach) != c.detach || p.Forced[a.Name] != c.because {
			t.Errorf("without force, %s: detaches %v, forced %v; want %d, with the reason %q", name, p.Detach,
				p.Forced, c.detach, c.because)
		}
	}
	shared := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	New(controllerruntime.ControllerContext{Informers: shared, Client: fake.NewClientset(attachmentOf("n1"))})
	k := counted.from.Load()
	for _, x := range []struct {
		to cache.SharedIndexInformer
		o  runtime.Object
	}{{shared.Core().V1().PersistentVolumes().Informer(), disk()},
		{shared.Core().V1().Nodes().Informer(), node("n1", using, outOfService)},
		{shared.Storage().V1().VolumeAttachments().Informer(), attachmentOf("n1")}} {
		if err := x.to.GetIndexer().Add(x.o); err != nil {
			t.Fatal(err)
		}
	}
	before, _ := testutil.GetCounterMetricValue(forcedDetaches.WithLabelValues("out-of-service"))
	if _, err := k.syncHandler(t.Context(), "pv"); err != nil {
		t.Fatal(err)
	}
	detaching := attachmentOf("n1").Name
	if x := k.pending[detaching]; x.name != volumeDetach || x.driver != "disk.example.com" {
		t.Errorf("got the operation %+v, want a detach that is under way", x)
	}
	if err := shared.Storage().V1().VolumeAttachments().Informer().GetIndexer().Delete(attachmentOf("n1")); err != nil {
		t.Fatal(err)
	}
	detached := operationSeconds.WithLabelValues("kubernetes.io/csi:disk.example.com", "volume_detach", "success",
		"false")
	were, _ := testutil.GetHistogramMetricCount(detached)
	if _, err := k.syncHandler(t.Context(), "pv"); err != nil {
		t.Fatal(err)
	}
	if are, err := testutil.GetHistogramMetricCount(detached); err != nil || are != were+1 || len(k.pending) > 0 {
		t.Errorf("got %d detaches after %d (%v), %d under way; want one more and none", are, were, err, len(k.pending))
	}
	after, err := testutil.GetCounterMetricValue(forcedDetaches.WithLabelValues("out-of-service"))
	if err != nil || after != before+1 {
		t.Errorf("got %v forced detaches after %v (%v), want one more", after, before, err)
	}
}
