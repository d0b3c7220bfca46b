package csi

import (
	"context"
	"fmt"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/kubelet/volume"
)

// expandInterval is how often a volume in use is looked at whether it grew; upstream does when it
// looks at the Pod.
const expandInterval = time.Minute

var _ volume.NodeExpandableVolumePlugin = Plugin{}

// NodeExpand has the driver grow a volume that is ready.
func (p Plugin) NodeExpand(ctx context.Context, a volume.MounterArgs, m volume.Mounted) (time.Time, error) {
	x, err := p.Drivers.find(a.Data.DriverName)
	if err != nil {
		return time.Time{}, err
	}
	c, err := x.capability(ctx, usage{spec: a.Spec, mountOptions: a.MountOptions})
	if err != nil {
		return time.Time{}, err
	}
	return time.Now().Add(expandInterval), p.expand(ctx, x, a, expansion{path: m.Path, usage: c, inUse: true})
}

// expansion is a volume that may have grown.
type expansion struct {
	path  string // where it is published
	usage *csipb.VolumeCapability
	inUse bool // the Pod has it
}

// expand has the driver grow the volume on this node to its PersistentVolume's size, when it is
// smaller here, the driver does such things, and the claim asks for it; the claim says how far that
// is. A driver that does not grow volumes in use is not asked again before the volume is staged
// anew.
func (p Plugin) expand(ctx context.Context, x *driver, a volume.MounterArgs, e expansion) error {
	pv := a.Spec.PersistentVolume
	want := pv.Spec.Capacity[v1.ResourceStorage]
	has, known := x.sizeOf(a)
	if !known || want.Cmp(has) <= 0 {
		return nil
	}
	does, err := x.can(ctx, csipb.NodeServiceCapability_RPC_EXPAND_VOLUME)
	if err != nil || !does {
		return err
	}
	g := nodeGrowth{Plugin: p, driver: x, args: a, expansion: e}
	if a.Spec.ReadOnly {
		g.record(ctx, v1.EventTypeWarning, "FileSystemResizeFailed", fmt.Sprintf("MountVolume.NodeExpandVolume "+
			"failed for volume %q requested read-only file system", pv.Name))
		x.setSize(a.Data.VolumeHandle, want)
		return nil
	}
	if _, err := p.API.ChangeClaim(ctx, pv, func(c *v1.PersistentVolumeClaim) bool {
		g.plan = nextGrowth(c, want, x.failedForGood(a.Data.VolumeHandle))
		return g.plan.marks && setGrowth(c, v1.PersistentVolumeClaimNodeResizeInProgress)
	}); err != nil {
		return err
	}
	if !g.plan.call {
		if g.plan.done {
			x.setSize(a.Data.VolumeHandle, want)
		}
		return nil
	}
	end := func(error) {}
	if e.inUse { // else it is part of the mount
		end = a.Begin(volume.OperationResize)
	}
	err = g.call(ctx)
	end(err)
	if err != nil {
		return g.failed(ctx, err)
	}
	g.record(ctx, v1.EventTypeNormal, "FileSystemResizeSuccessful", fmt.Sprintf("MountVolume.NodeExpandVolume "+
		"succeeded for volume %q %s", pv.Name, p.NodeName))
	x.setSize(a.Data.VolumeHandle, g.plan.size)
	_, err = p.API.ChangeClaim(ctx, pv, func(c *v1.PersistentVolumeClaim) bool { return finishGrowth(c, g.plan.size) })
	return err
}

// nodeGrowth is a growth that the driver is asked for.
type nodeGrowth struct {
	Plugin
	driver    *driver
	args      volume.MounterArgs
	expansion expansion
	plan      growth
}

