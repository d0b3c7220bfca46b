// Package attachdetach has volumes of CSI drivers attached to the nodes whose Pods use them, and
// detached when none does.
//
// In: Pods, claims, volumes, CSIDrivers, VolumeAttachments, nodes (which volumes they have in use).
// Out: VolumeAttachments, which external attachers act on; status.volumesAttached of nodes, which
// kubelets wait for; events with upstream's texts. A volume is taken off the node's status before
// its VolumeAttachment is deleted, so that no kubelet begins to use it meanwhile.
//
// Each sync is of one PersistentVolume, with one worker: what nodes' statuses say is written by
// nobody else.
package attachdetach

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/retry"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
	nodeutil "github.com/gantry-project/gantry/internal/node"
	podutil "github.com/gantry-project/gantry/internal/pod"
)

// Indices: Pods by claim, VolumeAttachments by volume.
const (
	podsByClaim       = "attachdetachClaim"
	attachmentsByName = "attachdetachVolume"
)

type controller struct {
	controllerContext controllerruntime.ControllerContext
	claims            corelisters.PersistentVolumeClaimLister
	volumes           corelisters.PersistentVolumeLister
	nodes             corelisters.NodeLister
	drivers           storagelisters.CSIDriverLister
	pods, attachments cache.Indexer
	unwantedSince     map[string]time.Time // by VolumeAttachment; the worker's alone
	// by name, as last seen, while they have VolumeAttachments; the worker's alone
	attached map[string]*v1.PersistentVolume
	reported map[string]string // last event by volume and Pod; the worker's alone
	pending  operations        // the worker's alone
}

// New returns the controller.
func New(d controllerruntime.ControllerContext) controllerruntime.Runner {
	core, store := d.Informers.Core().V1(), d.Informers.Storage().V1()
	pods, attachments := core.Pods().Informer(), store.VolumeAttachments().Informer()
	// AddIndexers only fails on a stopped informer, when the process is about to end.
	claims := func(o any) ([]string, error) { return podutil.ClaimKeys(o), nil }
	inline := func(o any) ([]string, error) { return slices.Collect(maps.Keys(inlineVolumes(o))), nil }
	_ = pods.AddIndexers(cache.Indexers{podsByClaim: claims, podsByInline: inline})
	_ = attachments.AddIndexers(cache.Indexers{attachmentsByName: func(o any) ([]string, error) {
		return volumeOf(o), nil
	}})
	c := &controller{d, core.PersistentVolumeClaims().Lister(), core.PersistentVolumes().Lister(),
		core.Nodes().Lister(),
		store.CSIDrivers().Lister(), pods.GetIndexer(), attachments.GetIndexer(), map[string]time.Time{},
		map[string]*v1.PersistentVolume{}, map[string]string{}, operations{}}
	counted.from.Store(c)
	q := controllerruntime.NewQueue("attachdetach", 1, c.syncHandler)
	q.Watch(pods, c.keysOfPod)
	q.Watch(attachments, func(old, cur runtime.Object) []string {
		if cur == nil {
			return volumeOf(old)
		}
		return volumeOf(cur)
	})
	q.Watch(core.PersistentVolumeClaims().Informer(), func(_, cur runtime.Object) []string {
		if claim, ok := cur.(*v1.PersistentVolumeClaim); ok && claim.Spec.VolumeName != "" {
			return []string{claim.Spec.VolumeName}
		}
		return nil
	})
	q.WatchByKey(core.PersistentVolumes().Informer())
	q.Watch(core.Nodes().Informer(), c.keysOfNode)
	q.WaitForInformers(store.CSIDrivers().Informer())
	return q
}

func volumeOf(o any) []string {
	a, ok := o.(*storagev1.VolumeAttachment)
	switch {
	case !ok:
	case a.Spec.Source.PersistentVolumeName != nil:
		return []string{*a.Spec.Source.PersistentVolumeName}
	case inlineOf(a) != "":
		return []string{inlineOf(a)}
	}
	return nil
}

