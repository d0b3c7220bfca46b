package cpumanager

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/cpuset"

	"github.com/gantry-project/gantry/internal/kubelet/cpumanager/cpuassignment"
	"github.com/gantry-project/gantry/internal/kubelet/cpumanager/state"
	"github.com/gantry-project/gantry/internal/kubelet/machine"
	"github.com/gantry-project/gantry/internal/kubelet/topologymanager"
	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/reason"
)

// static is the policy static on one machine. Its methods change nothing but the State they are
// given.
type static struct {
	t        machine.Topology
	o        Options
	reserved cpuset.CPUSet // never exclusive
	podLevel bool          // PodLevelResourceManagers
}

// newStatic settles the reserved CPUs: those given, or as many of the first cores as are reserved.
func newStatic(t machine.Topology, o Options, given cpuset.CPUSet, count int) (*static, error) {
	p := &static{t: t, o: o, reserved: given}
	if given.IsEmpty() {
		taken, err := p.take(t.All(), count)
		if err == nil {
			p.reserved = taken
		}
	}
	if p.reserved.Size() != count {
		return nil, fmt.Errorf("[cpumanager] unable to reserve the required amount of CPUs (size of %s did not equal "+
			"%d)",
			p.reserved, count)
	}
	for _, id := range p.reserved.List() {
		if _, ok := t.CPUs[id]; !ok {
			return nil, fmt.Errorf("[cpumanager] unable to build the reserved physical CPUs from the reserved set: "+
				"unknown CPU ID: %d", id)
		}
	}
	return p, nil
}

func (p *static) take(from cpuset.CPUSet, n int) (cpuset.CPUSet, error) {
	return cpuassignment.TakeByTopology(p.t, from, n, p.o.Options)
}

// all are the CPUs that the shared pool and exclusive CPUs are together.
func (p *static) all() cpuset.CPUSet {
	if p.o.StrictReservation {
		return p.t.All().Difference(p.reserved)
	}
	return p.t.All()
}

// available are the CPUs that can still be given away.
func (p *static) available(s *state.State) cpuset.CPUSet { return s.Default.Difference(p.reserved) }

// start makes a new state whole, or holds one that was kept against the machine. The errors are
// upstream's.
func (p *static) start(s *state.State) error {
	if !p.podLevel {
		s.Pods = nil
	}
	if s.Default.IsEmpty() && (len(s.Assignments) == 0 || !p.o.StrictReservation) {
		if len(s.Assignments) != 0 {
			return fmt.Errorf("default cpuset cannot be empty")
		}
		s.Default = p.all()
		return nil
	}
	inDefault := p.reserved.Intersection(s.Default)
	switch {
	case p.o.StrictReservation && !inDefault.IsEmpty():
		return fmt.Errorf("some of strictly reserved cpus: %q are present in defaultCpuSet: %q", inDefault, s.Default)
	case !p.o.StrictReservation && !inDefault.Equals(p.reserved):
		return fmt.Errorf("not all reserved cpus: %q are present in defaultCpuSet: %q", p.reserved, s.Default)
	}
	known := s.Default.Union(s.All())
	for uid, list := range s.Assignments {
		for name, set := range list {
			if !s.Default.Intersection(set).IsEmpty() {
				return fmt.Errorf("pod: %s, container: %s cpuset: %q overlaps with default cpuset %q", uid, name, set,
					s.Default)
			}
		}
	}
	if p.podLevel {
		for _, set := range s.Pods {
			known = known.Union(set)
		}
	}
	if !known.Equals(p.all()) {
		return fmt.Errorf("current set of available CPUs %q doesn't match with CPUs in state %q", p.all(), known)
	}
	return p.disjoint(s)
}

// disjoint refuses a state that gives one CPU to two Pods: only a changed file does.
func (p *static) disjoint(s *state.State) error {
	owner := map[int]string{}
	for uid, list := range s.Assignments {
		for _, set := range list {
			for _, id := range set.UnsortedList() {
				if o, taken := owner[id]; taken && o != uid {
					return fmt.Errorf("CPU %d is assigned to the pods %s and %s", id, min(o, uid), max(o, uid))
				}
				owner[id] = uid
			}
		}
	}
	return nil
}

// skips tells whether a Pod is left alone: it has pod-level resources, and nothing knows of those.
func (p *static) skips(pd *v1.Pod) bool { return !p.podLevel && pod.HasPodLevelResources(pd) }

// hints are the sets of NUMA nodes that n CPUs could come from (upstream:
// generateCPUTopologyHints), taken from available and reusable; reusable ones are in each. Those
// that span as few nodes as n CPUs need are preferred.
func (p *static) hints(available, reusable cpuset.CPUSet, n int) []topologymanager.Hint {
	out := []topologymanager.Hint{}
	total, free, reuse := p.byNode(p.t.All()), p.byNode(available), p.byNode(reusable)
	nodes := p.t.Nodes()
	least := len(nodes)
	for mask := range topologymanager.Masks(nodes) {
		have, could := 0, 0
		for _, node := range mask.Bits() {
			could += total[node]
			have += free[node] + reuse[node]
		}
		if could >= n {
			least = min(least, mask.Count())
		}
		if have >= n && p.t.InNodes(reusable, mask.Bits()...).Size() == reusable.Size() {
			out = append(out, topologymanager.Hint{NUMANodeAffinity: mask})
		}
	}
	for i := range out {
		out[i].Preferred = out[i].NUMANodeAffinity.Count() == least ||
			p.o.AlignBySocket && p.socketAligned(out[i].NUMANodeAffinity, least)
	}
	return out
}

