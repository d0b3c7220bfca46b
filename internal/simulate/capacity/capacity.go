package capacity

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/scheduler/plugins"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/dynamicresources"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/volumelisters"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// In is the input of Count.
type In struct {
	Objects []runtime.Object // nodes, Pods, volumes, claims, namespaces, slices; others are not looked at
	Pod     *v1.Pod          // with defaults; it needs no name
	Limit   int              // how many are placed at most; 0: as many as fit
}

// Answer is how many fit.
type Answer struct {
	Fits     int     `json:"fits"`
	Limited  bool    `json:"limited"` // the limit was reached, more may fit
	Nodes    int     `json:"nodes"`   // that there are
	Shapes   []Shape `json:"shapes"`  // of nodes, the one that takes most Pods per node first
	RunsOut  []Cause `json:"runsOut"` // why no more fit, by how many nodes say so
	Blocking string  `json:"message,omitempty"`
	// Notes say what was not looked at. Count leaves them to its caller.
	Notes []string `json:"notes,omitempty"`
}

// Shape is nodes of one size.
type Shape struct {
	Allocatable string  `json:"allocatable"`
	Nodes       int     `json:"nodes"`
	Fits        int     `json:"fits"`
	PerNode     float64 `json:"perNode"`
	PerCore     float64 `json:"perCore"` // of the allocatable cores; 0: the nodes have none
}

// Best is the shape that takes most Pods per core; of equal ones that with most per node. It is nil
// where none fits.
func (a Answer) Best() *Shape {
	var best *Shape
	for i := range a.Shapes {
		if s := &a.Shapes[i]; s.Fits > 0 && (best == nil || s.PerCore > best.PerCore) {
			best = s
		}
	}
	return best
}

// Cause is why nodes take no more Pods.
type Cause struct {
	What  string `json:"what"` // a resource, or a plugin's words
	Nodes int    `json:"nodes"`
}

// handle is as much of a scheduler's handle as plugins need that only decide.
type handle struct {
	framework.Handle
	volumes   volumelisters.Listers
	informers informers.SharedInformerFactory // never started: its store holds what was given
	devices   *dynamicresources.FixedManager
}

// DeviceAllocation implements plugins.DRAHolder; nothing is allocated.
func (h handle) DeviceAllocation() (framework.SharedDRAManager, dynamicresources.ClaimWriter) {
	return h.devices, nil
}

// VolumeListers implements volumelisters.ListersHolder.
func (h handle) VolumeListers() volumelisters.Listers { return h.volumes }

// SharedInformerFactory implements framework.Handle.
func (h handle) SharedInformerFactory() informers.SharedInformerFactory { return h.informers }

// placed is the nodes and the Pods on them.
type placed struct {
	nodes []*v1.Node
	pods  map[string][]*v1.Pod
	cache *snapshot.Cache
}

func placedOf(in In, h handle) (placed, error) {
	out := placed{pods: map[string][]*v1.Pod{}, cache: snapshot.NewCache()}
	for _, o := range in.Objects {
		switch o := o.(type) {
		case *v1.Node:
			out.nodes = append(out.nodes, o)
			out.cache.SetNode(o)
		case *v1.Namespace:
			if err := h.informers.Core().V1().Namespaces().Informer().GetStore().Add(o); err != nil {
				return out, err
			}
		}
	}
	for _, o := range in.Objects {
		if p, ok := o.(*v1.Pod); ok && p.Spec.NodeName != "" && !pod.IsTerminal(p) {
			out.pods[p.Spec.NodeName] = append(out.pods[p.Spec.NodeName], p)
			out.cache.SetPod(p)
		}
	}
	return out, nil
}

// prepare returns the nodes with the Pods on them, and the scheduler's plugins.
func prepare(in In) (placed, *schedule.PluginSet, error) {
	h := handle{volumes: volumelisters.Of(in.Objects...), informers: informers.NewSharedInformerFactory(nil, 0),
		devices: dynamicresources.NewFixedManager(in.Objects...)}
	cluster, err := placedOf(in, h)
	if err != nil {
		return placed{}, nil, err
	}
	set, err := plugins.DefaultPluginSet(v1.DefaultSchedulerName, h)
	return cluster, set, err
}

