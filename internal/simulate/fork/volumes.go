package fork

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"

	"github.com/gantry-project/gantry/internal/simulate/memstore"
)

// assumedProvisioning is how long a volume takes to be made where none tells.
const assumedProvisioning = 2 * time.Second

// longestProvisioning is the longest time that is believed: a claim may have waited for its Pod.
const longestProvisioning = 5 * time.Minute

// provisioner makes volumes for claims as the external provisioners of a cluster do, after the time
// that they took there.
type provisioner struct {
	took map[string]time.Duration // by storage class
	asks map[types.UID]bool       // claims whose volumes are being made
}

// newProvisioner learns how long volumes took to be made, from claims and the volumes made for
// them: the median of each class that makes them at once.
func newProvisioner(objects []runtime.Object) *provisioner {
	p := &provisioner{took: map[string]time.Duration{}, asks: map[types.UID]bool{}}
	claims, immediate := map[types.UID]*corev1.PersistentVolumeClaim{}, map[string]bool{}
	for _, o := range objects {
		switch o := o.(type) {
		case *corev1.PersistentVolumeClaim:
			claims[o.UID] = o
		case *storagev1.StorageClass:
			immediate[o.Name] = o.VolumeBindingMode == nil || *o.VolumeBindingMode == storagev1.VolumeBindingImmediate
		}
	}
	all := map[string][]time.Duration{}
	for _, o := range objects {
		v, ok := o.(*corev1.PersistentVolume)
		if !ok || v.Spec.ClaimRef == nil || v.Annotations[volume.AnnDynamicallyProvisioned] == "" {
			continue
		}
		c := claims[v.Spec.ClaimRef.UID]
		if c == nil || c.UID == "" || !immediate[v.Spec.StorageClassName] {
			continue
		}
		if d := v.CreationTimestamp.Sub(c.CreationTimestamp.Time); d >= 0 && d <= longestProvisioning {
			all[v.Spec.StorageClassName] = append(all[v.Spec.StorageClassName], d)
		}
	}
	for class, list := range all {
		slices.Sort(list)
		p.took[class] = list[len(list)/2]
	}
	return p
}

// claimChanged begins to make a volume for a claim that asks for one.
func (c *Cluster) claimChanged(change memstore.Change) {
	claim, ok := change.New.(*corev1.PersistentVolumeClaim)
	if !ok || claim.Spec.VolumeName != "" || claim.Annotations[volume.AnnStorageProvisioner] == "" ||
		claim.DeletionTimestamp != nil || c.provisioner.asks[claim.UID] {
		return
	}
	class := volume.GetPersistentVolumeClaimClass(claim)
	took, known := c.provisioner.took[class]
	if !known {
		took = assumedProvisioning
	}
	c.provisioner.asks[claim.UID] = true
	c.At(c.clock.Add(took), func(ctx context.Context) { c.provision(ctx, claim.Namespace, claim.Name, claim.UID) })
}

// provision makes the volume of a claim that is still there and still asks for one.
func (c *Cluster) provision(ctx context.Context, namespace, name string, uid types.UID) {
	delete(c.provisioner.asks, uid)
	claim, err := c.Client().CoreV1().PersistentVolumeClaims(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil || claim.UID != uid || claim.Spec.VolumeName != "" {
		return
	}
	class, err := c.Client().StorageV1().StorageClasses().Get(ctx, volume.GetPersistentVolumeClaimClass(claim),
		metav1.GetOptions{})
	if err != nil {
		c.log.Event(claim, corev1.EventTypeWarning, "ProvisioningFailed", err.Error())
		return
	}
	v := volumeFor(claim, class)
	v.Spec.NodeAffinity = c.reach(ctx, class, claim.Annotations[volume.AnnSelectedNode])
	if _, err := c.Client().CoreV1().PersistentVolumes().Create(ctx, v, metav1.CreateOptions{}); err != nil &&
		!apierrors.IsAlreadyExists(err) {
		c.log.Event(claim, corev1.EventTypeWarning, "ProvisioningFailed", err.Error())
	}
}

// volumeFor is what a provisioner makes for a claim.
func volumeFor(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-" + string(claim.UID),
		Annotations: map[string]string{volume.AnnDynamicallyProvisioned: class.Provisioner}}}
	v.Spec = corev1.PersistentVolumeSpec{StorageClassName: class.Name, AccessModes: claim.Spec.AccessModes,
		VolumeMode: claim.Spec.VolumeMode, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
		Capacity: corev1.ResourceList{corev1.ResourceStorage: claim.Spec.Resources.Requests[corev1.ResourceStorage]},
		ClaimRef: &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim",
			Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID},
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
			Driver: class.Provisioner, VolumeHandle: string(claim.UID)}}}
	if class.ReclaimPolicy != nil {
		v.Spec.PersistentVolumeReclaimPolicy = *class.ReclaimPolicy
	}
	return v
}