func (p *static) byNode(set cpuset.CPUSet) map[int]int {
	out := map[int]int{}
	for _, id := range set.UnsortedList() {
		if c, ok := p.t.CPUs[id]; ok {
			out[c.NUMANode]++
		}
	}
	return out
}

// socketAligned tells whether the nodes span as few sockets as the least number of nodes needs.
func (p *static) socketAligned(m topologymanager.Mask, least int) bool {
	perSocket := p.t.NumNodes / p.t.NumSockets
	if perSocket == 0 {
		return false
	}
	return len(p.t.SocketsOf(m.Bits()...)) == (least+perSocket-1)/perSocket
}

// allocate takes n CPUs out of the shared pool: first those of the affinity's nodes, then others.
func (p *static) allocate(s *state.State, n int, affinity topologymanager.Mask,
	reusable cpuset.CPUSet) (cpuset.CPUSet, error) {
	from := p.available(s).Union(reusable)
	got := cpuset.New()
	if affinity != 0 {
		aligned := p.t.InNodes(from, affinity.Bits()...)
		if p.o.AlignBySocket {
			aligned = p.t.InSockets(from, p.t.SocketsOf(affinity.Bits()...)...)
		}
		first, err := p.take(aligned, min(n, aligned.Size()))
		if err != nil {
			return got, err
		}
		got = first
	}
	rest, err := p.take(from.Difference(got), n-got.Size())
	if err != nil {
		return cpuset.New(), err
	}
	got = got.Union(rest)
	s.Default = s.Default.Difference(got)
	return got, nil
}

// wholeCores refuses, with full-pcpus-only, what would not be whole cores.
func (p *static) wholeCores(s *state.State, n int) error {
	if !p.o.FullPhysicalCPUs {
		return nil
	}
	perCore := p.t.CPUsPerCore()
	refuse := func(fix, format string, a ...any) error {
		return &reason.Refusal{Code: reason.AdmitSMTAlignment, By: "kubelet/cpumanager", Fix: fix,
			Detail: "SMT Alignment Error: " + fmt.Sprintf(format, a...)}
	}
	if n%perCore != 0 {
		return refuse("ask for a multiple of the CPUs per core", "requested %d cpus not multiple cpus per core = %d", n,
			perCore)
	}
	if free := s.Default.Difference(p.t.WholeCores(p.reserved)).Size(); n > free {
		return refuse("wait for exclusive CPUs to be given back, or ask for fewer",
			"not enough free physical CPUs: available physical CPUs = %d, requested CPUs = %d, CPUs per core = %d",
			free,
			n, perCore)
	}
	return nil
}

// release gives the CPUs of a container back to the shared pool, but for those that others of its
// Pod have as well.
func (p *static) release(s *state.State, uid, container string) {
	set, ok := s.Exclusive(uid, container)
	if !ok {
		return
	}
	s.Delete(uid, container)
	if whole, ok := s.Pods[uid]; ok && p.podLevel {
		if len(s.Assignments[uid]) == 0 {
			s.Default = s.Default.Union(whole)
			delete(s.Pods, uid)
		}
		return
	}
	for _, other := range s.Assignments[uid] {
		set = set.Difference(other)
	}
	s.Default = s.Default.Union(set)
}

// allocatePod takes CPUs for a Pod with pod-level resources and divides them among its containers;
// those that have none for themselves share what is left.
func (p *static) allocatePod(s *state.State, pd *v1.Pod, affinity topologymanager.Mask) error {
	n := podRequest(pd, true)
	if n == 0 {
		return nil
	}
	if err := sharedPool(pd); err != nil {
		return &reason.Refusal{Code: reason.AdmitEmptyPodSharedPool, By: "kubelet/cpumanager", Detail: err.Error(),
			Fix: "raise the Pod's CPU request above that of its exclusive containers"}
	}
	if err := p.wholeCores(s, n); err != nil {
		return err
	}
	whole, err := p.allocate(s, n, affinity, cpuset.New())
	if err != nil {
		return err
	}
	uid := string(pd.UID)
	if s.Pods == nil {
		s.Pods = map[string]cpuset.CPUSet{}
	}
	s.Pods[uid] = whole
	pool := whole
	for i := range pd.Spec.InitContainers {
		c := &pd.Spec.InitContainers[i]
		set, own := pool, request(pd, c, true)
		if own > 0 {
			if set, err = p.take(pool, own); err != nil {
				return err
			}
		}
		switch {
		case own == 0 && pod.IsSidecar(c):
			continue // it shares what the others leave
		case pod.IsSidecar(c):
			pool = pool.Difference(set)
		}
		s.Set(uid, c.Name, set)
	}
	for i := range pd.Spec.Containers {
		c := &pd.Spec.Containers[i]
		if own := request(pd, c, true); own > 0 {
			set, err := p.take(pool, own)
			if err != nil {
				return err
			}
			pool = pool.Difference(set)
			s.Set(uid, c.Name, set)
		}
	}
	for _, c := range pod.ContainersInOrder(pd) {
		if _, ok := s.Exclusive(uid, c.Name); !ok {
			s.Set(uid, c.Name, pool)
		}
	}
	return nil
}
