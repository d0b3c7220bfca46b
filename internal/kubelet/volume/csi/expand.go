package csi

import (
	"context"
	"fmt"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	v1 "k8s.io/api/core/v1"

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
	err = p.expand(ctx, x, expansion{spec: a.Spec, data: a.Data, path: m.Path, usage: c})
	return time.Now().Add(expandInterval), err
}

// expansion is a volume that may have grown.
type expansion struct {
	spec  volume.Spec
	data  volume.VolumeData
	path  string // where it is mounted
	usage *csipb.VolumeCapability
}

// expand has the driver grow the file system to the volume's size, when its claim is smaller and
// the driver does such things.
func (p Plugin) expand(ctx context.Context, x *driver, e expansion) error {
	want := e.spec.PersistentVolume.Spec.Capacity[v1.ResourceStorage]
	if e.spec.ClaimSize == nil || want.Cmp(*e.spec.ClaimSize) <= 0 {
		return nil
	}
	does, err := x.can(ctx, csipb.NodeServiceCapability_RPC_EXPAND_VOLUME)
	if err != nil || !does {
		return err
	}
	ref := e.spec.PersistentVolume.Spec.CSI.NodeExpandSecretRef
	secrets, err := p.secrets(ctx, ref)
	if err != nil {
		return fmt.Errorf("fetching NodeExpandSecretRef %s/%s failed: %w", ref.Namespace, ref.Name, err)
	}
	_, err = x.node.NodeExpandVolume(ctx, &csipb.NodeExpandVolumeRequest{VolumeId: e.data.VolumeHandle,
		VolumePath: e.path, StagingTargetPath: e.data.DeviceMountPath, VolumeCapability: e.usage,
		CapacityRange: &csipb.CapacityRange{RequiredBytes: want.Value()}, Secrets: secrets})
	if err != nil {
		return fmt.Errorf("Expander.NodeExpand failed to expand the volume : %w", err)
	}
	return p.API.FinishExpansion(ctx, e.spec.PersistentVolume)
}
