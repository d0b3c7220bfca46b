package nodepressure

import (
	"cmp"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/kubelet/eviction"
)

// Level is a signal at the start, in bytes, inodes or process ids.
type Level struct{ Available, Capacity int64 }

// Pod is a Pod of the node and what it takes.
type Pod struct {
	Pod       *v1.Pod
	Use       eviction.PodUse // at the start
	Growth    Growth
	EndsAfter time.Duration // it is asked to end; its grace period bounds it; 0: DefaultEndsAfter
	// the node cannot read what the Pod takes, though it takes it
	Unmeasured bool
}

// Growth is how much more a Pod takes each second.
type Growth struct{ Memory, Layer, Logs, Processes int64 }

// Node is a node in numbers.
type Node struct {
	Name    string
	Config  eviction.Config
	Disks   eviction.Disks
	Signals map[eviction.Signal]Level // what is not there is not observed
	Pods    []Pod                     // equal ones go in this order
	Reclaim map[eviction.Reclaim]int64
	Wedged  bool // Pods that end give nothing back
}

// DefaultEndsAfter is how long a Pod takes to end when nothing is said.
const DefaultEndsAfter = time.Second

// start is when simulations begin; any time would do.
var start = time.Unix(0, 0).UTC()

// state is a node at one time of a simulation.
type state struct {
	*Node
	at        time.Duration
	gone      map[types.UID]bool
	reclaimed map[eviction.Reclaim]bool
}

func newState(n *Node) *state {
	return &state{Node: n, gone: map[types.UID]bool{}, reclaimed: map[eviction.Reclaim]bool{}}
}

// clonePods copies Pods and what can be changed of their use.
func clonePods(list []Pod) []Pod {
	out := slices.Clone(list)
	for i := range out {
		out[i].Pod = out[i].Pod.DeepCopy()
		out[i].Use.Containers = slices.Clone(out[i].Use.Containers)
		out[i].Use.Volumes = maps.Clone(out[i].Use.Volumes)
	}
	return out
}

// use is what a Pod takes at the time.
func (s *state) use(p *Pod) eviction.PodUse {
	seconds := int64(s.at / time.Second)
	u, g := p.Use, p.Growth
	if seconds == 0 || g == (Growth{}) {
		return u
	}
	u.Containers = slices.Clone(u.Containers)
	u.Processes = uint64(max(0, int64(u.Processes)+g.Processes*seconds))
	if g.Memory != 0 {
		u.Memory = plus(u.Memory, g.Memory*seconds)
	}
	if len(u.Containers) == 0 {
		return u
	}
	c := &u.Containers[0]
	if g.Memory != 0 && c.Memory != nil {
		c.Memory = plus(c.Memory, g.Memory*seconds)
	}
	c.Layer, c.Logs = grown(c.Layer, g.Layer*seconds), grown(c.Logs, g.Logs*seconds)
	return u
}

func plus(n *int64, more int64) *int64 {
	if n == nil {
		n = new(int64)
	}
	sum := max(0, *n+more)
	return &sum
}

func grown(s *eviction.Space, bytes int64) *eviction.Space {
	if bytes == 0 {
		return s
	}
	out := eviction.Space{Bytes: bytes}
	if s != nil {
		out.Bytes, out.Inodes = max(0, s.Bytes+bytes), s.Inodes
	}
	return &out
}

// amount is what of a Pod's use counts for a signal.
func amount(s eviction.Signal, p *v1.Pod, u eviction.PodUse, d eviction.Disks) int64 {
	r := eviction.Rank(eviction.Upstream, s, eviction.Candidates{Pods: []*v1.Pod{p},
		Use: map[types.UID]eviction.PodUse{p.UID: u}, Disks: d})
	if len(r) == 0 {
		return 0
	}
	return r[0].Use.Value()
}

// present are the Pods that have not ended.
func (s *state) present() []*v1.Pod {
	var out []*v1.Pod
	for i := range s.Pods {
		if p := s.Pods[i].Pod; !s.gone[p.UID] {
			out = append(out, p)
		}
	}
	return out
}

// uses is what they take.
func (s *state) uses() map[types.UID]eviction.PodUse {
	out := map[types.UID]eviction.PodUse{}
	for i := range s.Pods {
		if p := &s.Pods[i]; !s.gone[p.Pod.UID] && !p.Unmeasured {
			out[p.Pod.UID] = s.use(p)
		}
	}
	return out
}

// observations are the signals at the time.
func (s *state) observations() eviction.Observations {
	out := eviction.Observations{}
	for signal, level := range s.Signals {
		available := level.Available
		for i := range s.Pods {
			p := &s.Pods[i]
			now := int64(0)
			if !s.gone[p.Pod.UID] || s.Wedged {
				now = amount(signal, p.Pod, s.use(p), s.Disks)
			}
			available += amount(signal, p.Pod, p.Use, s.Disks) - now
		}
		if signal.Resource() == v1.ResourceEphemeralStorage {
			for what := range s.reclaimed {
				available += s.Reclaim[what]
			}
		}
		out[signal] = eviction.Observation{At: start.Add(s.at), Capacity: level.Capacity,
			Available: min(max(available, 0), max(level.Capacity, level.Available))}
	}
	return out
}

// in is what a decision is made of at the time.
func (s *state) in(before eviction.State) eviction.In {
	c := s.Config
	c.Thresholds, _ = eviction.ForDisks(c.Thresholds, s.Disks)
	return eviction.In{Config: c, Disks: s.Disks, Observations: s.observations(), State: before,
		Now: start.Add(s.at)}
}

// podOf finds a Pod of the node by NAME or NAMESPACE/NAME; nil: there is none.
func (n *Node) podOf(name string) *Pod {
	for i := range n.Pods {
		p := n.Pods[i].Pod
		if p.Name == name || p.Namespace+"/"+p.Name == name {
			return &n.Pods[i]
		}
	}
	return nil
}

// sortedSignals are the observed signals by name.
func sortedSignals[T any](m map[eviction.Signal]T) []eviction.Signal {
	return slices.SortedFunc(maps.Keys(m), func(a, b eviction.Signal) int { return cmp.Compare(a, b) })
}