// reach is from which nodes a new volume can be used: those that share the driver's topology with
// the node selected for it, or what the class allows; nil: from all.
func (c *Cluster) reach(ctx context.Context, class *storagev1.StorageClass, node string) *corev1.VolumeNodeAffinity {
	required := func(exprs ...corev1.NodeSelectorRequirement) *corev1.VolumeNodeAffinity {
		return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
			{MatchExpressions: exprs}}}}
	}
	var exprs []corev1.NodeSelectorRequirement
	if node == "" {
		for _, t := range class.AllowedTopologies[:min(len(class.AllowedTopologies), 1)] {
			for _, e := range t.MatchLabelExpressions {
				exprs = append(exprs, corev1.NodeSelectorRequirement{Key: e.Key, Operator: corev1.NodeSelectorOpIn,
					Values: e.Values[:min(len(e.Values), 1)]})
			}
		}
		if len(exprs) == 0 {
			return nil
		}
		return required(exprs...)
	}
	on, err := c.Client().StorageV1().CSINodes().Get(ctx, node, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	n, err := c.Client().CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	for _, d := range on.Spec.Drivers {
		if d.Name != class.Provisioner {
			continue
		}
		for _, key := range d.TopologyKeys {
			if value, ok := n.Labels[key]; ok {
				exprs = append(exprs, corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn,
					Values: []string{value}})
			}
		}
	}
	if len(exprs) == 0 {
		return nil
	}
	return required(exprs...)
}

// ClaimsOf names the claims of a Pod that are not there, that a node was chosen for and that have
// no volume, or whose volumes another node holds or can be used from some nodes alone.
func (c *Cluster) ClaimsOf(ctx context.Context, p *corev1.Pod) []string {
	var out []string
	for _, v := range p.Spec.Volumes {
		if v.PersistentVolumeClaim == nil {
			continue
		}
		name := v.PersistentVolumeClaim.ClaimName
		claim, err := c.Client().CoreV1().PersistentVolumeClaims(p.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			out = append(out, fmt.Sprintf("claim %s does not exist", name))
			continue
		}
		if claim.Spec.VolumeName == "" {
			if c.asksForVolume(ctx, claim) {
				out = append(out, fmt.Sprintf("claim %s has no volume", name))
			}
			continue
		}
		pv, err := c.Client().CoreV1().PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
		if err != nil {
			continue
		}
		if held := c.holders(ctx, p, pv); len(held) > 0 {
			out = append(out, fmt.Sprintf("claim %s has volume %s, which is attached to node %s", name, pv.Name,
				strings.Join(held, ", ")))
			continue
		}
		if pv.Spec.NodeAffinity == nil || pv.Spec.NodeAffinity.Required == nil {
			continue
		}
		out = append(out, fmt.Sprintf("claim %s has volume %s, which is used from %s alone", name, pv.Name,
			reachText(pv.Spec.NodeAffinity.Required)))
	}
	return out
}

// asksForVolume tells that a claim without a volume does not wait for a Pod to find a node.
func (c *Cluster) asksForVolume(ctx context.Context, claim *corev1.PersistentVolumeClaim) bool {
	if claim.Annotations[volume.AnnSelectedNode] != "" {
		return true
	}
	class, err := c.Client().StorageV1().StorageClasses().Get(ctx, volume.GetPersistentVolumeClaimClass(claim),
		metav1.GetOptions{})
	return err != nil || class.VolumeBindingMode == nil || *class.VolumeBindingMode == storagev1.VolumeBindingImmediate
}

func reachText(s *corev1.NodeSelector) string {
	text := ""
	for i, t := range s.NodeSelectorTerms {
		if i > 0 {
			text += " or "
		}
		for j, e := range t.MatchExpressions {
			if j > 0 {
				text += " and "
			}
			text += fmt.Sprintf("%s %s %v", e.Key, e.Operator, e.Values)
		}
	}
	return text
}
