package stats

import (
	"context"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/pod/usage"
)

// filesystem is the file system of the runtime's first one, with what the runtime says it uses of it.
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
		d.InodesFree = less(d.Inodes, n.Value)
	}
	return &d
}

func less(a, b uint64) uint64 {
	if b > a {
		return 0
	}
	return a - b
}

// layers asks the runtime how much containers have written.
func (c *Collector) layers(ctx context.Context, pods []Pod) error {
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
	dir := filepath.Join(c.d.Places.Logs, p.Namespace+"_"+p.Name+"_"+p.UID)
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
	if p.Spec == nil || c.d.DiskAge < 0 {
		return
	}
	for i := range p.Spec.Spec.Volumes {
		v, ok, err := c.volume(p, &p.Spec.Spec.Volumes[i])
		if err != nil {
			log.V(4).Info("Cannot measure a volume", "pod", klog.KRef(p.Namespace, p.Name), "volume", p.Spec.Spec.Volumes[i].Name, "err", err)
		}
		if ok {
			p.Volumes = append(p.Volumes, v)
		}
	}
}

// volume measures a volume by its directory below the kubelet's; hostPath has none.
func (c *Collector) volume(p *Pod, v *v1.Volume) (out Volume, ok bool, err error) {
	dirs, err := filepath.Glob(filepath.Join(c.d.Places.Root, "pods", p.UID, "volumes", "*", v.Name))
	if err != nil || len(dirs) == 0 {
		return out, false, err
	}
	dir := dirs[0]
	out = Volume{Name: v.Name, Claim: claimOf(p, v), At: time.Now()}
	if out.Disk, err = c.d.Host.Disk(dir); err != nil {
		return out, false, err
	}
	if c.d.Host.OwnFileSystem(dir) {
		return out, true, nil
	}
	out.Ephemeral = out.Claim == ""
	s, at, err := c.space(dir)
	if err != nil {
		return out, false, err
	}
	out.At, out.Disk.Used = at, s.Bytes
	out.Disk.InodesFree = less(out.Disk.Inodes, s.Inodes)
	return out, true, nil
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
