package attachdetach

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nodeutil "github.com/gantry-project/gantry/internal/node"
	podutil "github.com/gantry-project/gantry/internal/pod"
)

// attachTimeout is after what time an attacher is said to be waited for, as upstream.
const attachTimeout = 2 * time.Minute

// maxWaitForUnmountDuration is how long a volume stays attached that a node that is not Ready has
// in use, as upstream.
const maxWaitForUnmountDuration = 6 * time.Minute

// Annotations of nodes.
const (
	managedAnnotation  = "volumes.kubernetes.io/controller-managed-attach-detach"
	keepTerminatedPods = "volumes.kubernetes.io/keep-terminated-pod-volumes"
)

// In is all there is to know about one volume.
type In struct {
	Now         time.Time
	Volume      *v1.PersistentVolume
	Pods        []*v1.Pod                     // that name its claim
	Attachments []*storagev1.VolumeAttachment // of the volume
	Nodes       func(name string) *v1.Node    // nil: there is no such node
	Attachable  bool                          // the driver's volumes are attached
	Inline      bool                          // Volume stands for one of Pods without a claim
	Migrated    bool                          // the API names an in-tree plugin, which the driver took over
	// UnwantedSince is since when no Pod of the attachment's node wants the volume; Now when that
	// is new.
	UnwantedSince func(attachment string) time.Time
	// NoForce waits without end for a node that does not report.
	NoForce bool
}

// Event is one about a Pod.
type Event struct {
	Pod                   *v1.Pod
	Type, Reason, Message string
}

// Plan is what has to be done for a volume, in the order of the fields.
type Plan struct {
	TakeOff []string // nodes whose status has the volume as attached, and shall not
	Detach  []string // VolumeAttachments to delete
	// Forced is why, by name, of those of Detach whose node was not waited for: upstream's words
	Forced map[string]string
	Attach []*storagev1.VolumeAttachment
	PutOn  []string // nodes whose status shall have the volume as attached
	Events []Event
	Again  time.Duration // when to look again; 0: when something changes
}

// UniqueVolumeName is how a node's status calls the volume.
func UniqueVolumeName(v *v1.PersistentVolume) v1.UniqueVolumeName {
	return v1.UniqueVolumeName("kubernetes.io/csi/" + v.Spec.CSI.Driver + "^" + v.Spec.CSI.VolumeHandle)
}

// Decide is the plan for one volume of a CSI driver.
func Decide(in In) Plan {
	var p Plan
	users := in.users()
	byNode := map[string]*storagev1.VolumeAttachment{}
	for _, a := range in.Attachments {
		byNode[a.Spec.NodeName] = a
		if len(users[a.Spec.NodeName]) == 0 {
			in.detach(&p, a)
		} else {
			in.attached(&p, a, users[a.Spec.NodeName])
		}
	}
	if !in.Attachable || in.Volume.DeletionTimestamp != nil && len(in.Attachments) == 0 &&
		in.Volume.Spec.ClaimRef == nil {
		return p
	}
	for _, node := range sortedKeys(users) {
		if byNode[node] != nil {
			continue // it is attached, on the way, or has to go first
		}
		if others := in.exclusive(node, len(p.Attach) > 0); others != nil {
			if len(others) > 0 { // else it is said once it is attached there
				p.Events = append(p.Events, in.multiAttachError(users, node, others)...)
			}
			continue
		}
		p.Attach = append(p.Attach, in.attachment(node))
	}
	return p
}

// users are the Pods that want the volume attached, by node.
func (in In) users() map[string][]*v1.Pod {
	out := map[string][]*v1.Pod{}
	for _, pod := range in.Pods {
		n := in.Nodes(pod.Spec.NodeName)
		if pod.Spec.NodeName == "" || n == nil || n.Annotations[managedAnnotation] != "true" ||
			isTerminated(pod) && n.Annotations[keepTerminatedPods] != "true" {
			continue
		}
		out[pod.Spec.NodeName] = append(out[pod.Spec.NodeName], pod)
	}
	for _, pods := range out {
		slices.SortFunc(pods, func(a, b *v1.Pod) int {
			return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
		})
	}
	return out
}

