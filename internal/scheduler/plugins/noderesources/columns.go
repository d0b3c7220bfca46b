package noderesources

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/pod/fit"
	"github.com/gantry-project/gantry/internal/scheduler/columns"
	"github.com/gantry-project/gantry/internal/scheduler/place"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

var (
	_ place.Indexed = (*Fit)(nil)
	_ place.Indexed = (*Balanced)(nil)
)

func appendVector(to []byte, v *fit.Vector) []byte {
	to = place.AppendInt(to, v.MilliCPU)
	to = place.AppendInt(to, v.Memory)
	to = place.AppendInt(to, v.EphemeralStorage)
	if len(v.Scalar) == 0 {
		return to
	}
	for _, name := range slices.Sorted(maps.Keys(v.Scalar)) {
		to = place.AppendString(to, string(name))
		to = place.AppendInt(to, v.Scalar[name])
	}
	return to
}

// Shape is the requests, and those with defaults for containers that request nothing. Device classes come and go, so verdicts on resources that they serve are not kept.
func (f *Fit) Shape(to []byte, p *v1.Pod) ([]byte, bool) {
	ask, non0 := snapshot.Asks(p)
	to = place.AppendInt(appendVector(to, &ask), non0.MilliCPU)
	to = place.AppendInt(to, non0.Memory)
	if f.serves(&ask) {
		return place.AppendString(to, "served"), false
	}
	return to, true
}

// Shape is the requests.
func (*Balanced) Shape(to []byte, p *v1.Pod) ([]byte, bool) {
	ask := snapshot.Ask(p)
	return appendVector(to, &ask), true
}

// need is a resource asked for, and its columns.
type need struct {
	ask  int64
	room *columns.Room
}

func (n *need) short(row int32) (short, never bool) {
	has := n.room.Has[row]
	return n.ask > has-n.room.Used[row], n.ask > has
}

// Opinion compares the requests with the columns of each resource.
func (f *Fit) Opinion(p *v1.Pod, t *columns.Table) *columns.Opinion {
	ask, non0 := snapshot.Ask(p), snapshot.AskNonZero(p)
	var needs [len(common)]need // by place in common; [0] is the Pod itself
	for i, name := range common {
		if n := ask.Get(name); i > 0 && n > 0 {
			needs[i] = need{n, t.Resource(name)}
		}
	}
	var scalars []need
	for name, n := range ask.Scalar {
		if n != 0 && !f.skips(name) {
			scalars = append(scalars, need{n, t.Scalar(name)})
		}
	}
	nothing := ask.AsksNothing()
	judge := func(row int32) *framework.Status {
		mask, never := 0, false
		if t.Pods.Used[row]+1 > t.Pods.Has[row] {
			mask = 1
		}
		if !nothing {
			for i := 1; i < len(needs); i++ {
				if n := &needs[i]; n.room != nil {
					if short, over := n.short(row); short {
						mask |= 1 << i
						never = never || over
					}
				}
			}
			for i := range scalars {
				if short, _ := scalars[i].short(row); short {
					return f.judge(&ask, t.Nodes[row])
				}
			}
		}
		switch {
		case mask == 0:
			return nil
		case never:
			return f.never[mask]
		}
		return f.plain[mask]
	}
	return &columns.Opinion{
		Refuse: func(rows []int32, no []*framework.Status) {
			for i, row := range rows {
				if no[i] == nil {
					no[i] = judge(row)
				}
			}
		},
		Score: f.scores(&non0, t),
	}
}

// share is a resource of the scoring strategy.
type share struct {
	ask, weight int64
	has, used   []int64
}

func (s *scorer) scores(ask *fit.Vector, t *columns.Table) func([]int32, []int64) {
	var shares []share
	for i := range s.resources {
		name := v1.ResourceName(s.resources[i].Name)
		n := ask.Get(name)
		if n == 0 && fit.IsScalar(name) {
			continue
		}
		room := t.Resource(name)
		one := share{n, s.resources[i].Weight, room.Has, room.Used}
		switch name {
		case v1.ResourceCPU:
			one.used = t.NonZeroCPU
		case v1.ResourceMemory:
			one.used = t.NonZeroMemory
		}
		shares = append(shares, one)
	}
	return func(rows []int32, raw []int64) {
		for i, row := range rows {
			var sum, weights int64
			for k := range shares {
				r := &shares[k]
				has := r.has[row]
				if has == 0 {
					continue
				}
				one := s.of(r.used[row]+r.ask, has)
				if one == 0 && s.skipZero {
					continue
				}
				sum += one * r.weight
				weights += r.weight
			}
			if weights != 0 {
				raw[i] = s.mean(sum, weights)
			}
		}
	}
}

// Opinion scores the balance from the columns.
func (b *Balanced) Opinion(p *v1.Pod, t *columns.Table) *columns.Opinion {
	ask := snapshot.Ask(p)
	var all []need
	for i := range b.resources {
		name := v1.ResourceName(b.resources[i].Name)
		n := ask.Get(name)
		if n == 0 && fit.IsScalar(name) {
			continue
		}
		all = append(all, need{n, t.Resource(name)})
	}
	return &columns.Opinion{Score: func(rows []int32, raw []int64) {
		for i, row := range rows {
			var with, without shares
			for k := range all {
				r := &all[k]
				if has := r.room.Has[row]; has != 0 {
					used := r.room.Used[row]
					with.add(used+r.ask, has)
					without.add(used, has)
				}
			}
			raw[i] = balance(&with, &without)
		}
	}}
}
