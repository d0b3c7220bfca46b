package noderesources

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	config "k8s.io/kube-scheduler/config/v1"
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
// classes come and go, so statuses on resources that they serve are not kept.
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

// requirement is a resource that the Pod requests, and its columns. index is its place in
// commonResources, or -1.
type requirement struct {
	request int64
	index   int
	*columns.Capacity
}

// requirements are all that Filter looks at, the Pod's own place first.
func (f *Fit) requirements(requests *fit.Vector, t *columns.Table) []requirement {
	out := []requirement{{1, 0, &t.Pods}}
	for _, name := range names(requests) {
		if n := requests.Get(name); n > 0 && !f.isIgnored(name) {
			out = append(out, requirement{n, slices.Index(commonResources[:], name), t.Resource(name)})
		}
	}
	return out
}

// Evaluator filters and scores by columns.
func (f *Fit) Evaluator(p *v1.Pod, t *columns.Table) *columns.Evaluator {
	requests, nonZero := snapshot.RequestsAndNonZero(p)
	return &columns.Evaluator{Score: f.scoreRows(&nonZero, t), Filter: f.filterRows(&requests, t)}
}

// filterRows is filter of rows: resource by resource what is short, then what to say of it.
func (f *Fit) filterRows(requests *fit.Vector, t *columns.Table) func([]int32, []*framework.Status) {
	required := f.requirements(requests, t)
	var short []shortageSet
	return func(rows []int32, no []*framework.Status) {
		short = append(short[:0], make([]shortageSet, len(rows))...)
		for k := range required {
			r := &required[k]
			request, index, requested, allocatable := r.request, r.index, r.Requested, r.Allocatable
			for i, row := range rows {
				short[i] |= shortageOf(index, request, requested[row], allocatable[row])
			}
		}
		for i, row := range rows {
			switch {
			case short[i] == 0 || no[i] != nil:
			case len(requests.Scalar) > 0:
				no[i] = f.filterScalars(requests, t.Nodes[row])
			default:
				no[i] = f.commonStatus(short[i])
			}
		}
	}
}

// scoredColumn is a resource that counts for the score, and its columns.
type scoredColumn struct {
	scoredResource
	allocatable, requested []int64
}

func scoredColumns(specs []config.ResourceSpec, requests *fit.Vector, t *columns.Table) (out []scoredColumn) {
	for _, r := range scoredResources(specs, requests) {
		has := t.Resource(r.name)
		out = append(out, scoredColumn{r, has.Allocatable, has.Requested})
	}
	return out
}

// scoreRows is score of rows.
func (s *resourceScorer) scoreRows(requests *fit.Vector, t *columns.Table) func([]int32, []int64) {
	scored := scoredColumns(s.resources, requests, t)
	for i := range scored {
		switch scored[i].name {
		case v1.ResourceCPU:
			scored[i].requested = t.NonZeroCPU
		case v1.ResourceMemory:
			scored[i].requested = t.NonZeroMemory
		}
	}
	return func(rows []int32, raw []int64) {
		for i, row := range rows {
			var sum weightedSum
			for k := range scored {
				r := &scored[k]
				if allocatable := r.allocatable[row]; allocatable != 0 {
					s.add(&sum, s.scoreOf(r.requested[row]+r.request, allocatable), r.weight)
				}
			}
			raw[i] = s.mean(&sum)
		}
	}
}

// Evaluator is Score by columns.
func (b *Balanced) Evaluator(p *v1.Pod, t *columns.Table) *columns.Evaluator {
	requests := snapshot.Requests(p)
	scored := scoredColumns(b.resources, &requests, t)
	return &columns.Evaluator{Score: func(rows []int32, raw []int64) {
		for i, row := range rows {
			var sum balance
			for k := range scored {
				r := &scored[k]
				if allocatable := r.allocatable[row]; allocatable != 0 {
					sum.with.add(r.requested[row]+r.request, allocatable)
					sum.without.add(r.requested[row], allocatable)
				}
			}
			raw[i] = sum.score()
		}
	}}
}