// isTerminated: nothing of the Pod runs, and nothing will.
func isTerminated(pod *v1.Pod) bool {
	if podutil.IsTerminal(pod) {
		return true
	}
	return pod.DeletionTimestamp != nil && !slices.ContainsFunc(pod.Status.ContainerStatuses,
		func(s v1.ContainerStatus) bool { return s.State.Terminated == nil && s.State.Waiting == nil })
}

// detach has a volume taken from a node that wants it no longer, once the node says that it does
// not use it, is gone, or is beyond asking.
func (in In) detach(p *Plan, a *storagev1.VolumeAttachment) {
	n := in.Nodes(a.Spec.NodeName)
	name := UniqueVolumeName(in.Volume)
	if a.DeletionTimestamp == nil && n != nil && slices.Contains(n.Status.VolumesInUse, name) &&
		!isOutOfService(n) {
		left := maxWaitForUnmountDuration - in.Now.Sub(in.UnwantedSince(a.Name))
		if nodeutil.IsReady(n) || in.NoForce || left > 0 {
			if left > 0 {
				p.wake(left)
			}
			return
		}
	}
	if n != nil && hasAttached(n, name) {
		p.TakeOff = append(p.TakeOff, n.Name)
	}
	if a.DeletionTimestamp != nil {
		return
	}
	p.Detach = append(p.Detach, a.Name)
	if why := in.forced(n, a.Name); why != "" {
		if p.Forced == nil {
			p.Forced = map[string]string{}
		}
		p.Forced[a.Name] = why
	}
}

// forced is why a node is not asked whether it still uses a volume; empty when it is, or is gone.
func (in In) forced(n *v1.Node, attachment string) string {
	switch {
	case n == nil:
		return ""
	case !in.NoForce && !nodeutil.IsReady(n) && in.Now.Sub(in.UnwantedSince(attachment)) >= maxWaitForUnmountDuration:
		return "timeout"
	case isOutOfService(n):
		return "out-of-service"
	}
	return ""
}

// attached tells the node of a volume that is attached, and its Pods of one that cannot be, that an
// attacher does not attach in time, or that has to be detached first and is not in time.
func (in In) attached(p *Plan, a *storagev1.VolumeAttachment, users []*v1.Pod) {
	node := in.Nodes(a.Spec.NodeName)
	say := func(kind, reason, message string) {
		for _, pod := range users {
			p.Events = append(p.Events, Event{pod, kind, reason, message})
		}
	}
	failed := func(why string) {
		say(v1.EventTypeWarning, "FailedAttachVolume", volumeMessage("AttachVolume.Attach failed", in.Volume, ": "+why))
	}
	switch {
	case a.DeletionTimestamp != nil:
		if in.waited(p, *a.DeletionTimestamp) {
			failed("volume attachment is being deleted")
		}
	case a.Status.Attached && !hasAttached(node, UniqueVolumeName(in.Volume)):
		p.PutOn = append(p.PutOn, node.Name)
		say(v1.EventTypeNormal, "SuccessfulAttachVolume", volumeMessage("AttachVolume.Attach succeeded", in.Volume, ""))
	case !a.Status.Attached && a.Status.AttachError != nil:
		failed(a.Status.AttachError.Message)
	case !a.Status.Attached && in.waited(p, a.CreationTimestamp):
		failed(fmt.Sprintf("timed out waiting for external-attacher of %s CSI driver to attach volume %s",
			in.Volume.Spec.CSI.Driver, in.Volume.Spec.CSI.VolumeHandle))
	}
}

// waited tells whether an attacher was given its time; if not, the plan is made again then.
func (in In) waited(p *Plan, since metav1.Time) bool {
	left := attachTimeout - in.Now.Sub(since.Time)
	if left > 0 {
		p.wake(left)
	}
	return left <= 0
}

func volumeMessage(prefix string, v *v1.PersistentVolume, suffix string) string {
	return fmt.Sprintf("%s for volume %q %s", prefix, v.Name, suffix)
}

// exclusive are the other nodes that keep the volume from being attached to this one; nil when none
// does. soon: it is about to be attached to another. A volume that names no access mode is the
// attacher's to refuse, as upstream.
func (in In) exclusive(node string, soon bool) []string {
	if len(in.Volume.Spec.AccessModes) == 0 {
		return nil
	}
	for _, m := range in.Volume.Spec.AccessModes {
		if m == v1.ReadWriteMany || m == v1.ReadOnlyMany {
			return nil
		}
	}
	var others []string
	if soon {
		others = []string{}
	}
	for _, a := range in.Attachments {
		if a.Spec.NodeName != node {
			others = append(others, a.Spec.NodeName)
		}
	}
	return others
}

