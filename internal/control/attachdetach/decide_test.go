package attachdetach

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
	"github.com/gantry-project/gantry/test/wrappers"
)

const (
	diskName = v1.UniqueVolumeName("kubernetes.io/csi/disk.example.com^vol-1")
)

// begin is when attachments were made.
var begin = time.Unix(10000, 0)

func disk(modes ...v1.PersistentVolumeAccessMode) *v1.PersistentVolume {
	return &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: v1.PersistentVolumeSpec{
		AccessModes: modes, ClaimRef: &v1.ObjectReference{Namespace: "ns", Name: "data"},
		PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{
			Driver: "disk.example.com", VolumeHandle: "vol-1"}}}}
}

func user(ns, name, node string, change ...func(*v1.Pod)) *v1.Pod {
	return wrappers.MakePod().Namespace(ns).Name(name).Node(node).Obj(change...)
}

func attachmentOf(node string, change ...func(*storagev1.VolumeAttachment)) *storagev1.VolumeAttachment {
	a := In{Volume: disk()}.attachment(node)
	a.Status.Attached, a.CreationTimestamp = true, metav1.NewTime(begin)
	for _, f := range change {
		f(a)
	}
	return a
}

func node(name string, change ...func(*v1.Node)) *v1.Node {
	n := wrappers.MakeNode().Name(name).Obj()
	n.Annotations = map[string]string{managedAnnotation: "true"}
	n.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}}
	for _, f := range change {
		f(n)
	}
	return n
}

func attachedTo(n *v1.Node) { n.Status.VolumesAttached = []v1.AttachedVolume{{Name: diskName}} }
func using(n *v1.Node)      { n.Status.VolumesInUse = []v1.UniqueVolumeName{diskName} }
func notReady(n *v1.Node)   { n.Status.Conditions[0].Status = v1.ConditionUnknown }
func unmanaged(n *v1.Node)  { n.Annotations = nil }
func outOfService(n *v1.Node) {
	n.Spec.Taints = []v1.Taint{{Key: v1.TaintNodeOutOfService, Effect: v1.TaintEffectNoExecute}}
}
func withDecision(n *v1.Node) { n.Annotations[keepTerminatedPods] = "true" }
func setSucceeded(p *v1.Pod)  { p.Status.Phase = v1.PodSucceeded }
func setTerminating(p *v1.Pod) {
	p.DeletionTimestamp = &metav1.Time{}
	p.Status.ContainerStatuses = []v1.ContainerStatus{{State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}}
}

func setTerminatingWithoutContainers(p *v1.Pod) {
	p.DeletionTimestamp = &metav1.Time{}
	p.Status.ContainerStatuses = []v1.ContainerStatus{{State: v1.ContainerState{
		Terminated: &v1.ContainerStateTerminated{}}}}
}

func setNotAttached(a *storagev1.VolumeAttachment) { a.Status.Attached = false }
func leaving(a *storagev1.VolumeAttachment)        { a.DeletionTimestamp = &metav1.Time{Time: begin} }
func failing(a *storagev1.VolumeAttachment) {
	a.Status = storagev1.VolumeAttachmentStatus{AttachError: &storagev1.VolumeError{Message: "no such disk"}}
}

// text is a plan in one line, with events after it.
func (p Plan) text() string {
	var out []string
	for _, n := range p.TakeOff {
		out = append(out, "off "+n)
	}
	out = append(out, attachmentNames("detach", p.Detach)...)
	for _, a := range p.Attach {
		out = append(out, fmt.Sprintf("attach %s by %s to %s", *a.Spec.Source.PersistentVolumeName, a.Spec.Attacher,
			a.Spec.NodeName))
	}
	for _, n := range p.PutOn {
		out = append(out, "on "+n)
	}
	for _, e := range p.Events {
		out = append(out, fmt.Sprintf("%s/%s %s %s: %s", e.Pod.Namespace, e.Pod.Name, e.Type, e.Reason, e.Message))
	}
	if p.Again > 0 {
		out = append(out, "again in "+p.Again.String())
	}
	return strings.Join(out, "; ")
}

