package csi

import (
	"context"
	"fmt"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/gantry-project/gantry/internal/kubelet/volume"
	podusage "github.com/gantry-project/gantry/internal/pod/usage"
)

const (
	statsTimeout = 5 * time.Second // a driver's time to say how full a volume is
	statsRest    = time.Minute     // of a driver that did not answer in time: its other volumes are not asked about
)

// VolumeStats asks a volume's driver how full it is; says is false when the driver does not serve
// that.
func (d *Drivers) VolumeStats(ctx context.Context, v volume.DriverVolume, path string) (out podusage.Disk, says bool,
	err error) {
	x, err := d.find(v.Name)
	if err != nil {
		return out, false, err
	}
	if since := x.restsSince(); time.Since(since) < statsRest {
		return out, false, fmt.Errorf("driver %s did not answer NodeGetVolumeStats at %s, it is asked again %s later",
			v.Name, since.Format(time.TimeOnly), statsRest)
	}
	ctx, cancel := context.WithTimeout(ctx, statsTimeout)
	defer cancel()
	if says, err = x.can(ctx, csipb.NodeServiceCapability_RPC_GET_VOLUME_STATS); err != nil || !says {
		x.restIf(ctx)
		return out, false, err
	}
	got, err := x.node.NodeGetVolumeStats(ctx, &csipb.NodeGetVolumeStatsRequest{VolumeId: v.Handle, VolumePath: path,
		StagingTargetPath: v.Staged})
	if err != nil {
		x.restIf(ctx)
		return out, true, err
	}
	return diskOf(got.GetUsage()), true, nil
}

// diskOf adds what a driver says about bytes and inodes; a number below zero is none.
func diskOf(all []*csipb.VolumeUsage) (out podusage.Disk) {
	number := func(n int64) uint64 { return uint64(max(0, n)) }
	for _, u := range all {
		switch u.GetUnit() {
		case csipb.VolumeUsage_BYTES:
			out.Capacity, out.Available, out.Used = number(u.GetTotal()), number(u.GetAvailable()), number(u.GetUsed())
		case csipb.VolumeUsage_INODES:
			out.Inodes, out.InodesFree = number(u.GetTotal()), number(u.GetAvailable())
		}
	}
	return out
}

func (x *driver) restsSince() time.Time {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.slow
}

// restIf notes that the driver did not answer in time, if that is so.
func (x *driver) restIf(ctx context.Context) {
	if ctx.Err() == nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.slow = time.Now()
}