// multiAttachError tells the Pods of a node who has the volume.
func (in In) multiAttachError(users map[string][]*v1.Pod, node string, others []string) []Event {
	var holders []*v1.Pod
	for _, other := range others {
		holders = append(holders, users[other]...)
	}
	var out []Event
	for _, pod := range users[node] {
		message := "Volume is already exclusively attached to one node, waiting on detach before it can be attached " +
			"to another node"
		if len(holders) > 0 {
			message = holdersMessage(pod.Namespace, holders)
		}
		out = append(out, Event{pod, v1.EventTypeWarning, "FailedAttachVolume",
			volumeMessage("Waiting for detach", in.Volume, message)})
	}
	return out
}

// holdersMessage names the Pods of the namespace, and only counts the others.
func holdersMessage(namespace string, holders []*v1.Pod) string {
	var names []string
	elsewhere := 0
	for _, h := range holders {
		if h.Namespace == namespace {
			names = append(names, h.Name)
		} else {
			elsewhere++
		}
	}
	switch {
	case len(names) == 0:
		return fmt.Sprintf("Volume is already used by %d pod(s) in different namespaces", elsewhere)
	case elsewhere > 0:
		return fmt.Sprintf("Volume is already used by pod(s) %s and %d pod(s) in different namespaces",
			strings.Join(names, ", "), elsewhere)
	}
	return "Volume is already used by pod(s) " + strings.Join(names, ", ")
}

// lostVolume is what VolumeAttachments of a PersistentVolume that is gone tell of it, with their
// nodes, which name volumes by driver and handle, and the claim that was bound to it. A volume that
// no node names has no handle: none has it in use.
func lostVolume(name string, attachments []*storagev1.VolumeAttachment, nodes func(string) *v1.Node,
	claims []*v1.PersistentVolumeClaim) *v1.PersistentVolume {
	source := &v1.CSIPersistentVolumeSource{Driver: attachments[0].Spec.Attacher}
	for _, a := range attachments {
		n := nodes(a.Spec.NodeName)
		if n == nil {
			continue
		}
		named := slices.Clone(n.Status.VolumesInUse)
		for _, at := range n.Status.VolumesAttached {
			named = append(named, at.Name)
		}
		for _, unique := range named {
			handle, ok := strings.CutPrefix(string(unique), "kubernetes.io/csi/"+source.Driver+"^")
			if ok && attachmentName(handle, source.Driver, n.Name) == a.Name {
				source.VolumeHandle = handle
			}
		}
	}
	v := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.PersistentVolumeSpec{
		PersistentVolumeSource: v1.PersistentVolumeSource{CSI: source}}}
	for _, claim := range claims {
		if claim.Spec.VolumeName == name {
			v.Spec.ClaimRef = &v1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
		}
	}
	return v
}

// attachmentName is the name that kubelets know.
func attachmentName(handle, driver, node string) string {
	return fmt.Sprintf("csi-%x", sha256.Sum256([]byte(handle+driver+node)))
}

// attachment is the VolumeAttachment of the volume and a node.
func (in In) attachment(node string) *storagev1.VolumeAttachment {
	c, name := in.Volume.Spec.CSI, in.Volume.Name
	source := storagev1.VolumeAttachmentSource{PersistentVolumeName: &name}
	if in.Inline {
		source = storagev1.VolumeAttachmentSource{InlineVolumeSpec: &in.Volume.Spec}
	}
	return &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{
			Name: attachmentName(c.VolumeHandle, c.Driver, node)},
		Spec: storagev1.VolumeAttachmentSpec{Attacher: c.Driver, NodeName: node,
			Source: source}}
}

func (p *Plan) wake(in time.Duration) {
	if p.Again == 0 || in < p.Again {
		p.Again = in
	}
}

func hasAttached(n *v1.Node, name v1.UniqueVolumeName) bool {
	return slices.ContainsFunc(n.Status.VolumesAttached, func(a v1.AttachedVolume) bool { return a.Name == name })
}

func isOutOfService(n *v1.Node) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t v1.Taint) bool { return t.Key == v1.TaintNodeOutOfService })
}

func sortedKeys(m map[string][]*v1.Pod) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
