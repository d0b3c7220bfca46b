package nodevolumelimits

import (
	"math"

	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/plugins/nodechanges"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/volumelisters"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// attachCounts are columns, by the nodes' places in the snapshot followed: how many volumes there
// are at most, and each driver's limit. What changed is read again, the rest stands.
type attachCounts struct {
	listers  volumelisters.Listers
	source   nodechanges.Source // nil: nothing is kept
	clock    int64
	snapshot *snapshot.Snapshot // followed; nil: none
	used     []int32
	limits   map[string][]int32 // by driver; none: no limit
	rows     []int32
}

const noLimit = math.MaxInt32

// inlineVolumeCounter is a node that knows how many volumes of its Pods may be attached without a
// claim.
type inlineVolumeCounter interface{ InlineVolumes() int }

// maxVolumes is how many volumes there can be on a node, of whatever driver; false when that is not
// known. A claim is one volume at most.
func (r *attachCounts) maxVolumes(n framework.NodeInfo) (int, bool) {
	node, counts := n.(inlineVolumeCounter)
	if !counts {
		return 0, false
	}
	return len(n.GetPVCRefCounts()) + node.InlineVolumes() + len(r.listers.Attachments(n.Node().Name)), true
}

// sync reads what changed since the last snapshot; false when columns cannot be kept for this one.
func (r *attachCounts) sync(snap *snapshot.Snapshot) bool {
	if r.source == nil || snap == nil || snap.Layout() == 0 {
		return false
	}
	nodes, now, known := r.source.Since(r.clock)
	r.clock = now
	was := r.snapshot
	r.snapshot = snap
	if was == nil || was.Layout() != snap.Layout() {
		r.used, r.limits, known = make([]int32, snap.Len()), map[string][]int32{}, false
	}
	if known {
		r.rows, known = snap.Since(was.Generation(), r.rows[:0])
	}
	if !known {
		for row := range r.used {
			r.readRow(int32(row))
		}
		return true
	}
	for _, row := range r.rows {
		r.readRow(row)
	}
	for _, name := range nodes {
		if row, ok := snap.Index(name); ok {
			r.readRow(int32(row))
		}
	}
	return true
}

func (r *attachCounts) readRow(row int32) {
	n := r.snapshot.At(int(row))
	most, known := r.maxVolumes(n)
	if r.used[row] = int32(most); !known {
		r.used[row] = noLimit
	}
	for _, limits := range r.limits {
		limits[row] = noLimit
	}
	csi := r.listers.CSINode(n.Node().Name)
	if csi == nil {
		return
	}
	for i := range csi.Spec.Drivers {
		driver := csi.Spec.Drivers[i].Name
		limit, has := volumelisters.LimitOf(csi, driver)
		if !has {
			continue
		}
		if r.limits[driver] == nil {
			r.limits[driver] = make([]int32, len(r.used))
			for k := range r.limits[driver] {
				r.limits[driver][k] = noLimit
			}
		}
		r.limits[driver][row] = int32(limit)
	}
}

// driversNearLimit names the nodes where so many more volumes might break a limit.
func (r *attachCounts) driversNearLimit(wanted map[string]int) map[string]bool {
	out := map[string]bool{}
	for driver, more := range wanted {
		for row, limit := range r.limits[driver] {
			if limit != noLimit && int(r.used[row])+more > int(limit) {
				out[r.snapshot.At(row).Node().Name] = true
			}
		}
	}
	return out
}
