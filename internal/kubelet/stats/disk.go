package stats

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/kubelet/volume"
	"github.com/gantry-project/gantry/internal/pod/usage"
)

// filesystem is the file system of the runtime's first one, with what the runtime says it uses of
// it.
func (c *Collector) filesystem(list []*runtimeapi.FilesystemUsage) *usage.Disk {
	if len(list) == 0 {
		return nil
	}
	d, err := c.d.Host.Disk(list[0].GetFsId().GetMountpoint())
	if err != nil {
		return nil // the runtime's directories may not be in our mount namespace
	}
	d.Used = list[0].GetUsedBytes().GetValue()
	if n := list[0].GetInodesUsed(); n != nil {
		d.InodesFree = subtract(d.Inodes, n.Value)
	}
	return &d
}

func subtract(a, b uint64) uint64 {
	if b > a {
		return 0
	}
	return a - b
}

// writableLayers asks the runtime how much containers have written.
func (c *Collector) writableLayers(ctx context.Context, pods []Pod) error {
	if len(pods) == 0 {
		return nil
	}
	list, err := c.d.Runtime.ListContainerStats(ctx, nil)
	if err != nil {
		return err
	}
	by := map[string]*runtimeapi.FilesystemUsage{}
	for _, s := range list {
		by[s.GetAttributes().GetId()] = s.GetWritableLayer()
	}
	for i := range pods {
		for j := range pods[i].Containers {
			x := &pods[i].Containers[j]
			if l := by[x.ID]; l != nil {
				x.Layer = &usage.Space{Bytes: l.GetUsedBytes().GetValue(), Inodes: l.GetInodesUsed().GetValue()}
			}
		}
	}
	return nil
}

// disk measures logs and volumes.
func (c *Collector) disk(ctx context.Context, p *Pod) {
	dir := filepath.Join(c.d.Paths.Logs, p.Namespace+"_"+p.Name+"_"+p.UID)
	log := klog.FromContext(ctx)
	if s, err := c.d.Host.Space(dir); err == nil {
		p.Logs = s
	} else {
		log.V(4).Info("Cannot measure a Pod's logs", "pod", klog.KRef(p.Namespace, p.Name), "err", err)
	}
	for i := range p.Containers {
		if s, err := c.d.Host.Space(filepath.Join(dir, p.Containers[i].Name)); err == nil {
			p.Containers[i].Logs = &s
		}
	}
	if p.Spec == nil || c.d.DiskAge < 0 || c.d.Mounted == nil {
		return
	}
	mounted := c.d.Mounted(p.Spec.UID)
	for i := range p.Spec.Spec.Volumes {
		spec := &p.Spec.Spec.Volumes[i]
		m, ready := mounted[spec.Name]
		if !ready || m.Size == volume.SizeUnknown {
			continue
		}
		v, err := c.volume(ctx, m)
		if err != nil {
			log.V(4).Info("Cannot measure a volume", "pod", klog.KRef(p.Namespace, p.Name), "volume", spec.Name,
				"err", err)
			continue
		}
		v.Name, v.Claim, v.Ephemeral = spec.Name, claimOf(p, spec), isEphemeral(spec)
		p.Volumes = append(p.Volumes, v)
	}
}

// errNotSupported is of a volume whose driver does not serve NodeGetVolumeStats: upstream has no
// metrics of it either (pkg/volume/csi/csi_metrics.go).
var errNotSupported = errors.New("the driver does not say how full its volumes are")

// volume measures a volume as upstream does one of its type. Of a CSI volume only its driver is
// asked.
func (c *Collector) volume(ctx context.Context, m volume.Mounted) (out Volume, err error) {
	out.At = time.Now()
	if m.Driver.Name != "" && c.d.Drivers != nil {
		d, says, err := c.d.Drivers(ctx, m.Driver, m.Path)
		if err == nil && !says {
			err = errNotSupported
		}
		out.Disk, out.Inodes = d, subtract(d.Inodes, d.InodesFree)
		return out, err
	}
	if m.Size == volume.SizeOfBlock {
		out.Disk.Capacity, err = c.d.Host.BlockSize(m.Path)
		return out, err
	}
	if out.Disk, err = c.d.Host.Disk(m.Path); err != nil {
		return out, err
	}
	out.Inodes = subtract(out.Disk.Inodes, out.Disk.InodesFree)
	if m.Size == volume.SizeOfFiles {
		var s usage.Space
		s, out.At, err = c.space(m.Path)
		out.Disk.Used, out.Inodes = s.Bytes, s.Inodes
	}
	return out, err
}

// isEphemeral tells whether a volume takes of the node's disk and ends with its Pod.
func isEphemeral(v *v1.Volume) bool {
	unset := v.VolumeSource == v1.VolumeSource{}
	return unset || v.EmptyDir != nil && v.EmptyDir.Medium == v1.StorageMediumDefault || v.ConfigMap != nil
}

func claimOf(p *Pod, v *v1.Volume) string {
	switch {
	case v.PersistentVolumeClaim != nil:
		return v.PersistentVolumeClaim.ClaimName
	case v.Ephemeral != nil:
		return p.Name + "-" + v.Name
	}
	return ""
}
