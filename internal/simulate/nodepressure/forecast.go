package nodepressure

import (
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/kubelet/eviction"
)

// EvictionForecast is who would go on a node if more were taken of it.
type EvictionForecast struct {
	Margins []Margin `json:"margins"` // of all thresholds, the nearest first
	// who goes, in order: for the nearest threshold, then for the nearest one of each other
	// resource
	Next []Next `json:"next"`
}

// Margin is how far a threshold is away.
type Margin struct {
	Signal    string        `json:"signal"`
	Value     string        `json:"value"` // as configured
	Grace     time.Duration `json:"grace,omitempty"`
	Available int64         `json:"available"`
	Capacity  int64         `json:"capacity"`
	Threshold int64         `json:"threshold"`
	Left      int64         `json:"left"` // until it is met; 0: it is met
	Near      bool          `json:"near"` // worth telling somebody who did not ask

	threshold eviction.Threshold
}

// Next is a Pod that would go.
type Next struct {
	Pod    string   `json:"pod"`
	Place  int      `json:"place"` // among those that go for the signal; 1 goes first
	Signal string   `json:"signal"`
	At     int64    `json:"at"` // it goes when so much less is available
	Use    int64    `json:"use"`
	Why    string   `json:"why"`
	Saving []Saving `json:"saving,omitempty"`

	threshold int64
}

// Saving is a change that puts a Pod behind another; it was tried.
type Saving struct {
	Change   string `json:"change"`
	Request  int64  `json:"request,omitempty"`  // of memory, in bytes
	Priority *int32 `json:"priority,omitempty"` //
	Behind   string `json:"behind"`
}

// nearBytes is when a threshold of bytes is near, whatever the capacity.
const nearBytes = 1 << 30

// near tells whether a threshold is close enough to be told of to somebody who did not ask: a
// twentieth of what there is, of bytes at most 1Gi.
func near(m Margin) bool {
	bound := m.Capacity / 20
	switch eviction.Signal(m.Signal).Resource() {
	case v1.ResourceMemory, v1.ResourceEphemeralStorage:
		bound = min(bound, nearBytes)
	}
	return m.Left <= bound
}

// Forecast tells who would go next for each resource, at most so many Pods, and what would save
// them.
func Forecast(n Node, most int) *EvictionForecast {
	f := &EvictionForecast{Margins: margins(&n)}
	seen := map[v1.ResourceName]bool{}
	for _, m := range f.Margins {
		of := eviction.Signal(m.Signal).Resource()
		if seen[of] {
			continue
		}
		seen[of] = true
		for _, x := range rankNext(&n, m.threshold, most) {
			x.Saving = savings(&n, m.threshold, x)
			f.Next = append(f.Next, x)
		}
	}
	return f
}

