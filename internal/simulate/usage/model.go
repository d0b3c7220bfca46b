package usage

import (
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/simulate/behavior"
)

// Amounts is what a container takes.
type Amounts struct {
	CPU    int64 `json:"cpu"`    // thousandths of a core
	Memory int64 `json:"memory"` // bytes of its working set
}

func (a Amounts) plus(b Amounts) Amounts { return Amounts{a.CPU + b.CPU, a.Memory + b.Memory} }

func (a Amounts) times(f float64) Amounts {
	return Amounts{saturated(math.Round(float64(a.CPU) * f)), saturated(math.Round(float64(a.Memory) * f))}
}

// saturated is a figure as a whole number, a very large one as one that sums of still are numbers.
func saturated(f float64) int64 { return int64(min(f, 1<<53)) }

// Figures are what was measured, by Pod (namespace/name) and container.
type Figures map[string]map[string]Amounts

// Model knows what containers take. One goroutine uses it.
type Model struct {
	figures Figures
	lives   behavior.Model                // tells the memory of owners of whose Pods no figure tells
	byOwner map[string]map[string]Amounts // the mean of an owner's Pods, by behavior.OwnerKey
	loads   map[string]map[string]Amounts // what an owner's Pods take together
	ready   map[string]map[types.UID]bool // Pods by owner
	assumes bool                          // what was not measured is what was requested
}

// NewModel returns a Model for Pods of which figures tell, or of whose memory lives do.
func NewModel(figures Figures, lives behavior.Model) *Model {
	return &Model{figures: figures, lives: lives, byOwner: map[string]map[string]Amounts{},
		loads: map[string]map[string]Amounts{}, ready: map[string]map[types.UID]bool{}}
}

// Measured learns the mean of each owner's Pods.
func (m *Model) Measured(pods []*corev1.Pod) {
	sums, counts := map[string]map[string]Amounts{}, map[string]int64{}
	for _, p := range pods {
		of, ok := m.figures[p.Namespace+"/"+p.Name]
		key := behavior.OwnerKey(p)
		if !ok || key == "" {
			continue
		}
		if sums[key] == nil {
			sums[key] = map[string]Amounts{}
		}
		for name, a := range of {
			sums[key][name] = sums[key][name].plus(a)
		}
		counts[key]++
	}
	for key, sum := range sums {
		m.byOwner[key] = map[string]Amounts{}
		for name, a := range sum {
			m.byOwner[key][name] = Amounts{a.CPU / counts[key], a.Memory / counts[key]}
		}
	}
}

// PodChanged takes in a version of a Pod; cur is nil when it is gone.
func (m *Model) PodChanged(old, cur *corev1.Pod) {
	p := cur
	if p == nil {
		p = old
	}
	key := behavior.OwnerKey(p)
	if m.ready[key] == nil {
		m.ready[key] = map[types.UID]bool{}
	}
	if cur == nil || !isReady(cur) {
		delete(m.ready[key], p.UID)
		return
	}
	m.ready[key][p.UID] = true
}

// Known tells whether something is known of a Pod: it or a Pod of its owner was measured, or what
// was not is assumed.
func (m *Model) Known(p *corev1.Pod) bool {
	_, byName := m.figures[p.Namespace+"/"+p.Name]
	return m.assumes || byName || m.byOwner[behavior.OwnerKey(p)] != nil
}

// base is what a container takes before loads change.
func (m *Model) base(p *corev1.Pod, c *corev1.Container) Amounts {
	if a, ok := m.figures[p.Namespace+"/"+p.Name][c.Name]; ok {
		return a
	}
	if a, ok := m.byOwner[behavior.OwnerKey(p)][c.Name]; ok {
		return a
	}
	return Amounts{c.Resources.Requests.Cpu().MilliValue(), m.memory(p, c)}
}

// memory is a container's part of the memory that lives tell of its Pod: as its request is to those
// of the others, without any all alike. It is the request where lives tell nothing.
func (m *Model) memory(p *corev1.Pod, c *corev1.Container) int64 {
	whole, own, all := m.lives.MemoryOf(p), c.Resources.Requests.Memory().Value(), int64(0)
	if whole == 0 {
		return own
	}
	beside := running(p)
	for _, x := range beside {
		all += x.Resources.Requests.Memory().Value()
	}
	if all == 0 {
		return whole / int64(len(beside))
	}
	return saturated(float64(whole) * float64(own) / float64(all))
}

// Of returns what the containers of a Pod take, those that run beside each other, by name. Of a Pod
// that is not ready the load is nothing.
func (m *Model) Of(p *corev1.Pod) map[string]Amounts {
	out := map[string]Amounts{}
	key := behavior.OwnerKey(p)
	load, loaded := m.loads[key]
	n := int64(len(m.ready[key]))
	for _, c := range running(p) {
		a := m.base(p, c)
		of, has := load[c.Name]
		switch {
		case has && m.ready[key][p.UID]:
			a = Amounts{of.CPU / n, of.Memory / n}
		case loaded && !m.ready[key][p.UID]:
			a.CPU = 0
		}
		if limit := c.Resources.Limits.Cpu().MilliValue(); limit > 0 {
			a.CPU = min(a.CPU, limit)
		}
		out[c.Name] = a
	}
	return out
}

// running are the containers that run as long as the Pod does.
func running(p *corev1.Pod) []*corev1.Container {
	var out []*corev1.Container
	for i := range p.Spec.InitContainers {
		if pod.IsSidecar(&p.Spec.InitContainers[i]) {
			out = append(out, &p.Spec.InitContainers[i])
		}
	}
	for i := range p.Spec.Containers {
		out = append(out, &p.Spec.Containers[i])
	}
	return out
}

// Loaded is what a change of the load of an owner's Pods made of what they take together.
type Loaded struct {
	Before, After Amounts
	Pods          int  // ready ones
	Assumed       bool // nothing was measured: requests were taken
	Learnt        bool // of Assumed: but memory is what lives tell
	Containers    map[string]Amounts
}

// Load changes the load of an owner's Pods, which are given; those that are ready count. From now
// on what was not measured of any Pod is what it requests.
func (m *Model) Load(owner string, pods []*corev1.Pod, c Change) Loaded {
	m.assumes = true
	out := Loaded{Containers: map[string]Amounts{}}
	sums := map[string]Amounts{}
	for _, p := range pods {
		if !m.ready[owner][p.UID] {
			continue
		}
		out.Pods++
		if _, ok := m.figures[p.Namespace+"/"+p.Name]; !ok && m.byOwner[owner] == nil {
			out.Assumed, out.Learnt = true, m.lives.MemoryOf(p) > 0
		}
		for _, container := range running(p) {
			sums[container.Name] = sums[container.Name].plus(m.base(p, container))
		}
	}
	for _, a := range sums {
		out.Before = out.Before.plus(a)
	}
	for name, a := range sums {
		out.Containers[name] = c.of(a, out.Before, int64(out.Pods), len(sums))
		out.After = out.After.plus(out.Containers[name])
	}
	m.loads[owner] = out.Containers
	return out
}

func isReady(p *corev1.Pod) bool { return p.DeletionTimestamp == nil && pod.IsReady(p) }

// Resources is what is taken as the API writes it.
func (a Amounts) Resources() corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(a.CPU, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(a.Memory, resource.BinarySI)}
}
