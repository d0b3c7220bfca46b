package memorymanager

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/kubelet/memorymanager/state"
	"github.com/gantry-project/gantry/internal/kubelet/topologymanager"
	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/reason"
)

// allocation is what one container is to be given.
type allocation struct {
	pod       *v1.Pod
	container *v1.Container
	request   amounts
	affinity  topologymanager.Hint
}

// allocate gives a container its memory: what init containers before it had on the same nodes is
// taken again, and they are left with what it did not take.
func allocate(s *state.State, again reusable, a allocation) error {
	nodes, err := place(s.Machine, again, a.request, a.affinity)
	if err != nil {
		return err
	}
	list := blocks(a.request, nodes)
	for _, b := range list {
		take(s.Machine, b.NUMAAffinity, b.Type, less(b.Size, again[nodes][b.Type]))
	}
	uid := string(a.pod.UID)
	s.Set(uid, a.container.Name, list)
	for _, b := range list {
		shrinkInitContainers(s, a, b)
	}
	return nil
}

// shrinkInitContainers takes a block off what the init containers before its owner have on its
// nodes, so that the sum of all is what the Pod has.
func shrinkInitContainers(s *state.State, a allocation, b state.Block) {
	rest := b.Size
	for i := range a.pod.Spec.InitContainers {
		c := &a.pod.Spec.InitContainers[i]
		if c.Name == a.container.Name || rest == 0 {
			return
		}
		if pod.IsSidecar(c) {
			continue
		}
		have := s.Assignments[string(a.pod.UID)][c.Name]
		for j := range have {
			if have[j].Type == b.Type && topologymanager.MaskOf(have[j].NUMAAffinity...) ==
				topologymanager.MaskOf(b.NUMAAffinity...) {
				n := min(rest, have[j].Size)
				have[j].Size -= n
				rest -= n
			}
		}
	}
}

// note keeps what a container was given for those after it, if it ends before them, and takes off
// what it took again.
func (r reusable) note(p *v1.Pod, c *v1.Container, list []state.Block) {
	for _, b := range list {
		mask := topologymanager.MaskOf(b.NUMAAffinity...)
		have := r[mask][b.Type]
		switch {
		case !pod.EndsBeforeOthers(p, c.Name):
			if have > 0 {
				r[mask][b.Type] = less(have, b.Size)
			}
			continue
		case r[mask] == nil:
			r[mask] = amounts{}
		}
		r[mask][b.Type] = max(have, b.Size)
	}
}

// allocatePod gives a Pod with pod-level resources its memory and divides it among its containers;
// those that have none for themselves share what is left.
func allocatePod(s *state.State, p *v1.Pod, affinity topologymanager.Hint) error {
	total, err := podRequest(p, true)
	if err != nil || len(total) == 0 {
		return nil //nolint:nilerr // as upstream: what cannot be counted is not placed
	}
	if err := sharedPool(p); err != nil {
		return &reason.Refusal{Code: reason.AdmitEmptyPodSharedPool, By: "kubelet/memorymanager", Detail: err.Error(),
			Fix: "raise the Pod's memory request above that of its exclusive containers"}
	}
	nodes, err := place(s.Machine, nil, total, affinity)
	if err != nil {
		return err
	}
	uid := string(p.UID)
	pool, own := maps.Clone(total), map[string]amounts{}
	for _, c := range pod.ContainersInOrder(p) {
		r, err := request(p, c, true)
		switch {
		case err != nil:
			return err
		case pod.EndsBeforeOthers(p, c.Name) && len(r) == 0:
			own[c.Name] = maps.Clone(pool)
		case pod.EndsBeforeOthers(p, c.Name):
			own[c.Name] = r
		case len(r) > 0:
			own[c.Name] = r
			for name, n := range r {
				pool[name] = less(pool[name], n)
			}
		}
	}
	s.Pods[uid] = state.PodEntry{MemoryBlocks: blocks(total, nodes)}
	for _, name := range total.kinds() {
		take(s.Machine, nodes.Bits(), name, total[name])
	}
	for _, c := range pod.ContainersInOrder(p) {
		share, exclusive := own[c.Name]
		if !exclusive {
			share = pool
		}
		s.Set(uid, c.Name, slices.DeleteFunc(blocks(share, nodes), func(b state.Block) bool { return b.Size == 0 }))
	}
	return nil
}

// release takes back what a container has; a Pod that was given memory as a whole gives it back
// with its last container.
func release(s *state.State, uid, container string) {
	list, ok := s.Assignments[uid][container]
	if !ok {
		return
	}
	s.Delete(uid, container)
	if e, ok := s.Pods[uid]; ok {
		if len(s.Assignments[uid]) == 0 {
			giveBack(s.Machine, e.MemoryBlocks)
			delete(s.Pods, uid)
		}
		return
	}
	giveBack(s.Machine, list)
}