// Count places Pods until none fits.
func Count(ctx context.Context, in In) (Answer, error) {
	cluster, set, err := prepare(in)
	if err != nil {
		return Answer{}, err
	}
	out := Answer{Nodes: len(cluster.nodes)}
	var c counts
	needed, alone := onNodeAlone(ctx, set, in.Pod, cluster.cache.UpdateSnapshot())
	if alone && in.Limit == 0 {
		if c, err = fillNodes(ctx, in, cluster, needed); err != nil {
			return Answer{}, err
		}
	} else {
		var last *schedule.Result
		if c.perNode, last, err = fill(ctx, in, cluster.cache, set); err != nil {
			return Answer{}, err
		}
		if out.Limited = last == nil; !out.Limited {
			out.Blocking, c.causes = last.Message(), map[string]int{}
			addCauses(c.causes, last)
		}
	}
	out.Shapes, out.RunsOut = shapesOf(cluster.nodes, c.perNode), causesOf(c.causes)
	for _, n := range c.perNode {
		out.Fits += n
	}
	return out, ctx.Err()
}

// fill places Pods and counts them by node. last is the result of the one that did not fit; nil:
// the limit was reached.
func fill(ctx context.Context, in In, cache *snapshot.Cache,
	set *schedule.PluginSet) (perNode map[string]int, last *schedule.Result, err error) {
	perNode = map[string]int{}
	buffers, columns := &schedule.Buffers{}, &schedule.EquivalenceCache{}
	startsAt := 0
	for n := 0; in.Limit == 0 || n < in.Limit; n++ {
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		p := *in.Pod
		p.Name, p.UID = fmt.Sprint("capacity-", n), types.UID(fmt.Sprint("capacity-", n))
		r := schedule.SchedulePod(ctx, schedule.Input{Pod: &p, Snapshot: cache.UpdateSnapshot(), Plugins: set,
			Buffers: buffers, Cache: columns,
			Sample: schedule.Sample{Percent: schedule.AdaptivePercentage, StartsAt: startsAt}})
		if !r.Scheduled() {
			return perNode, r, nil
		}
		startsAt += r.EvaluatedNodes
		host := r.SuggestedHost
		perNode[host]++
		placed := p
		placed.Spec.NodeName = host
		if err := cache.AssumePod(&placed, host); err != nil {
			return nil, nil, err
		}
	}
	return perNode, nil, nil
}

// shapesOf groups the counts by what nodes have.
func shapesOf(nodes []*v1.Node, perNode map[string]int) []Shape {
	by, cores := map[string]*Shape{}, map[string]float64{}
	for _, n := range nodes {
		key := shapeOf(n)
		if by[key] == nil {
			by[key] = &Shape{Allocatable: key}
		}
		by[key].Nodes++
		by[key].Fits += perNode[n.Name]
		cores[key] += float64(n.Status.Allocatable.Cpu().MilliValue()) / 1000
	}
	var out []Shape
	for key, s := range by {
		s.PerNode = float64(s.Fits) / float64(s.Nodes)
		if cores[key] > 0 {
			s.PerCore = float64(s.Fits) / cores[key]
		}
		out = append(out, *s)
	}
	slices.SortFunc(out, func(a, b Shape) int {
		return cmp.Or(cmp.Compare(b.PerNode, a.PerNode), cmp.Compare(a.Allocatable, b.Allocatable))
	})
	return out
}

func shapeOf(n *v1.Node) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(n.Status.Allocatable)) {
		switch {
		case name == v1.ResourceCPU, name == v1.ResourceMemory, strings.Contains(string(name), "/"):
			q := n.Status.Allocatable[name]
			parts = append(parts, q.String()+" "+string(name))
		}
	}
	return strings.Join(parts, ", ")
}

// addCauses counts what nodes lack.
func addCauses(counts map[string]int, r *schedule.Result) {
	for _, refusal := range r.Refusals(r.Nodes()) {
		if len(refusal.Shortages) == 0 {
			counts[strings.Join(refusal.Messages, ", ")]++
		}
		for _, s := range refusal.Shortages {
			counts[s.Resource]++
		}
	}
}

// causesOf lists causes, that of most nodes first.
func causesOf(counts map[string]int) []Cause {
	var out []Cause
	for what, n := range counts {
		out = append(out, Cause{What: what, Nodes: n})
	}
	slices.SortFunc(out, func(a, b Cause) int {
		return cmp.Or(cmp.Compare(b.Nodes, a.Nodes), cmp.Compare(a.What, b.What))
	})
	return out
}
