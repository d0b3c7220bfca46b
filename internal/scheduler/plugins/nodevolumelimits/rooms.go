package nodevolumelimits

import (
	"math"

	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/plugins/changes"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/storage"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// rooms are columns, by the nodes' places in the snapshot followed: how many volumes there are at most, and each driver's limit. What changed is read again, the rest
// stands.
type rooms struct {
	facts  storage.Facts
	source changes.Source // nil: nothing is kept
	clock  int64
	world  *snapshot.Snapshot // followed; nil: none
	used   []int32
	limits map[string][]int32 // by driver; none: no limit
	rows   []int32
}

const none = math.MaxInt32

// counting is a node that knows how many volumes of its Pods may be attached without a claim.
type counting interface{ InlineVolumes() int }

// most is how many volumes there can be on a node, of whatever driver; false when that is not known. A claim is one volume at most.
func (r *rooms) most(n framework.NodeInfo) (int, bool) {
	node, counts := n.(counting)
	if !counts {
		return 0, false
	}
	return len(n.GetPVCRefCounts()) + node.InlineVolumes() + len(r.facts.Attachments(n.Node().Name)), true
}

// follow reads what changed since the last snapshot; false when columns cannot be kept for this one.
func (r *rooms) follow(world *snapshot.Snapshot) bool {
	if r.source == nil || world == nil || world.Layout() == 0 {
		return false
	}
	nodes, now, known := r.source.Since(r.clock)
	r.clock = now
	was := r.world
	r.world = world
	if was == nil || was.Layout() != world.Layout() || was.Len() != world.Len() {
		r.used, r.limits, known = make([]int32, world.Len()), map[string][]int32{}, false
	}
	if known {
		r.rows, known = world.Since(was.Generation(), r.rows[:0])
	}
	if !known {
		for row := range r.used {
			r.read(int32(row))
		}
		return true
	}
	for _, row := range r.rows {
		r.read(row)
	}
	for _, name := range nodes {
		if row, ok := world.Index(name); ok {
			r.read(int32(row))
		}
	}
	return true
}

func (r *rooms) read(row int32) {
	n := r.world.At(int(row))
	most, known := r.most(n)
	if r.used[row] = int32(most); !known {
		r.used[row] = none
	}
	for _, limits := range r.limits {
		limits[row] = none
	}
	csi := r.facts.CSINode(n.Node().Name)
	if csi == nil {
		return
	}
	for i := range csi.Spec.Drivers {
		driver := csi.Spec.Drivers[i].Name
		limit, has := storage.LimitOf(csi, driver)
		if !has {
			continue
		}
		if r.limits[driver] == nil {
			r.limits[driver] = make([]int32, len(r.used))
			for k := range r.limits[driver] {
				r.limits[driver][k] = none
			}
		}
		r.limits[driver][row] = int32(limit)
	}
}

// tight names the nodes where so many more volumes might break a limit.
func (r *rooms) tight(wanted map[string]int) map[string]bool {
	out := map[string]bool{}
	for driver, more := range wanted {
		for row, limit := range r.limits[driver] {
			if limit != none && int(r.used[row])+more > int(limit) {
				out[r.world.At(row).Node().Name] = true
			}
		}
	}
	return out
}
