package memorymanager

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/kubelet/resource"
	"github.com/gantry-project/gantry/internal/pod"
)

// amounts are bytes by kind of memory.
type amounts map[v1.ResourceName]uint64

func (a amounts) kinds() []v1.ResourceName { return slices.Sorted(maps.Keys(a)) }

func isMemory(name v1.ResourceName) bool {
	return name == v1.ResourceMemory || strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix)
}

// amountsOf are the kinds of memory in a list. positive leaves out those of no bytes.
func amountsOf(list v1.ResourceList, positive bool) (amounts, error) {
	out := amounts{}
	for name, q := range list {
		if !isMemory(name) {
			continue
		}
		n, ok := q.AsInt64()
		if !ok || n < 0 {
			return nil, errors.New("[memorymanager] failed to represent quantity as int64")
		}
		if n > 0 || !positive {
			out[name] = uint64(n)
		}
	}
	return out, nil
}

// request is the memory that a container asks for. podLevel: in a Pod with pod-level resources,
// only containers that are guaranteed themselves have memory of their own.
func request(p *v1.Pod, c *v1.Container, podLevel bool) (amounts, error) {
	if podLevel && pod.HasPodLevelResources(p) && !resource.GuaranteedContainer(c) {
		return amounts{}, nil
	}
	return amountsOf(c.Resources.Requests, false)
}

// podRequest is the memory that the containers of a Pod hold at most at one time.
func podRequest(p *v1.Pod, podLevel bool) (amounts, error) {
	if podLevel && pod.HasPodLevelResources(p) {
		return amountsOf(p.Spec.Resources.Requests, true)
	}
	starting, sidecars, running := amounts{}, amounts{}, amounts{}
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		r, err := request(p, c, podLevel)
		if err != nil {
			return nil, err
		}
		for name, n := range r {
			if pod.IsSidecar(c) {
				sidecars[name] += n
			} else {
				starting[name] = max(starting[name], sidecars[name]+n)
			}
		}
	}
	for i := range p.Spec.Containers {
		r, err := request(p, &p.Spec.Containers[i], podLevel)
		if err != nil {
			return nil, err
		}
		for name, n := range r {
			running[name] += n
		}
	}
	for name := range running {
		running[name] = max(starting[name], running[name]+sidecars[name])
	}
	return running, nil
}

// sharedPool tells whether the containers of a Pod with pod-level resources that have no memory
// for themselves are left any. The errors are upstream's.
func sharedPool(p *v1.Pod) error {
	total, err := podRequest(p, true)
	if err != nil {
		return err
	}
	exclusive, shared := amounts{}, false
	for _, c := range pod.ContainersInOrder(p) {
		r, err := request(p, c, true)
		if err != nil {
			return err
		}
		if pod.EndsBeforeOthers(p, c.Name) {
			for _, name := range total.kinds() {
				if len(r) == 0 && exclusive[name] >= total[name] {
					return fmt.Errorf("pod rejected, pod has shared init containers but no %s available for them", name)
				}
			}
			continue
		}
		shared = shared || len(r) == 0
		for name, n := range r {
			exclusive[name] += n
		}
	}
	for _, name := range total.kinds() {
		if shared && exclusive[name] >= total[name] {
			return fmt.Errorf("pod rejected, sum of exclusive container %s requests equals pod budget, leaving no "+
				"memory for shared containers", name)
		}
	}
	return nil
}