func (g *nodeGrowth) call(ctx context.Context) error {
	a, e := g.args, g.expansion
	ref := a.Spec.PersistentVolume.Spec.CSI.NodeExpandSecretRef
	secrets, err := g.secrets(ctx, ref)
	if err != nil {
		return fmt.Errorf("fetching NodeExpandSecretRef %s/%s failed: %w", ref.Namespace, ref.Name, err)
	}
	_, err = g.driver.node.NodeExpandVolume(ctx, &csipb.NodeExpandVolumeRequest{VolumeId: a.Data.VolumeHandle,
		VolumePath: e.path, StagingTargetPath: a.Data.DeviceMountPath, VolumeCapability: e.usage,
		CapacityRange: &csipb.CapacityRange{RequiredBytes: g.plan.size.Value()}, Secrets: secrets})
	return err
}

// failed writes into the claim what the driver's last word says of its growth. The error is
// nil when the driver does not grow volumes in use: the Pod is not kept.
func (g *nodeGrowth) failed(ctx context.Context, err error) error {
	a := g.args
	said := fmt.Errorf("Expander.NodeExpand failed to expand the volume : %w", err)
	code := status.Code(err)
	if g.plan.marks && isFinal(err) {
		g.driver.setFailedForGood(a.Data.VolumeHandle)
		infeasible := g.plan.givesUp || code == codes.InvalidArgument || code == codes.OutOfRange ||
			code == codes.NotFound
		if _, failed := g.API.ChangeClaim(ctx, a.Spec.PersistentVolume, func(c *v1.PersistentVolumeClaim) bool {
			changed := infeasible && setGrowth(c, v1.PersistentVolumeClaimNodeResizeInfeasible)
			return addGrowthError(c, fmt.Sprintf("failed to expand pvc with %v", said), time.Now()) || changed
		}); failed != nil {
			klog.FromContext(ctx).Error(failed, "A claim is not told that its volume did not grow", "volume",
				a.Data.SpecVolID)
		}
	}
	if code == codes.FailedPrecondition {
		klog.FromContext(ctx).Error(err, "The driver does not grow a volume in use", "volume", a.Data.SpecVolID)
		g.driver.setSize(a.Data.VolumeHandle, a.Spec.PersistentVolume.Spec.Capacity[v1.ResourceStorage])
		return nil
	}
	return said
}

// isFinal tells whether a driver's error ends what it began, as upstream.
func isFinal(err error) bool {
	s, ok := status.FromError(err)
	if !ok {
		return false
	}
	switch s.Code() {
	case codes.Canceled, codes.DeadlineExceeded, codes.Unavailable, codes.ResourceExhausted, codes.Aborted:
		return false
	}
	return true
}

// record records an event about the Pod and the volume's claim.
func (g *nodeGrowth) record(ctx context.Context, kind, reason, message string) {
	a := g.args
	if a.Record == nil {
		return
	}
	c, err := g.API.ChangeClaim(ctx, a.Spec.PersistentVolume, func(*v1.PersistentVolumeClaim) bool { return false })
	if err != nil {
		klog.FromContext(ctx).V(2).Info("An event about a claim is not recorded", "volume", a.Data.SpecVolID, "err",
			err)
	}
	a.Record(kind, reason, message, c)
}

// size is what is known of how big a volume is on this node.
type size struct {
	has    resource.Quantity
	failed bool // the driver's last word about its growth was an error
}

// sizeOf is the size that the volume has on this node: what its claim had when it was first seen
// here, or what it was grown to since; false when the claim has none.
func (x *driver) sizeOf(a volume.MounterArgs) (resource.Quantity, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if s, known := x.sizes[a.Data.VolumeHandle]; known {
		return s.has, true
	}
	if a.Spec.ClaimSize == nil {
		return resource.Quantity{}, false
	}
	x.sizes[a.Data.VolumeHandle] = size{has: *a.Spec.ClaimSize}
	return *a.Spec.ClaimSize, true
}

func (x *driver) setSize(handle string, has resource.Quantity) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.sizes[handle] = size{has: has}
}

func (x *driver) failedForGood(handle string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.sizes[handle].failed
}

func (x *driver) setFailedForGood(handle string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.sizes[handle]
	s.failed = true
	x.sizes[handle] = s
}

// forgetSize forgets a volume that is not staged any longer.
func (x *driver) forgetSize(handle string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.sizes, handle)
}
