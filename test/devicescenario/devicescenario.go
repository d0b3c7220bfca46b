// Package devicescenario makes random histories of devices and of Pods that ask for them, from a
// seed: hack/numadiff asks upstream's device manager, a test of internal/kubelet/devicemanager
// ours.
//
// The plugin always says which devices it prefers (Prefer), and init containers ask for no more
// than the containers after them: upstream picks by chance otherwise.
package devicescenario

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Resource is what Pods ask for.
const Resource = "vendor.com/gpu"

// Scenario is a machine and what happens on it.
type Scenario struct {
	Seed      uint64
	NUMANodes int
	Steps     []Step
}

// Step is one of its fields: what the plugin reports, a Pod that comes, or one that goes.
type Step struct {
	Report []Device
	Add    *Pod
	Remove string // uid
}

// Device is one that the plugin reports.
type Device struct {
	ID      string
	Healthy bool
	Nodes   []int64
}

// Pod asks for devices.
type Pod struct {
	UID        string
	Init       int // so many of Containers are init containers
	Containers []Container
}

// Container asks for devices of the NUMA nodes that a topology manager chose; none: it chose none.
type Container struct {
	Name     string
	Devices  int64
	Affinity []int
}

// Answer is what came of a step: for each container the hints and the devices, and the error that
// ended it.
type Answer struct {
	Hints, Devices map[string][]string `json:",omitempty"`
	Error          string              `json:",omitempty"`
}

// Recorded are the answers to a scenario.
type Recorded struct {
	Seed    uint64
	Answers []Answer
}

// MakePod is the Pod as the API has it.
func (p Pod) MakePod() *v1.Pod {
	out := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: p.UID, UID: types.UID(p.UID)}}
	for i, c := range p.Containers {
		list := v1.ResourceList{Resource: *resource.NewQuantity(c.Devices, resource.DecimalSI)}
		made := v1.Container{Name: c.Name, Resources: v1.ResourceRequirements{Limits: list, Requests: list}}
		if i < p.Init {
			out.Spec.InitContainers = append(out.Spec.InitContainers, made)
		} else {
			out.Spec.Containers = append(out.Spec.Containers, made)
		}
	}
	return out
}

// Prefer is which devices the plugin of a scenario prefers.
func (s Scenario) Prefer(available, must []string, size int) []string {
	rest := slices.DeleteFunc(slices.Clone(available), func(id string) bool { return slices.Contains(must, id) })
	key := func(id string) uint32 {
		h := fnv.New32a()
		fmt.Fprint(h, s.Seed, id)
		return h.Sum32()
	}
	slices.SortFunc(rest, func(a, b string) int { return cmp.Or(cmp.Compare(key(a), key(b)), cmp.Compare(a, b)) })
	return append(slices.Clone(must), rest[:min(len(rest), size-len(must))]...)
}

// Random is the scenario of a seed.
func Random(seed uint64) Scenario {
	r := rand.New(rand.NewPCG(seed, 8))
	s := Scenario{Seed: seed, NUMANodes: 1 << r.IntN(4)}
	devices := make([]Device, 1+r.IntN(12))
	aligned := r.IntN(4) > 0
	for i := range devices {
		devices[i] = Device{ID: fmt.Sprintf("d%02d", i), Healthy: true}
		for aligned && r.IntN(8) > 0 && len(devices[i].Nodes) < 2 {
			node := int64(r.IntN(s.NUMANodes))
			if !slices.Contains(devices[i].Nodes, node) {
				devices[i].Nodes = append(devices[i].Nodes, node)
			}
			if r.IntN(4) > 0 {
				break
			}
		}
	}
	s.Steps = append(s.Steps, Step{Report: slices.Clone(devices)})
	var live []string
	for i := range 4 + r.IntN(12) {
		switch n := r.IntN(10); {
		case n < 6:
			p := pod(r, s.NUMANodes, i)
			s.Steps, live = append(s.Steps, Step{Add: &p}), append(live, p.UID)
		case n < 8 && len(live) > 0:
			at := r.IntN(len(live))
			s.Steps, live = append(s.Steps, Step{Remove: live[at]}), slices.Delete(live, at, at+1)
		default:
			for j := range devices {
				devices[j].Healthy = r.IntN(6) > 0
			}
			s.Steps = append(s.Steps, Step{Report: slices.Clone(devices)})
		}
	}
	return s
}

func pod(r *rand.Rand, nodes, number int) Pod {
	p := Pod{UID: fmt.Sprint("pod", number), Init: r.IntN(2)}
	asks := int64(1 + r.IntN(3))
	for i := range p.Init + 1 + r.IntN(2) {
		c := Container{Name: fmt.Sprint("c", i), Devices: asks}
		if i >= p.Init {
			c.Devices = asks + int64(r.IntN(3))
		}
		if r.IntN(3) > 0 {
			for n := range nodes {
				if r.IntN(2) == 0 {
					c.Affinity = append(c.Affinity, n)
				}
			}
		}
		p.Containers = append(p.Containers, c)
	}
	return p
}
