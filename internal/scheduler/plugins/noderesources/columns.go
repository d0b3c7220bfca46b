package noderesources

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/pod/fit"
	"github.com/gantry-project/gantry/internal/scheduler/columns"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

var (
	_ schedule.ColumnPlugin = (*Fit)(nil)
	_ schedule.ColumnPlugin = (*Balanced)(nil)
)

func appendVector(to []byte, v *fit.Vector) []byte {
	to = schedule.AppendInt(to, v.MilliCPU)
	to = schedule.AppendInt(to, v.Memory)
	to = schedule.AppendInt(to, v.EphemeralStorage)
	if len(v.Scalar) == 0 {
		return to
	}
	for _, name := range slices.Sorted(maps.Keys(v.Scalar)) {
		to = schedule.AppendString(to, string(name))
		to = schedule.AppendInt(to, v.Scalar[name])
	}
	return to
}

// AppendShape is the requests, and those with defaults for containers that request nothing. Device
// classes come and go, so verdicts on resources that they serve are not kept.
func (f *Fit) AppendShape(to []byte, p *v1.Pod) ([]byte, bool) {
	requests, nonZero := snapshot.RequestsAndNonZero(p)
	to = schedule.AppendInt(appendVector(to, &requests), nonZero.MilliCPU)
	to = schedule.AppendInt(to, nonZero.Memory)
	if f.anyServedByDevices(&requests) {
		return schedule.AppendString(to, "served"), false
	}
	return to, true
}

// AppendShape is the requests.
func (*Balanced) AppendShape(to []byte, p *v1.Pod) ([]byte, bool) {
	requests := snapshot.Requests(p)
	return appendVector(to, &requests), true
}

// requirement is a resource asked for, and its columns.
type requirement struct {
	request  int64
	capacity *columns.Capacity
}

func (n *requirement) isInsufficient(row int32) (short, never bool) {
	has := n.capacity.Allocatable[row]
	return n.request > has-n.capacity.Requested[row], n.request > has
}

// Evaluator compares the requests with the columns of each resource.
func (f *Fit) Evaluator(p *v1.Pod, t *columns.Table) *columns.Evaluator {
	requests, nonZero := snapshot.Requests(p), snapshot.RequestsNonZero(p)
	var needs [len(commonResources)]requirement // by place in common; [0] is the Pod itself
	for i, name := range commonResources {
		if n := requests.Get(name); i > 0 && n > 0 {
			needs[i] = requirement{n, t.Resource(name)}
		}
	}
	var scalars []requirement
	for name, n := range requests.Scalar {
		if n != 0 && !f.isIgnored(name) {
			scalars = append(scalars, requirement{n, t.Scalar(name)})
		}
	}
	nothing := requests.IsEmpty()
	judge := func(row int32) *framework.Status {
		mask, never := 0, false
		if t.Pods.Requested[row]+1 > t.Pods.Allocatable[row] {
			mask = 1
		}
		if !nothing {
			for i := 1; i < len(needs); i++ {
				if n := &needs[i]; n.capacity != nil {
					if short, over := n.isInsufficient(row); short {
						mask |= 1 << i
						never = never || over
					}
				}
			}
			for i := range scalars {
				if short, _ := scalars[i].isInsufficient(row); short {
					return f.filterNode(&requests, t.Nodes[row])
				}
			}
		}
		switch {
		case mask == 0:
			return nil
		case never:
			return f.unresolvableCache[mask]
		}
		return f.statusCache[mask]
	}
	return &columns.Evaluator{
		Filter: func(rows []int32, no []*framework.Status) {
			for i, row := range rows {
				if no[i] == nil {
					no[i] = judge(row)
				}
			}
		},
		Score: f.scores(&nonZero, t),
	}
}

// weightedShare is a resource of the scoring strategy.
type weightedShare struct {
	request, weight        int64
	allocatable, requested []int64
}

func (s *resourceScorer) scores(requests *fit.Vector, t *columns.Table) func([]int32, []int64) {
	var shares []weightedShare
	for i := range s.resources {
		name := v1.ResourceName(s.resources[i].Name)
		n := requests.Get(name)
		if n == 0 && fit.IsScalar(name) {
			continue
		}
		room := t.Resource(name)
		one := weightedShare{n, s.resources[i].Weight, room.Allocatable, room.Requested}
		switch name {
		case v1.ResourceCPU:
			one.requested = t.NonZeroCPU
		case v1.ResourceMemory:
			one.requested = t.NonZeroMemory
		}
		shares = append(shares, one)
	}
	return func(rows []int32, raw []int64) {
		for i, row := range rows {
			var sum, weights int64
			for k := range shares {
				r := &shares[k]
				has := r.allocatable[row]
				if has == 0 {
					continue
				}
				one := s.scoreOf(r.requested[row]+r.request, has)
				if one == 0 && s.skipZero {
					continue
				}
				sum += one * r.weight
				weights += r.weight
			}
			if weights != 0 {
				raw[i] = s.weightedMean(sum, weights)
			}
		}
	}
}

// Evaluator scores the balance from the columns.
func (b *Balanced) Evaluator(p *v1.Pod, t *columns.Table) *columns.Evaluator {
	requests := snapshot.Requests(p)
	var all []requirement
	for i := range b.resources {
		name := v1.ResourceName(b.resources[i].Name)
		n := requests.Get(name)
		if n == 0 && fit.IsScalar(name) {
			continue
		}
		all = append(all, requirement{n, t.Resource(name)})
	}
	return &columns.Evaluator{Score: func(rows []int32, raw []int64) {
		for i, row := range rows {
			var with, without shares
			for k := range all {
				r := &all[k]
				if has := r.capacity.Allocatable[row]; has != 0 {
					used := r.capacity.Requested[row]
					with.add(used+r.request, has)
					without.add(used, has)
				}
			}
			raw[i] = balancedScore(&with, &without)
		}
	}}
}