// margins are the thresholds of the node by how near they are, as shares of what there is.
func margins(n *Node) []Margin {
	s := newState(n)
	in := s.in(eviction.State{})
	var out []Margin
	for _, t := range in.Config.Thresholds {
		o, seen := in.Observations[t.Signal]
		if !seen || o.Capacity <= 0 {
			continue
		}
		q := t.Value.Of(o.Capacity)
		m := Margin{Signal: string(t.Signal), Value: t.Value.String(), Grace: t.Grace, Available: o.Available,
			Capacity: o.Capacity, Threshold: q.Value(), Left: max(0, o.Available-q.Value()+1), threshold: t}
		m.Near = near(m)
		out = append(out, m)
	}
	slices.SortStableFunc(out, func(a, b Margin) int {
		x, y := float64(a.Left)/float64(a.Capacity), float64(b.Left)/float64(b.Capacity)
		switch {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	return out
}

// rankNext takes so much of the node that Pods go for a threshold, one after the other. A soft one
// is taken for a hard one: whoever goes would go after its grace.
func rankNext(n *Node, t eviction.Threshold, most int) []Next {
	m := *n
	t.Grace = 0
	m.Config.Thresholds, m.Config.FruitlessEvictions = []eviction.Threshold{t}, 0
	s := newState(&m)
	level := m.Signals[t.Signal]
	threshold := t.Value.Of(level.Capacity)
	stop := threshold.Value()
	var out []Next
	var before eviction.State
	taken := int64(0)
	for len(out) < most {
		base := newState(&Node{Disks: m.Disks, Pods: m.Pods, Wedged: m.Wedged,
			Signals: map[eviction.Signal]Level{t.Signal: level}})
		base.gone = s.gone
		taken = max(taken, base.observations()[t.Signal].Available-stop+1)
		s.at += time.Second
		in := eviction.In{Config: m.Config, Disks: m.Disks, State: before, Now: start.Add(s.at), Pods: s.present(),
			Use: s.uses(), Observations: eviction.Observations{t.Signal: {At: start.Add(s.at),
				Capacity: level.Capacity, Available: base.observations()[t.Signal].Available - taken}}}
		d := eviction.Decide(in)
		if d.Victim == nil {
			return out
		}
		order := eviction.Order(m.Config.Ranking, t.Signal, m.Disks)
		out = append(out, Next{Pod: name(d.Victim.Ranked), Place: len(out) + 1, Signal: string(t.Signal),
			threshold: threshold.Value(), At: taken,
			Use: d.Victim.Use.Value(),
			Why: why(order, d.Ranked, d.Victim.Place)})
		before = eviction.Evicted(d)
		s.gone[d.Victim.Pod.UID] = true
		if t.MinReclaim != nil {
			more := t.MinReclaim.Of(level.Capacity)
			stop = threshold.Value() + more.Value()
		}
	}
	return out
}

// savings tries a larger request and a higher priority for a Pod that would go.
func savings(n *Node, t eviction.Threshold, x Next) []Saving {
	var out []Saving
	if t.Signal.Resource() == v1.ResourceMemory {
		if s := savingRequest(n, t, x); s != nil {
			out = append(out, *s)
		}
	}
	if s := savingPriority(n, t, x); s != nil {
		out = append(out, *s)
	}
	return out
}

// podsBefore is the Pod that stands before the given one, once it is changed: empty when it still
// has the place it had.
func podsBefore(n *Node, t eviction.Threshold, x Next, change func(*v1.Pod)) string {
	m := *n
	m.Pods = clonePods(n.Pods)
	p := m.podOf(x.Pod)
	if p == nil {
		return ""
	}
	change(p.Pod)
	places := func(n *Node) []eviction.Ranked {
		s := newState(n)
		return eviction.Rank(n.Config.Ranking, t.Signal, eviction.Candidates{Pods: s.present(), Use: s.uses(),
			Disks: n.Disks})
	}
	before, after := places(n), places(&m)
	at := func(list []eviction.Ranked) int {
		return slices.IndexFunc(list, func(r eviction.Ranked) bool { return name(r) == x.Pod })
	}
	switch i := at(after); {
	case i < 0:
		return "all that take more than they request" // a ranking that spares it
	case i > at(before):
		return after[i-1].Pod.Name
	}
	return ""
}

const mebibyte = 1 << 20

// savingRequest finds the smallest request of memory, in whole Mi, that puts the Pod behind
// another.
func savingRequest(n *Node, t eviction.Threshold, x Next) *Saving {
	p := n.podOf(x.Pod)
	if p == nil || len(p.Pod.Spec.Containers) == 0 {
		return nil
	}
	now := requestOf(n, t.Signal, p.Pod)
	put := func(mi int64) string {
		return podsBefore(n, t, x, func(q *v1.Pod) { setRequest(q, p.Use, mi*mebibyte-now) })
	}
	low, high := now/mebibyte, (x.Use+mebibyte-1)/mebibyte
	if high <= low || put(high) == "" {
		return nil
	}
	for high-low > 1 {
		if mid := (low + high) / 2; put(mid) == "" {
			low = mid
		} else {
			high = mid
		}
	}
	bytes := high * mebibyte
	return &Saving{Change: "a request of " + resource.NewQuantity(bytes, resource.BinarySI).String(), Request: bytes,
		Behind: put(high)}
}

func requestOf(n *Node, s eviction.Signal, p *v1.Pod) int64 {
	r := eviction.Rank(eviction.Upstream, s, eviction.Candidates{Pods: []*v1.Pod{p}, Disks: n.Disks,
		Use: map[types.UID]eviction.PodUse{}})
	return r[0].Request.Value()
}

// setRequest has a Pod request so much more memory: as a whole where it has Pod-level resources,
// else in the container that takes most.
func setRequest(p *v1.Pod, u eviction.PodUse, more int64) {
	most, at := int64(-1), 0
	for i, c := range p.Spec.Containers {
		for _, x := range u.Containers {
			if x.Name == c.Name && x.Memory != nil && *x.Memory > most {
				most, at = *x.Memory, i
			}
		}
	}
	r := &p.Spec.Containers[at].Resources
	if p.Spec.Resources != nil {
		r = p.Spec.Resources
	}
	if r.Requests == nil {
		r.Requests = v1.ResourceList{}
	}
	q := r.Requests[v1.ResourceMemory]
	q.Add(*resource.NewQuantity(more, resource.BinarySI))
	r.Requests[v1.ResourceMemory] = q
}

// savingPriority finds the lowest priority that puts the Pod behind another.
func savingPriority(n *Node, t eviction.Threshold, x Next) *Saving {
	var tries []int32
	for i := range n.Pods {
		if q := n.Pods[i].Pod.Spec.Priority; q != nil && *q < 1_000_000_000 {
			tries = append(tries, *q, *q+1)
		} else if q == nil {
			tries = append(tries, 1)
		}
	}
	slices.Sort(tries)
	for _, to := range slices.Compact(tries) {
		after := podsBefore(n, t, x, func(p *v1.Pod) { p.Spec.Priority = &to })
		if after != "" {
			return &Saving{Change: fmt.Sprintf("a priority of %d", to), Priority: &to, Behind: after}
		}
	}
	return nil
}

// Of is the Pod among those that would go for a threshold; false: it is not.
func (f *EvictionForecast) Of(pod string, m Margin) (Next, bool) {
	for _, x := range f.For(m) {
		if x.Pod == pod {
			return x, true
		}
	}
	return Next{}, false
}

// For are those that would go for a threshold, in order. Only the nearest of each resource has
// some.
func (f *EvictionForecast) For(m Margin) []Next {
	var out []Next
	for _, x := range f.Next {
		if x.Signal == m.Signal && x.threshold == m.Threshold {
			out = append(out, x)
		}
	}
	return out
}
