package attachdetach

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
	"github.com/gantry-project/gantry/test/expect"
)

// row: CSI-15
// A PersistentVolume that was removed by force while it was attached is detached once
// its Pod is gone and its node does not use it, by a controller that knew it and by one that
// started since; it is attached to no other node.
func TestAPersistentVolumeThatIsGoneIsDetached(t *testing.T) {
	for name, restarted := range map[string]bool{"known": false, "after a restart": true} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset(node("n1", attachedTo), node("n2"), attachmentOf("n1"))
			shared := informers.NewSharedInformerFactory(client, 0)
			if New(controllerruntime.ControllerContext{Informers: shared, Client: client}) == nil {
				t.Fatal("got no controller, want one")
			}
			k, core := counted.from.Load(), shared.Core().V1()
			nodes, pods := core.Nodes().Informer().GetIndexer(), core.Pods().Informer().GetIndexer()
			volumes := core.PersistentVolumes().Informer().GetIndexer()
			add := func(to cache.Indexer, o runtime.Object) { t.Helper(); expect.NoError(t, to.Add(o)) }
			add(nodes, node("n1", attachedTo, using))
			add(nodes, node("n2"))
			add(core.PersistentVolumeClaims().Informer().GetIndexer(), &v1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data"},
				Spec:       v1.PersistentVolumeClaimSpec{VolumeName: "pv"}})
			pod := user("ns", "p", "n1")
			pod.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{
				PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
			add(pods, pod)
			add(shared.Storage().V1().VolumeAttachments().Informer().GetIndexer(), attachmentOf("n1"))
			sync := func(step string, wantAttachments int, wantOnNode string) {
				t.Helper()
				if _, err := k.syncHandler(t.Context(), "pv"); err != nil {
					t.Fatalf("%s: got %v, want no error", step, err)
				}
				list, err := client.StorageV1().VolumeAttachments().List(t.Context(), metav1.ListOptions{})
				if err != nil || len(list.Items) != wantAttachments {
					t.Errorf("%s: got %d attachments (%v), want %d", step, len(list.Items), err, wantAttachments)
				}
				n, err := client.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{})
				if got := fmt.Sprint(n.Status.VolumesAttached); err != nil || got != wantOnNode {
					t.Errorf("%s: the node has %s attached (%v), want %s", step, got, err, wantOnNode)
				}
			}
			attached := fmt.Sprintf("[{%s }]", diskName)
			add(volumes, disk())
			if !restarted {
				sync("it is there", 1, attached)
			}
			expect.NoError(t, volumes.Delete(disk()))
			other := user("ns", "q", "n2")
			other.Spec.Volumes = pod.Spec.Volumes
			add(pods, other)
			sync("its Pod runs", 1, attached)
			expect.NoError(t, pods.Delete(pod))
			expect.NoError(t, pods.Delete(other))
			sync("its node uses it", 1, attached)
			expect.NoError(t, nodes.Update(node("n1", attachedTo)))
			sync("nobody uses it", 0, "[]")
		})
	}
}

// A volume that no node names is detached all the same.
func TestALostVolumeThatNoNodeNames(t *testing.T) {
	a := attachmentOf("n1")
	v := lostVolume("pv", []*storagev1.VolumeAttachment{a}, func(string) *v1.Node { return nil }, nil)
	if got := (Decide(In{Volume: v, Attachments: []*storagev1.VolumeAttachment{a},
		Nodes: func(string) *v1.Node { return nil }})).text(); got != "detach n1" {
		t.Errorf("got the plan %q, want \"detach n1\"", got)
	}
}
