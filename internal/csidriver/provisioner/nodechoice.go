package provisioner

import (
	"context"
	"slices"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

// What controllers say about a claim.
const (
	selectedNode       = "volume.kubernetes.io/selected-node"
	storageProvisioner = "volume.kubernetes.io/storage-provisioner"
)

func waitsForPod(c *storagev1.StorageClass) bool {
	return c.VolumeBindingMode != nil && *c.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
}

// ShouldProvision tells whether the claim is for this node by the scheduler's choice. One that
// waits for no Pod is for the first node with room that writes its name into the claim; its write
// comes back here.
func (p *Provisioner) ShouldProvision(ctx context.Context, c *v1.PersistentVolumeClaim) bool {
	if node, chosen := c.Annotations[selectedNode]; chosen {
		return node == p.o.NodeName
	}
	if c.Annotations[storageProvisioner] != p.o.Driver || c.Spec.StorageClassName == nil {
		return false
	}
	class, err := p.o.Client.StorageV1().StorageClasses().Get(ctx, *c.Spec.StorageClassName, metav1.GetOptions{})
	if err == nil && !waitsForPod(class) {
		err = p.take(ctx, class, c)
	}
	if err != nil && !apierrors.IsConflict(err) {
		klog.FromContext(ctx).Error(err, "Whether this node takes a claim is not known", "claim", klog.KObj(c))
	}
	return false
}

// allowed tells whether a class lets its volumes be on this node: by one of its terms, if it has
// some. A term about anything but the driver's nodes lets none be here.
func allowed(terms []v1.TopologySelectorTerm, o Options) bool {
	return len(terms) == 0 || slices.ContainsFunc(terms, func(t v1.TopologySelectorTerm) bool {
		return !slices.ContainsFunc(t.MatchLabelExpressions, func(e v1.TopologySelectorLabelRequirement) bool {
			return e.Key != o.TopologyKey || !slices.Contains(e.Values, o.NodeName)
		})
	})
}

// take writes this node's name into the claim, if the class allows the node and there is room.
func (p *Provisioner) take(ctx context.Context, class *storagev1.StorageClass, c *v1.PersistentVolumeClaim) error {
	if !allowed(class.AllowedTopologies, p.o) {
		return nil
	}
	free, err := p.report.ask(ctx, class)
	if size := c.Spec.Resources.Requests[v1.ResourceStorage]; err != nil || free < size.Value() {
		return err
	}
	if here, err := p.hasSource(ctx, c); err != nil || !here {
		return err
	}
	c = c.DeepCopy()
	metav1.SetMetaDataAnnotation(&c.ObjectMeta, selectedNode, p.o.NodeName)
	_, err = p.o.Client.CoreV1().PersistentVolumeClaims(c.Namespace).Update(ctx, c, metav1.UpdateOptions{})
	return err
}

// hasSource tells whether what the claim is made from is on this node: always, when it is made from
// nothing.
func (p *Provisioner) hasSource(ctx context.Context, c *v1.PersistentVolumeClaim) (bool, error) {
	r := &csipb.CreateVolumeRequest{}
	if err := p.addSource(ctx, c, r); err != nil {
		return false, err
	}
	switch s := r.GetVolumeContentSource(); {
	case s.GetSnapshot() != nil:
		id := s.GetSnapshot().GetSnapshotId()
		got, err := p.driver.ListSnapshots(ctx, &csipb.ListSnapshotsRequest{SnapshotId: id})
		return len(got.GetEntries()) > 0, err
	case s.GetVolume() != nil:
		got, err := p.driver.ListVolumes(ctx, &csipb.ListVolumesRequest{})
		for _, e := range got.GetEntries() {
			if e.GetVolume().GetVolumeId() == s.GetVolume().GetVolumeId() {
				return true, nil
			}
		}
		return false, err
	}
	return true, nil
}
