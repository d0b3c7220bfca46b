// Package numascenario holds histories of Pods on machines with CPU, memory and topology manager:
// what upstream's managers are asked (hack/numadiff records their answers) and ours (a test of
// containermanager replays them).
//
// In: a seed, or the file of recorded answers. Out: scenarios, and Pods made from them. To add a
// kind of Pod or a setting: Random, and a new recording.
package numascenario

import (
	"fmt"
	"math/rand"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/kubelet/machine"
	"github.com/gantry-project/gantry/internal/kubelet/machine/machinetest"
)

// Scenario is one node's history.
type Scenario struct {
	Shape    machinetest.Shape
	Settings Settings
	Steps    []Step
}

// Settings are the fields of KubeletConfiguration that bear on it.
type Settings struct {
	CPU, Memory, Topology, Scope string // policies and topologyManagerScope
	CPUOptions, TopologyOptions  map[string]string
	ReservedSystemCPUs           string
	ReservedCPUs                 int
	ReservedMemory               map[int]int64 // bytes by node
	PodLevel                     bool          // the gate PodLevelResourceManagers
}

// Step is a Pod that comes or goes, or a restart of the kubelet.
type Step struct {
	Add     *Pod   `json:",omitempty"`
	Remove  string `json:",omitempty"` // uid
	Restart bool   `json:",omitempty"`
	Answer  Answer
}

// Pod is what a Pod asks for.
type Pod struct {
	UID        string
	CPU, MiB   int64 `json:",omitempty"` // of the Pod as a whole: milli-CPUs and MiB; 0: only of containers
	Containers []Container
}

// Container is what a container asks for; kind 0 is an app container, 1 an init container, 2 a
// sidecar.
type Container struct {
	Kind          int   `json:",omitempty"`
	CPU, MiB      int64 `json:",omitempty"` // milli-CPUs and MiB
	Huge          int64 `json:",omitempty"` // 2 MiB pages
	NotGuaranteed bool  `json:",omitempty"` // it has requests only
}

// Answer is what came of a step: the refusal, if any, and who has what afterwards.
type Answer struct {
	Reason, Message string            `json:",omitempty"`
	Default         string            `json:",omitempty"` // CPUs of the shared pool
	CPUs            map[string]string `json:",omitempty"` // by uid/container
	Memory          map[string]string `json:",omitempty"` // by uid/container: kind, bytes and nodes
	Free            map[string]string `json:",omitempty"` // by node/kind: bytes free, assignments and cells
}

// MakePod is the Pod of an API server.
func (p Pod) MakePod() *v1.Pod {
	out := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: p.UID, Namespace: "default", UID: types.UID(p.UID)}}
	if p.CPU > 0 || p.MiB > 0 {
		list := v1.ResourceList{v1.ResourceCPU: *resource.NewMilliQuantity(p.CPU, resource.DecimalSI),
			v1.ResourceMemory: *resource.NewQuantity(p.MiB<<20, resource.BinarySI)}
		out.Spec.Resources = &v1.ResourceRequirements{Requests: list, Limits: list}
	}
	always := v1.ContainerRestartPolicyAlways
	for i, c := range p.Containers {
		list := v1.ResourceList{}
		if c.CPU > 0 {
			list[v1.ResourceCPU] = *resource.NewMilliQuantity(c.CPU, resource.DecimalSI)
		}
		if c.MiB > 0 {
			list[v1.ResourceMemory] = *resource.NewQuantity(c.MiB<<20, resource.BinarySI)
		}
		if c.Huge > 0 {
			list["hugepages-2Mi"] = *resource.NewQuantity(c.Huge<<21, resource.BinarySI)
		}
		made := v1.Container{Name: fmt.Sprintf("c%d", i), Resources: v1.ResourceRequirements{Requests: list,
			Limits: list}}
		if c.NotGuaranteed {
			made.Resources.Limits = nil
		}
		switch c.Kind {
		case 2:
			made.RestartPolicy = &always
			fallthrough
		case 1:
			out.Spec.InitContainers = append(out.Spec.InitContainers, made)
		default:
			out.Spec.Containers = append(out.Spec.Containers, made)
		}
	}
	return out
}

// Random is the scenario of a seed.
func Random(seed int64) Scenario {
	r := rand.New(rand.NewSource(seed))
	s := Scenario{Shape: shape(r)}
	s.Settings = settings(r, s.Shape)
	top := s.Shape.Machine().Topology()
	var there []string
	for i := range 6 + r.Intn(10) {
		switch n := r.Intn(10); {
		case n < 7 || len(there) == 0:
			p := pod(r, top, s)
			p.UID = fmt.Sprintf("p%d", i)
			s.Steps = append(s.Steps, Step{Add: &p})
			there = append(there, p.UID)
		case n < 9:
			k := r.Intn(len(there))
			s.Steps = append(s.Steps, Step{Remove: there[k]})
			there = append(there[:k], there[k+1:]...)
		default:
			s.Steps = append(s.Steps, Step{Restart: true})
		}
	}
	return s
}

