package volumebinder

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	config "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/plugins"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/volumebinding"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
	"github.com/gantry-project/gantry/test/wrappers"
)

// fakeHandle is as much of a Handle as the volume binder needs.
type fakeHandle struct {
	framework.Handle
	client    kubernetes.Interface
	informers informers.SharedInformerFactory
}

func (h fakeHandle) ClientSet() kubernetes.Interface                        { return h.client }
func (h fakeHandle) SharedInformerFactory() informers.SharedInformerFactory { return h.informers }

func storageOf(size string) v1.ResourceList {
	return v1.ResourceList{v1.ResourceStorage: resource.MustParse(size)}
}

func newClaim(name, class string) *v1.PersistentVolumeClaim {
	return &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "1", Name: name, Namespace: "ns",
		UID: types.UID("claim-" + name)}, Spec: v1.PersistentVolumeClaimSpec{
		StorageClassName: &class, AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
		Resources: v1.VolumeResourceRequirements{Requests: storageOf("1Gi")}}}
}

func newVolume(name, size string) *v1.PersistentVolume {
	return &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "1", Name: name, UID: types.UID(name)},
		Status: v1.PersistentVolumeStatus{Phase: v1.VolumeAvailable},
		Spec: v1.PersistentVolumeSpec{StorageClassName: "local", Capacity: storageOf(size),
			AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}}}
}

func newClass(name, provisioner string) *storagev1.StorageClass {
	mode := storagev1.VolumeBindingWaitForFirstConsumer
	return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner,
		VolumeBindingMode: &mode}
}

func podWith(claim string) *v1.Pod {
	return wrappers.MakePod().Namespace("ns").Name("p-" + claim).UID("pod-" + claim).
		Claims(claim).Obj()
}

// fixture is a plugin with a Binder over a fake API.
type fixture struct {
	t        *testing.T
	client   *fake.Clientset
	plugin   *volumebinding.Plugin
	snapshot *snapshot.Snapshot
}

func start(t *testing.T, timeout int64, objects ...runtime.Object) *fixture {
	t.Helper()
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	client := fake.NewClientset(append(objects, node, newClass("local", "kubernetes.io/no-provisioner"),
		newClass("made", "csi.example"))...)
	version := atomic.Int64{}
	// the API counts versions
	client.PrependReactor("update", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if m, err := meta.Accessor(a.(clienttesting.UpdateAction).GetObject()); err == nil {
			m.SetResourceVersion(fmt.Sprint(version.Add(1) + 1))
		}
		return false, nil, nil
	})
	h := fakeHandle{client: client, informers: informers.NewSharedInformerFactory(client, 0)}
	row, _ := plugins.Lookup(volumebinding.Name)
	pl, err := (&SharedBinder{}).Factory(row.New)(t.Context(),
		&config.VolumeBindingArgs{BindTimeoutSeconds: &timeout}, h)
	if err != nil {
		t.Fatal(err)
	}
	h.informers.Start(t.Context().Done())
	h.informers.WaitForCacheSync(t.Context().Done())
	return &fixture{t, client, pl.(*volumebinding.Plugin), snapshot.Of([]*v1.Node{node}, nil)}
}

// reserve runs a Pod up to Reserve; the refusal's text, or "".
func (b *fixture) reserve(p *v1.Pod) (framework.CycleState, string) {
	b.t.Helper()
	state := schedule.NewCycleState()
	r := schedule.SchedulePod(b.t.Context(), schedule.Input{Pod: p, Snapshot: b.snapshot, State: state,
		Plugins: schedule.NewPluginSet("test", schedule.WeightedPlugin{Plugin: b.plugin})})
	if !r.Scheduled() {
		return state, r.Message()
	}
	if s := b.plugin.Reserve(b.t.Context(), state, p, r.SuggestedHost); !s.IsSuccess() {
		return state, s.Message()
	}
	return state, ""
}

func TestAssumedVolumesAreNotChosenAgain(t *testing.T) {
	b := start(t, 60, newClaim("one", "local"), newClaim("two", "local"), newVolume("small", "1Gi"),
		newVolume("large", "5Gi"), podWith("one"), podWith("two"))
	first, no := b.reserve(podWith("one"))
	if no != "" {
		t.Fatalf("no = %q, want nothing", no)
	}
	if s := b.plugin.PreBind(cancelledContext(t), first, podWith("one"), "a"); s.IsSuccess() {
		t.Error("PreBind did not wait")
	}
	if got := b.volume("small").Spec.ClaimRef; got == nil || got.Name != "one" {
		t.Errorf("small, the smallest that fits, was not given to claim one: %v", got)
	}
	second, no := b.reserve(podWith("two"))
	if no != "" {
		t.Fatalf("no = %q, want nothing", no)
	}
	b.plugin.Unreserve(t.Context(), second, podWith("two"), "a")
	if _, no := b.reserve(podWith("two")); no != "" {
		t.Errorf("large was not given back: %s, want none", no)
	}
}

func cancelledContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

func (b *fixture) volume(name string) *v1.PersistentVolume {
	b.t.Helper()
	v, err := b.client.CoreV1().PersistentVolumes().Get(b.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	return v
}

func (b *fixture) claim(name string) *v1.PersistentVolumeClaim {
	b.t.Helper()
	c, err := b.client.CoreV1().PersistentVolumeClaims("ns").Get(b.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	return c
}

func TestOneVolumeServesOneClaim(t *testing.T) {
	b := start(t, 60, newClaim("one", "local"), newClaim("two", "local"), newVolume("only", "1Gi"))
	if _, no := b.reserve(podWith("one")); no != "" {
		t.Fatalf("got %v, want no empty", no)
	}
	if _, no := b.reserve(podWith("two")); no != "0/1 nodes are available: 1 node(s) didn't find available "+
		"persistent volumes to bind." {
		t.Errorf("got %q, want %v", no, "0/1 nodes are available: 1 node(s) didn't find available "+
			"persistent volumes to bind.")
	}
}

func TestPreBindWaitsForTheBinder(t *testing.T) {
	b := start(t, 60, newClaim("one", "local"), newVolume("only", "1Gi"), podWith("one"))
	state, no := b.reserve(podWith("one"))
	if no != "" {
		t.Fatalf("no = %q, want nothing", no)
	}
	done := make(chan *framework.Status)
	go func() { done <- b.plugin.PreBind(context.Background(), state, podWith("one"), "a") }()
	for b.volume("only").Spec.ClaimRef == nil {
		if t.Context().Err() != nil {
			t.Fatal("the volume was not given")
		}
	}
	c := b.claim("one")
	c.Spec.VolumeName, c.Annotations = "only", map[string]string{"pv.kubernetes.io/bind-completed": "yes"}
	if _, err := b.client.CoreV1().PersistentVolumeClaims("ns").Update(t.Context(), c, metav1.UpdateOptions{}); err !=
		nil {
		t.Fatal(err)
	}
	if s := <-done; !s.IsSuccess() {
		t.Errorf("PreBind: %v", s)
	}
}

func TestPreBindGivesUp(t *testing.T) {
	b := start(t, 0, newClaim("one", "local"), newVolume("only", "1Gi"), podWith("one"))
	state, no := b.reserve(podWith("one"))
	if no != "" {
		t.Fatalf("no = %q, want nothing", no)
	}
	if s := b.plugin.PreBind(t.Context(), state, podWith("one"), "a"); s.Message() != "binding volumes: context "+
		"deadline exceeded" {
		t.Errorf("got %q, want %v", s.Message(), "binding volumes: context "+
			"deadline exceeded")
	}
}

func TestProvisioningThatFails(t *testing.T) {
	b := start(t, 60, newClaim("one", "made"), podWith("one"))
	state, no := b.reserve(podWith("one"))
	if no != "" {
		t.Fatalf("no = %q, want nothing", no)
	}
	done := make(chan *framework.Status)
	go func() { done <- b.plugin.PreBind(context.Background(), state, podWith("one"), "a") }()
	for b.claim("one").Annotations["volume.kubernetes.io/selected-node"] != "a" {
		if t.Context().Err() != nil {
			t.Fatal("no node was selected")
		}
	}
	c := b.claim("one")
	c.Annotations = map[string]string{"x": "y"}
	if _, err := b.client.CoreV1().PersistentVolumeClaims("ns").Update(t.Context(), c, metav1.UpdateOptions{}); err !=
		nil {
		t.Fatal(err)
	}
	if s := <-done; s.Message() != `provisioning failed for PVC "one"` {
		t.Errorf("got %q, want %q", s.Message(), `provisioning failed for PVC "one"`)
	}
}

// A change of a CSINode or an attachment is noted for its node; one that was deleted unseen, of
// which only the key is left, for all.
func TestChangesOfNodesAreNoted(t *testing.T) {
	l := &VolumeBinder{}
	h, attachments := l.changeRecorder(nodeOfCSINode), l.changeRecorder(nodeOfAttachment)
	h.OnAdd(&storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, false)
	attachments.OnDelete(cache.DeletedFinalStateUnknown{Key: "a",
		Obj: &storagev1.VolumeAttachment{Spec: storagev1.VolumeAttachmentSpec{NodeName: "n2"}}})
	nodes, now, known := l.Since(0)
	if !known || len(nodes) != 2 || nodes[0] != "n1" || nodes[1] != "n2" {
		t.Errorf("%q, known: %v", nodes, known)
	}
	attachments.OnDelete(cache.DeletedFinalStateUnknown{Key: "b"})
	if _, _, known := l.Since(now); known {
		t.Error("a deletion that nothing is known of concerns no node")
	}
}
