package provisioner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
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
// comes back here. A claim that stands still is looked at again each resyncPeriod.
func (p *Provisioner) ShouldProvision(ctx context.Context, c *v1.PersistentVolumeClaim) bool {
	if node, chosen := c.Annotations[selectedNode]; chosen {
		p.pendingClaims.forget(c.UID)
		return node == p.o.NodeName
	}
	if c.Annotations[storageProvisioner] != p.o.Driver || c.Spec.StorageClassName == nil {
		return false
	}
	class, err := p.o.Client.StorageV1().StorageClasses().Get(ctx, *c.Spec.StorageClassName, metav1.GetOptions{})
	if err == nil && !waitsForPod(class) {
		err = p.tryProvision(ctx, class, c)
	}
	if err == nil || apierrors.IsConflict(err) {
		p.pendingClaims.forget(c.UID)
		return false
	}
	if ignored := (*controller.IgnoredError)(nil); !errors.As(err, &ignored) &&
		p.pendingClaims.shouldReport(c.UID, err, time.Now()) {
		klog.FromContext(ctx).Error(err, "This node does not take a claim", "claim", klog.KObj(c))
		p.events.Event(c, v1.EventTypeWarning, "ProvisioningFailed", err.Error())
	}
	return false
}

// resyncPeriod is how often claims that stand still are looked at again.
const resyncPeriod = 30 * time.Second

// errNoRoom is of a node whose disk has no room for a claim's volume. Another one may have it.
var errNoRoom = errors.New("there is no room for the volume")

// pendingClaims are claims that no node took, and why. The zero value is ready. Safe for concurrent
// use.
type pendingClaims struct {
	mu sync.Mutex
	of map[types.UID]wait
}

type wait struct {
	why   string
	since time.Time
	said  bool
}

// mostWaits bounds what is kept of claims that were deleted while they waited.
const mostWaits = 1000

// shouldReport tells whether users are told now why a claim waits: once of each reason, of an error
// at once, and of missing room when no other node took the claim meanwhile.
func (w *pendingClaims) shouldReport(claim types.UID, err error, now time.Time) bool {
	why, noRoom := err.Error(), errors.Is(err, errNoRoom)
	if noRoom {
		why = errNoRoom.Error() // without its numbers, which change
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	is, known := w.of[claim]
	if !known || is.why != why {
		is = wait{why: why, since: now}
	}
	say := !is.said && (!noRoom || now.Sub(is.since) >= resyncPeriod/2)
	is.said = is.said || say
	if w.of == nil || !known && len(w.of) >= mostWaits {
		w.of = map[types.UID]wait{}
	}
	w.of[claim] = is
	return say
}

// forget is called of a claim that waits for nothing here.
func (w *pendingClaims) forget(claim types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.of, claim)
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

// tryProvision writes this node's name into the claim, if the class allows the node and there is
// room.
func (p *Provisioner) tryProvision(ctx context.Context, class *storagev1.StorageClass,
	c *v1.PersistentVolumeClaim) error {
	if !allowed(class.AllowedTopologies, p.o) {
		return nil
	}
	free, err := p.report.ask(ctx, class)
	if err != nil {
		return err
	}
	if size := c.Spec.Resources.Requests[v1.ResourceStorage]; free < size.Value() {
		return fmt.Errorf("%w: node %s has %d bytes that are not promised to others, %d are asked for", errNoRoom,
			p.o.NodeName, free, size.Value())
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
