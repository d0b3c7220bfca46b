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

// requirement is a resource that the Pod requests, and its columns.
type requirement struct {
	request int64
	*columns.Capacity
}

// requirements are all that Filter looks at, the Pod's own place first.
func (f *Fit) requirements(requests *fit.Vector, t *columns.Table) []requirement {
	out := []requirement{{1, &t.Pods}}
	for _, name := range names(requests) {
		if n := requests.Get(name); n > 0 && !f.isIgnored(name) {
			out = append(out, requirement{n, t.Resource(name)})
		}
	}
	return out
}

// Evaluator finds the rows where something does not suffice, of which filter says what, and scores
// by columns.
func (f *Fit) Evaluator(p *v1.Pod, t *columns.Table) *columns.Evaluator {
	requests, nonZero := snapshot.RequestsAndNonZero(p)
	required := f.requirements(&requests, t)
	return &columns.Evaluator{Score: f.scoreRows(&nonZero, t), Filter: func(rows []int32, no []*framework.Status) {
		for i, row := range rows {
			if no[i] != nil {
				continue
			}
			for k := range required {
				r := &required[k]
				if fit.Insufficient(r.request, r.Requested[row], r.Allocatable[row]) {
					no[i] = f.filter(&requests, t.Nodes[row])
					break
				}
			}
		}
	}}
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
				s.add(&sum, &r.scoredResource, r.requested[row], r.allocatable[row])
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
				sum.add(r.request, r.requested[row], r.allocatable[row])
			}
			raw[i] = sum.score()
		}
	}}
}