// keysOfPod are the volumes of the Pod's claims, when it came to a node, ended, or left.
func (c *controller) keysOfPod(old, cur runtime.Object) []string {
	was, _ := old.(*v1.Pod)
	is, _ := cur.(*v1.Pod)
	if was != nil && is != nil && was.UID == is.UID && was.Spec.NodeName == is.Spec.NodeName &&
		isTerminated(was) == isTerminated(is) {
		return nil
	}
	var out []string
	for _, pod := range []*v1.Pod{was, is} {
		if pod == nil || pod.Spec.NodeName == "" {
			continue
		}
		for _, key := range podutil.ClaimKeys(pod) {
			ns, name, _ := cache.SplitMetaNamespaceKey(key)
			if claim, err := c.claims.PersistentVolumeClaims(ns).Get(name); err == nil && claim.Spec.VolumeName != "" {
				out = append(out, claim.Spec.VolumeName)
			}
		}
		out = slices.AppendSeq(out, maps.Keys(inlineVolumes(pod)))
	}
	return out
}

// keysOfNode are the volumes that are attached to a node, or shall be, when what it says of them is
// new.
func (c *controller) keysOfNode(old, cur runtime.Object) []string {
	was, _ := old.(*v1.Node)
	is, _ := cur.(*v1.Node)
	if was != nil && is != nil && slices.Equal(was.Status.VolumesInUse, is.Status.VolumesInUse) &&
		slices.Equal(was.Status.VolumesAttached, is.Status.VolumesAttached) &&
		nodeutil.IsReady(was) == nodeutil.IsReady(is) && isOutOfService(was) == isOutOfService(is) &&
		was.Annotations[managedAnnotation] == is.Annotations[managedAnnotation] {
		return nil
	}
	n := is
	if n == nil {
		n = was
	}
	var out []string
	for _, o := range c.attachments.List() {
		if o.(*storagev1.VolumeAttachment).Spec.NodeName == n.Name {
			out = append(out, volumeOf(o)...)
		}
	}
	// Pods may have been before the node, or before its kubelet left attaching to the controller.
	if was == nil || is != nil && was.Annotations[managedAnnotation] != is.Annotations[managedAnnotation] {
		for _, o := range c.pods.List() {
			if pod, ok := o.(*v1.Pod); ok && pod.Spec.NodeName == n.Name {
				out = append(out, c.keysOfPod(nil, pod)...)
			}
		}
	}
	return out
}

func (c *controller) syncHandler(ctx context.Context, key string) (time.Duration, error) {
	in, err := c.in(key)
	if err != nil {
		return 0, err
	}
	if in == nil {
		count(c.pending.observe(key, nil, c.controllerContext.Time()))
		return 0, nil
	}
	count(c.pending.observe(key, in.Attachments, in.Now))
	p := Decide(*in)
	asked := operation{volume: key, driver: in.Volume.Spec.CSI.Driver, migrated: in.Migrated, began: in.Now}
	name := UniqueVolumeName(in.Volume)
	for _, node := range p.TakeOff {
		if err := c.writeAttached(ctx, node, name, false); err != nil {
			return 0, err
		}
	}
	attachments := c.controllerContext.Client.StorageV1().VolumeAttachments()
	for _, a := range p.Detach {
		if err := attachments.Delete(ctx, a, metav1.DeleteOptions{}); controllerruntime.IgnoreNotFound(err) != nil {
			return 0, err
		}
		asked.name = volumeDetach
		c.pending.begin(a, asked)
		if why := p.Forced[a]; why != "" {
			forcedDetaches.WithLabelValues(why).Inc()
		}
	}
	for _, a := range p.Attach {
		if _, err := attachments.Create(ctx, a, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return 0, err
		}
		asked.name = volumeAttach
		c.pending.begin(a.Name, asked)
	}
	for _, node := range p.PutOn {
		if err := c.writeAttached(ctx, node, name, true); err != nil {
			return 0, err
		}
	}
	c.recordEvents(key, p.Events)
	return p.Again, nil
}

// in is what there is to know about a volume; nil when it is none of a CSI driver.
func (c *controller) in(key string) (*In, error) {
	found, err := c.attachments.ByIndex(attachmentsByName, key)
	if err != nil {
		return nil, err
	}
	in := &In{Now: c.controllerContext.Time(), Nodes: c.node, NoForce: c.controllerContext.Volumes.NoForcedDetach}
	for _, o := range found {
		in.Attachments = append(in.Attachments, o.(*storagev1.VolumeAttachment))
	}
	if err := c.addVolume(in, key); err != nil || in.Volume == nil || in.Volume.Spec.CSI == nil {
		return nil, err
	}
	slices.SortFunc(in.Attachments, func(a, b *storagev1.VolumeAttachment) int {
		return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
	})
	in.UnwantedSince = func(name string) time.Time {
		if _, ok := c.unwantedSince[name]; !ok {
			c.unwantedSince[name] = in.Now
		}
		return c.unwantedSince[name]
	}
	return in, c.addPods(in)
}

