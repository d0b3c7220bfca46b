package fork

import (
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gantry-project/gantry/internal/control/attachdetach"
	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/simulate/memapi"
	"github.com/gantry-project/gantry/internal/simulate/memstore"
)

// assumedAttaching is how long a volume takes to be attached, or detached, where none tells.
const assumedAttaching = 2 * time.Second

// attacher attaches and detaches volumes as the external attachers of a cluster do, after the time
// that attaching took there.
type attacher struct {
	took map[string]time.Duration // by driver
	asks map[string]bool          // VolumeAttachments under way, by UID and what is done
}

// newAttacher learns how long volumes took to be attached: the median of each driver, from the
// creation of a VolumeAttachment to the last write of its status, which the API keeps to the
// second.
func newAttacher(objects []runtime.Object) *attacher {
	out := &attacher{took: map[string]time.Duration{}, asks: map[string]bool{}}
	all := map[string][]time.Duration{}
	for _, o := range objects {
		a, ok := o.(*storagev1.VolumeAttachment)
		if !ok || !a.Status.Attached {
			continue
		}
		for _, f := range a.ManagedFields {
			if f.Subresource != "status" || f.Time == nil {
				continue
			}
			if d := f.Time.Sub(a.CreationTimestamp.Time); d >= 0 && d <= longestProvisioning {
				all[a.Spec.Attacher] = append(all[a.Spec.Attacher], d)
			}
		}
	}
	for driver, list := range all {
		slices.Sort(list)
		out.took[driver] = list[len(list)/2]
	}
	return out
}

func (a *attacher) usual(driver string) time.Duration {
	if d, known := a.took[driver]; known {
		return d
	}
	return assumedAttaching
}

// attachmentChanged begins to attach or to detach a volume. Its finalizer keeps a VolumeAttachment
// until it is detached.
func (c *Cluster) attachmentChanged(change memstore.Change) {
	a, ok := change.New.(*storagev1.VolumeAttachment)
	if !ok {
		return
	}
	ask := func(what string, after time.Duration, do func(*storagev1.VolumeAttachment)) {
		key := string(a.UID) + what
		if c.attacher.asks[key] {
			return
		}
		c.attacher.asks[key] = true
		c.At(c.clock.Add(after), func(ctx context.Context) {
			delete(c.attacher.asks, key)
			fresh, err := c.Client().StorageV1().VolumeAttachments().Get(ctx, a.Name, metav1.GetOptions{})
			if err == nil && fresh.UID == a.UID {
				do(fresh)
				c.putAttachment(fresh)
			}
		})
	}
	finalizer := "external-attacher/" + strings.ReplaceAll(a.Spec.Attacher, "/", "-")
	took := c.attacher.usual(a.Spec.Attacher)
	switch {
	case a.DeletionTimestamp != nil:
		ask(" detach", took, func(a *storagev1.VolumeAttachment) { a.Finalizers = nil })
	case !slices.Contains(a.Finalizers, finalizer):
		ask(" hold", 0, func(a *storagev1.VolumeAttachment) { a.Finalizers = append(a.Finalizers, finalizer) })
	case !a.Status.Attached:
		ask(" attach", took, func(a *storagev1.VolumeAttachment) {
			a.Status = storagev1.VolumeAttachmentStatus{Attached: true, AttachmentMetadata: a.Status.AttachmentMetadata}
		})
	}
}

// putAttachment stores what the attacher wrote. One that is being deleted and that nothing holds is
// gone.
func (c *Cluster) putAttachment(a *storagev1.VolumeAttachment) {
	prefix := memapi.Prefix(storagev1.Resource("volumeattachments"))
	if a.DeletionTimestamp != nil && len(a.Finalizers) == 0 {
		c.store.Remove(prefix, prefix+"/"+a.Name)
		return
	}
	c.store.Replace(prefix, prefix+"/"+a.Name, a)
}

// attachable names the volumes of a Pod's claims that are attached to nodes.
func (c *Cluster) attachable(p *corev1.Pod) (names []corev1.UniqueVolumeName, usual time.Duration) {
	ctx := context.Background() // memory answers
	for i := range p.Spec.Volumes {
		pv := c.volumeOf(ctx, p, &p.Spec.Volumes[i])
		if pv == nil || pv.Spec.CSI == nil {
			continue
		}
		d, err := c.Client().StorageV1().CSIDrivers().Get(ctx, pv.Spec.CSI.Driver, metav1.GetOptions{})
		if err == nil && d.Spec.AttachRequired != nil && !*d.Spec.AttachRequired {
			continue
		}
		names = append(names, attachdetach.UniqueVolumeName(pv))
		usual = max(usual, c.attacher.usual(pv.Spec.CSI.Driver))
	}
	if len(names) > 0 && !c.managed(ctx, p.Spec.NodeName) {
		return nil, 0
	}
	return names, usual
}

// managed tells whether the controller attaches volumes to a node, and not its kubelet.
func (c *Cluster) managed(ctx context.Context, node string) bool {
	n, err := c.Client().CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	return err == nil && n.Annotations[managedAttaching] == "true"
}

// managedAttaching is the annotation of nodes whose volumes the controller attaches.
const managedAttaching = "volumes.kubernetes.io/controller-managed-attach-detach"

// volumeOf is the volume of a claim of a Pod; nil: there is none, or it is no claim.
func (c *Cluster) volumeOf(ctx context.Context, p *corev1.Pod, v *corev1.Volume) *corev1.PersistentVolume {
	name, _ := pod.ClaimName(p, v)
	if name == "" {
		return nil
	}
	claim, err := c.Client().CoreV1().PersistentVolumeClaims(p.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil || claim.Spec.VolumeName == "" {
		return nil
	}
	pv, err := c.Client().CoreV1().PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return pv
}

// holders names the other nodes that a volume is attached to, which keep it from a Pod's; empty:
// it may be attached to several, or is attached to none.
func (c *Cluster) holders(ctx context.Context, p *corev1.Pod, pv *corev1.PersistentVolume) []string {
	onSeveral := func(m corev1.PersistentVolumeAccessMode) bool {
		return m == corev1.ReadWriteMany || m == corev1.ReadOnlyMany
	}
	if p.Spec.NodeName == "" || slices.ContainsFunc(pv.Spec.AccessModes, onSeveral) {
		return nil
	}
	all, err := c.Client().StorageV1().VolumeAttachments().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil
	}
	var out []string
	for i := range all.Items {
		a := &all.Items[i]
		if v := a.Spec.Source.PersistentVolumeName; v != nil && *v == pv.Name && a.Spec.NodeName != p.Spec.NodeName {
			out = append(out, a.Spec.NodeName)
		}
	}
	slices.Sort(out)
	return out
}

// Silent names the nodes that do not answer and keep a volume from a Pod.
func (c *Cluster) Silent(ctx context.Context, p *corev1.Pod) []string {
	var out []string
	for i := range p.Spec.Volumes {
		pv := c.volumeOf(ctx, p, &p.Spec.Volumes[i])
		if pv == nil {
			continue
		}
		for _, node := range c.holders(ctx, p, pv) {
			if c.kubelets.Lost(node) && !slices.Contains(out, node) {
				out = append(out, node)
			}
		}
	}
	return out
}