func shape(r *rand.Rand) machinetest.Shape {
	s := machinetest.Shape{Sockets: 1 + r.Intn(2), NodesPerSocket: []int{1, 1, 2, 4}[r.Intn(4)],
		CoresPerNode: 1 + r.Intn(8), Threads: 1 + r.Intn(2), MemoryPerNode: uint64(1+r.Intn(16)) << 30,
		Siblings: r.Intn(3) == 0}
	if r.Intn(3) == 0 {
		s.CoresPerNode = []int{4, 6, 8, 16}[r.Intn(4)]
		s.CoresPerUncore = []int{2, 4}[r.Intn(2)]
	}
	if r.Intn(2) == 0 {
		s.HugePages = []machine.HugePages{{PageSize: 2048, Count: uint64(r.Intn(200))}}
	}
	return s
}

func settings(r *rand.Rand, shape machinetest.Shape) Settings {
	top := shape.Machine().Topology()
	s := Settings{CPU: "static", Memory: []string{"None", "Static"}[r.Intn(2)],
		Topology: []string{"none", "best-effort", "restricted", "single-numa-node"}[r.Intn(4)],
		Scope:    []string{"container", "pod"}[r.Intn(2)], CPUOptions: map[string]string{},
		PodLevel: r.Intn(4) == 0, ReservedCPUs: 1 + r.Intn(max(1, top.NumCPUs/4)), ReservedMemory: map[int]int64{}}
	sets := [][]string{{}, {}, {"full-pcpus-only"}, {"distribute-cpus-across-numa"}, {"distribute-cpus-across-cores"},
		{"full-pcpus-only", "distribute-cpus-across-numa"}, {"prefer-align-cpus-by-uncorecache"},
		{"full-pcpus-only", "prefer-align-cpus-by-uncorecache"}, {"strict-cpu-reservation"}}
	if s.Topology != "single-numa-node" && top.NumSockets <= top.NumNodes {
		sets = append(sets, []string{"align-by-socket"}, []string{"align-by-socket", "distribute-cpus-across-numa"})
	}
	for _, o := range sets[r.Intn(len(sets))] {
		s.CPUOptions[o] = "true"
	}
	if s.Topology != "none" && r.Intn(2) == 0 {
		s.TopologyOptions = map[string]string{"prefer-closest-numa-nodes": "true"}
	}
	if r.Intn(3) == 0 {
		s.ReservedSystemCPUs = fmt.Sprintf("%d-%d", 0, s.ReservedCPUs-1)
	}
	for node := range top.NumNodes {
		if node == 0 || r.Intn(2) == 0 {
			s.ReservedMemory[node] = int64(1+r.Intn(512)) << 20
		}
	}
	return s
}

func pod(r *rand.Rand, top machine.Topology, s Scenario) Pod {
	var p Pod
	perNode := max(1, top.NumCPUs/top.NumNodes)
	container := func(kind int) Container {
		c := Container{Kind: kind, CPU: int64(1000 * (1 + r.Intn(perNode+perNode/2+1))), MiB: int64(64 * (1 +
			r.Intn(64)))}
		switch r.Intn(12) {
		case 0:
			c.CPU += 500
		case 1:
			c.CPU = int64(1000 * (1 + r.Intn(top.NumCPUs)))
			c.MiB = int64(s.Shape.MemoryPerNode>>20) * 3 / 2
		case 2:
			c.NotGuaranteed = true
		}
		if len(s.Shape.HugePages) > 0 && r.Intn(4) == 0 {
			c.Huge = int64(1 + r.Intn(100))
		}
		return c
	}
	for range r.Intn(3) {
		p.Containers = append(p.Containers, container(1+r.Intn(2)))
	}
	for range 1 + r.Intn(2) {
		p.Containers = append(p.Containers, container(0))
	}
	if s.Settings.PodLevel && r.Intn(2) == 0 {
		for i := range p.Containers {
			c := &p.Containers[i]
			c.Huge = 0
			p.CPU += c.CPU
			p.MiB += c.MiB
			if r.Intn(3) == 0 {
				*c = Container{Kind: c.Kind}
			}
		}
		if p.CPU%1000 != 0 && r.Intn(2) == 0 {
			p.CPU += 500
		}
	}
	return p
}

// Recorded are upstream's answers in the scenario of a seed, one for each step.
type Recorded struct {
	Seed    int64
	Answers []Answer
}

// Answers are the answers of all steps.
func (s Scenario) Answers() []Answer {
	out := make([]Answer, len(s.Steps))
	for i, step := range s.Steps {
		out[i] = step.Answer
	}
	return out
}