// addVolume adds the volume as its CSI driver sees it, or, while one that was removed by force is
// still attached, what is known of it: what the controller has seen, or else what attachments,
// nodes and its claim tell. Without any it adds nothing.
func (c *controller) addVolume(in *In, key string) error {
	if strings.HasPrefix(key, inlinePrefix) {
		return c.addInline(in, key)
	}
	v, migrated, err := c.findVolume(key)
	if controllerruntime.IgnoreNotFound(err) != nil {
		return err
	}
	in.Volume, in.Migrated = v, migrated
	switch {
	case err == nil:
		in.Attachable = v.Spec.CSI != nil && c.attaches(v.Spec.CSI.Driver)
		delete(c.attached, key)
		if len(in.Attachments) > 0 {
			c.attached[key] = v
		}
	case len(in.Attachments) == 0:
		delete(c.attached, key)
	case c.attached[key] != nil:
		in.Volume = c.attached[key]
	default:
		claims, err := c.claims.List(labels.Everything())
		if err != nil {
			return err
		}
		in.Volume = lostVolume(key, in.Attachments, c.node, claims)
	}
	return nil
}

// addPods adds the Pods that name the volume's claim, and forgets since when attachments are
// unwanted that are wanted again, or gone.
func (c *controller) addPods(in *In) error {
	if ref := in.Volume.Spec.ClaimRef; ref != nil {
		claim, err := c.claims.PersistentVolumeClaims(ref.Namespace).Get(ref.Name)
		if err == nil && claim.UID == ref.UID && claim.Spec.VolumeName == in.Volume.Name {
			found, err := c.pods.ByIndex(podsByClaim, ref.Namespace+"/"+ref.Name)
			if err != nil {
				return err
			}
			for _, o := range found {
				in.Pods = append(in.Pods, o.(*v1.Pod))
			}
		}
	}
	users := in.users()
	for _, a := range in.Attachments {
		if len(users[a.Spec.NodeName]) > 0 {
			delete(c.unwantedSince, a.Name)
		}
	}
	if len(c.unwantedSince) > 0 {
		all, err := c.listAttachments()
		if err != nil {
			return err
		}
		for name := range c.unwantedSince {
			if !all[name] {
				delete(c.unwantedSince, name)
			}
		}
	}
	return nil
}

func (c *controller) listAttachments() (map[string]bool, error) {
	list, err := c.controllerContext.Informers.Storage().V1().VolumeAttachments().Lister().List(labels.Everything())
	if err != nil {
		return nil, err
	}
	out := map[string]bool{}
	for _, a := range list {
		out[a.Name] = true
	}
	return out, nil
}

// writeAttached puts the volume on the node's volumesAttached, or takes it off.
func (c *controller) writeAttached(ctx context.Context, node string, name v1.UniqueVolumeName, attached bool) error {
	nodes := c.controllerContext.Client.CoreV1().Nodes()
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		n, err := nodes.Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			return controllerruntime.IgnoreNotFound(err)
		}
		if hasAttached(n, name) == attached {
			return nil
		}
		list := slices.DeleteFunc(slices.Clone(n.Status.VolumesAttached),
			func(a v1.AttachedVolume) bool { return a.Name == name })
		if attached {
			list = append(list, v1.AttachedVolume{Name: name})
		}
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": n.ResourceVersion},
			"status": map[string]any{"volumesAttached": list}})
		if err != nil {
			return err
		}
		_, err = nodes.Patch(ctx, node, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
		return err
	})
}

// recordEvents records the events that say something new.
func (c *controller) recordEvents(volume string, events []Event) {
	for key := range c.reported {
		v, uid, _ := strings.Cut(key, "\x00")
		if v == volume && !slices.ContainsFunc(events, func(e Event) bool { return string(e.Pod.UID) == uid }) {
			delete(c.reported, key)
		}
	}
	for _, e := range events {
		key := volume + "\x00" + string(e.Pod.UID)
		if c.reported[key] == e.Message || c.controllerContext.Recorder == nil {
			continue
		}
		c.reported[key] = e.Message
		c.controllerContext.Recorder.Event(e.Pod, e.Type, e.Reason, e.Message)
	}
}