func attachmentNames(verb string, names []string) (out []string) {
	for _, name := range names {
		for _, n := range []string{"n1", "n2"} {
			if name == attachmentOf(n).Name {
				out = append(out, verb+" "+n)
			}
		}
	}
	return out
}

// row: CSI-15, CSI-09
func TestDecide(t *testing.T) {
	rwo, rwx, rox := v1.ReadWriteOnce, v1.ReadWriteMany, v1.ReadOnlyMany
	for name, c := range map[string]struct {
		pods        []*v1.Pod
		attachments []*storagev1.VolumeAttachment
		nodes       []*v1.Node
		modes       []v1.PersistentVolumeAccessMode
		unwanted    time.Duration // since begin
		direct      bool          // the driver attaches nothing
		want        string
	}{
		"a Pod came": {pods: []*v1.Pod{user("ns", "p", "n1")}, nodes: []*v1.Node{node("n1")},
			want: "attach pv by disk.example.com to n1"},
		"a Pod without a node": {pods: []*v1.Pod{user("ns", "p", "")}, nodes: []*v1.Node{node("n1")}},
		"a driver that attaches nothing": {pods: []*v1.Pod{user("ns", "p", "n1")}, nodes: []*v1.Node{node("n1")},
			direct: true},
		"a node that is not managed": {pods: []*v1.Pod{user("ns", "p", "n1")},
			nodes: []*v1.Node{node("n1", unmanaged)}},
		"a Pod that is done": {pods: []*v1.Pod{user("ns", "p", "n1", setSucceeded)}, nodes: []*v1.Node{node("n1")}},
		"a Pod that is done on a node that keeps volumes": {pods: []*v1.Pod{user("ns", "p", "n1", setSucceeded)},
			nodes: []*v1.Node{node("n1", withDecision)}, want: "attach pv by disk.example.com to n1"},
		"on its way": {pods: []*v1.Pod{user("ns", "p", "n1")}, nodes: []*v1.Node{node("n1")},
			attachments: []*storagev1.VolumeAttachment{attachmentOf("n1", setNotAttached)}, want: "again in 2m0s"},
		"nobody attaches it": {pods: []*v1.Pod{user("ns", "p", "n1")}, nodes: []*v1.Node{node("n1")},
			attachments: []*storagev1.VolumeAttachment{attachmentOf("n1", setNotAttached)}, unwanted: 2 * time.Minute,
			want: `ns/p Warning FailedAttachVolume: AttachVolume.Attach failed for volume "pv" : timed out waiting ` +
				"for external-attacher of disk.example.com CSI driver to attach volume vol-1"},
		"attached": {pods: []*v1.Pod{user("ns", "p", "n1")}, nodes: []*v1.Node{node("n1")},
			attachments: []*storagev1.VolumeAttachment{attachmentOf("n1")},
			want:        `on n1; ns/p Normal SuccessfulAttachVolume: AttachVolume.Attach succeeded for volume "pv" `},
		"attached and told": {pods: []*v1.Pod{user("ns", "p", "n1")}, nodes: []*v1.Node{node("n1", attachedTo)},
			attachments: []*storagev1.VolumeAttachment{attachmentOf("n1")}},
		"cannot be attached": {pods: []*v1.Pod{user("ns", "p", "n1")}, nodes: []*v1.Node{node("n1")},
			attachments: []*storagev1.VolumeAttachment{attachmentOf("n1", failing)},
			want:        `ns/p Warning FailedAttachVolume: AttachVolume.Attach failed for volume "pv" : no such disk`},
		"a Pod that ends still uses it": {pods: []*v1.Pod{user("ns", "p", "n1", setTerminating)},
			nodes:       []*v1.Node{node("n1", attachedTo, using)},
			attachments: []*storagev1.VolumeAttachment{attachmentOf("n1")}},
		"the last Pod ended": {pods: []*v1.Pod{user("ns", "p", "n1", setTerminatingWithoutContainers)},
			nodes:       []*v1.Node{node("n1", attachedTo)},
			attachments: []*storagev1.VolumeAttachment{attachmentOf("n1")}, want: "off n1; detach n1"},
		"the node still has it in use": {nodes: []*v1.Node{node("n1", attachedTo, using)},
			attachments: []*storagev1.VolumeAttachment{attachmentOf("n1")}, want: "again in 6m0s"},
		"a node that is Ready has it in use for long": {nodes: []*v1.Node{node("n1", attachedTo, using)},
			attachments: []*storagev1.VolumeAttachment{attachmentOf("n1")}, unwanted: 7 * time.Minute},
		"a node that is away has it in use": {nodes: []*v1.Node{node("n1", attachedTo, using, notReady)},
			attachments: []*storagev1.VolumeAttachment{attachmentOf("n1")}, unwanted: 5 * time.Minute,
			want: "again in 1m0s"},
		"a node that is away has it in use for long": {nodes: []*v1.Node{node("n1", attachedTo, using, notReady)},
			attachments: []*storagev1.VolumeAttachment{attachmentOf("n1")}, unwanted: 6 * time.Minute,
			want: "off n1; detach n1"},
		"a node out of service has it in use": {
			nodes:       []*v1.Node{node("n1", attachedTo, using, notReady, outOfService)},
			attachments: []*storagev1.VolumeAttachment{attachmentOf("n1")}, want: "off n1; detach n1"},
		"the node is gone": {attachments: []*storagev1.VolumeAttachment{attachmentOf("n1")}, want: "detach n1"},
		"on its way out": {nodes: []*v1.Node{node("n1")},
			attachments: []*storagev1.VolumeAttachment{attachmentOf("n1", leaving)}},
		"wanted on the way out": {pods: []*v1.Pod{user("ns", "p", "n1")}, nodes: []*v1.Node{node("n1")},
			attachments: []*storagev1.VolumeAttachment{attachmentOf("n1", leaving)}, want: "again in 2m0s"},
		"wanted, and nobody detaches it": {pods: []*v1.Pod{user("ns", "p", "n1")}, nodes: []*v1.Node{node("n1")},
			attachments: []*storagev1.VolumeAttachment{attachmentOf("n1", leaving)}, unwanted: 2 * time.Minute,
			want: `ns/p Warning FailedAttachVolume: AttachVolume.Attach failed for volume "pv" : volume attachment ` +
				"is being deleted"},
		"two nodes want what one may have": {modes: []v1.PersistentVolumeAccessMode{rwo},
			pods:        []*v1.Pod{user("ns", "a", "n1"), user("ns", "b", "n2"), user("ns", "c", "n2")},
			nodes:       []*v1.Node{node("n1", attachedTo), node("n2")},
			attachments: []*storagev1.VolumeAttachment{attachmentOf("n1")},
			want: `ns/b Warning FailedAttachVolume: Waiting for detach for volume "pv" Volume is already used by ` +
				`pod(s) a; ` +
				`ns/c Warning FailedAttachVolume: Waiting for detach for volume "pv" Volume is already used by ` +
				`pod(s) a`},
		"nobody holds what one may have": {modes: []v1.PersistentVolumeAccessMode{rwo},
			pods: []*v1.Pod{user("ns", "b", "n2")}, nodes: []*v1.Node{node("n1", attachedTo, using), node("n2")},
			attachments: []*storagev1.VolumeAttachment{attachmentOf("n1")},
			want: `ns/b Warning FailedAttachVolume: Waiting for detach for volume "pv" Volume is already exclusively ` +
				`attached to one node, waiting on detach before it can be attached to another node; again in 6m0s`},
		"two nodes want what many may have": {modes: []v1.PersistentVolumeAccessMode{rwx},
			pods:  []*v1.Pod{user("ns", "a", "n1"), user("ns", "b", "n2")},
			nodes: []*v1.Node{node("n1"), node("n2")}, want: "attach pv by disk.example.com to n1; attach pv by " +
				"disk.example.com to n2"},
		"two nodes want what many may read": {modes: []v1.PersistentVolumeAccessMode{rwo, rox},
			pods:  []*v1.Pod{user("ns", "a", "n1"), user("ns", "b", "n2")},
			nodes: []*v1.Node{node("n1", attachedTo), node("n2")}, want: "attach pv by disk.example.com to n2",
			attachments: []*storagev1.VolumeAttachment{attachmentOf("n1")}},
		"two nodes want what one may have, at once": {modes: []v1.PersistentVolumeAccessMode{rwo},
			pods:  []*v1.Pod{user("ns", "a", "n1"), user("ns", "b", "n2")},
			nodes: []*v1.Node{node("n1"), node("n2")},
			want:  "attach pv by disk.example.com to n1"},
	} {
		t.Run(name, func(t *testing.T) {
			now := begin.Add(c.unwanted)
			got := Decide(In{Now: now, Volume: disk(c.modes...), Pods: c.pods, Attachments: c.attachments,
				Attachable: !c.direct, UnwantedSince: func(string) time.Time { return begin },
				Nodes: func(name string) *v1.Node {
					for _, n := range c.nodes {
						if n.Name == name {
							return n
						}
					}
					return nil
				}}).text()
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// What is decided is written: the attachment with its driver, node and volume, the node's list, and
// all of it away again.
//
// row: CSI-15, CSI-09
func TestWhatIsDecidedIsWritten(t *testing.T) {
	client := fake.NewClientset(node("n1"))
	shared := informers.NewSharedInformerFactory(client, 0)
	c := New(controllerruntime.ControllerContext{Informers: shared, Client: client})
	if c == nil {
		t.Fatal("got no controller")
	}
	k, core := counted.from.Load(), shared.Core().V1()
	pods, attachments := core.Pods().Informer(), shared.Storage().V1().VolumeAttachments().Informer()
	pod := user("ns", "p", "n1")
	pod.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{
		PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
	claim := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data"},
		Spec: v1.PersistentVolumeClaimSpec{VolumeName: "pv"}}
	for to, o := range map[cache.SharedIndexInformer]runtime.Object{pods: pod, core.Nodes().Informer(): node("n1"),
		core.PersistentVolumeClaims().Informer(): claim, core.PersistentVolumes().Informer(): disk()} {
		if err := to.GetIndexer().Add(o); err != nil {
			t.Fatal(err)
		}
	}
	sync := func(step string, wantAttachments int, wantOnNode string) *storagev1.VolumeAttachment {
		t.Helper()
		if _, err := k.syncHandler(t.Context(), "pv"); err != nil {
			t.Fatal(err)
		}
		list, err := client.StorageV1().VolumeAttachments().List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) != wantAttachments {
			t.Fatalf("%s: got %d attachments (%v), want %d", step, len(list.Items), err, wantAttachments)
		}
		n, err := client.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{})
		if got := fmt.Sprint(n.Status.VolumesAttached); err != nil || got != wantOnNode {
			t.Errorf("%s: the node has %s attached (%v), want %s", step, got, err, wantOnNode)
		}
		if len(list.Items) == 0 {
			return nil
		}
		return &list.Items[0]
	}
	a := sync("a Pod came", 1, "[]")
	if a.Spec.Attacher != "disk.example.com" || a.Spec.NodeName != "n1" || a.Spec.Source.PersistentVolumeName == nil ||
		*a.Spec.Source.PersistentVolumeName != "pv" || a.Name != attachmentOf("n1").Name || a.Status.Attached {
		t.Errorf("attached with %+v, want the volume, its driver and the Pod's node", a)
	}
	a.Status.Attached = true
	if err := attachments.GetIndexer().Add(a); err != nil {
		t.Fatal(err)
	}
	sync("it is attached", 1, fmt.Sprintf("[{%s }]", diskName))
	if err := pods.GetIndexer().Delete(pod); err != nil {
		t.Fatal(err)
	}
	if err := core.Nodes().Informer().GetIndexer().Update(node("n1", attachedTo)); err != nil {
		t.Fatal(err)
	}
	sync("the Pod is gone", 0, "[]")
}

func TestHoldersInOtherNamespacesAreOnlyCounted(t *testing.T) {
	a, b := user("ns", "a", "n1"), user("other", "b", "n1")
	for want, holders := range map[string][]*v1.Pod{
		"Volume is already used by 1 pod(s) in different namespaces":              {b},
		"Volume is already used by pod(s) a and 1 pod(s) in different namespaces": {a, b},
		"Volume is already used by pod(s) a, a":                                   {a, a},
	} {
		if got := holdersMessage("ns", holders); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
