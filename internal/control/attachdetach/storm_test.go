package attachdetach

import (
	"context"
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
	"github.com/gantry-project/gantry/test/expect"
)

// attacher answers as an external attacher does.
func attacher(t *testing.T, client *fake.Clientset) cache.ResourceEventHandlerFuncs {
	return cache.ResourceEventHandlerFuncs{AddFunc: func(o any) {
		a := o.(*storagev1.VolumeAttachment).DeepCopy()
		a.Status.Attached = true
		_, err := client.StorageV1().VolumeAttachments().UpdateStatus(t.Context(), a, metav1.UpdateOptions{})
		if err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
	}}
}

// row: CSI-15
// A hundred volumes of Pods that come at once are attached, and detached when the Pods leave at
// once: each VolumeAttachment is made and deleted once, the node has each volume, and then none.
func TestAStormOfAttachments(t *testing.T) {
	const many = 100
	objects := []runtime.Object{node("n1")}
	var pods []*v1.Pod
	for i := range many {
		name, uid := fmt.Sprintf("data-%d", i), types.UID(fmt.Sprintf("c-%d", i))
		pv := disk(v1.ReadWriteOnce)
		pv.Name, pv.Spec.CSI.VolumeHandle = name, "vol-"+name
		pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: "ns", Name: name, UID: uid}
		pod := user("ns", fmt.Sprintf("p-%d", i), "n1")
		pod.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{
			PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: name}}}}
		pods = append(pods, pod)
		objects = append(objects, pod, pv, &v1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: uid},
			Spec:       v1.PersistentVolumeClaimSpec{VolumeName: name}})
	}
	client := fake.NewClientset(objects...)
	shared := informers.NewSharedInformerFactory(client, 0)
	c := New(controllerruntime.ControllerContext{Informers: shared, Client: client})
	k := counted.from.Load()
	if _, err := shared.Storage().V1().VolumeAttachments().Informer().AddEventHandler(attacher(t, client)); err != nil {
		t.Fatal(err)
	}
	shared.Start(t.Context().Done())
	shared.WaitForCacheSync(t.Context().Done())
	ended, end := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { c.Run(ended); close(done) }()
	state := func(attachments int) func() error {
		return func() error {
			list, err := client.StorageV1().VolumeAttachments().List(t.Context(), metav1.ListOptions{})
			if err != nil {
				return err
			}
			n, err := client.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{})
			if err != nil || len(list.Items) != attachments || len(n.Status.VolumesAttached) != attachments {
				return fmt.Errorf("got %d attachments, %d volumes on the node (%v), want %d", len(list.Items),
					len(n.Status.VolumesAttached), err, attachments)
			}
			return nil
		}
	}
	expect.EventuallyNoError(t, "all are attached", state(many))
	for _, p := range pods {
		if err := client.CoreV1().Pods("ns").Delete(t.Context(), p.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	expect.EventuallyNoError(t, "all are detached", state(0))
	expect.Eventually(t, "the cache has no attachment", func() bool { return len(k.attachments.List()) == 0 })
	end()
	<-done
	calls := map[string]int{}
	patches := 0
	for _, a := range client.Actions() {
		switch {
		case a.Matches("patch", "nodes"):
			patches++
		case a.Matches("create", "volumeattachments"):
			calls["create"]++
		case a.Matches("delete", "volumeattachments"):
			calls["delete"]++
		}
	}
	if calls["create"] != many || calls["delete"] != many || patches != 2*many {
		t.Errorf("got %v of attachments and %d patches of the node, want %d each and %d", calls, patches, many, 2*many)
	}
}
