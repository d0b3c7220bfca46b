package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	cadvisor "github.com/google/cadvisor/lib/model"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/utils/cpuset"

	"github.com/gantry-project/gantry/test/numascenario"
)

// node is upstream's managers on one machine.
type node struct {
	s        *numascenario.Scenario
	dir      string
	info     *cadvisor.MachineInfo
	topology topologymanager.Manager
	cpu      cpumanager.Manager
	memory   memorymanager.Manager

	mu   sync.Mutex
	pods []*v1.Pod
}

func (n *node) active() []*v1.Pod {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.pods)
}

func (n *node) setPods(f func([]*v1.Pod) []*v1.Pod) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pods = f(n.pods)
}

type always struct{}

func (always) AddSource(string)                            {}
func (always) AllReady() bool                              { return true }
func (always) GetPodStatus(types.UID) (v1.PodStatus, bool) { return v1.PodStatus{}, false }

// answer fills in the answers of a scenario.
func answer(ctx context.Context, s *numascenario.Scenario) error {
	dir, err := os.MkdirTemp("", "numadiff")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	return answerIn(ctx, s, dir)
}

// answerIn is answer with the managers' checkpoints in dir.
func answerIn(ctx context.Context, s *numascenario.Scenario, dir string) error {
	gates := map[string]bool{"CPUManagerPolicyAlphaOptions": true, "PodLevelResourceManagers": s.Settings.PodLevel}
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(gates); err != nil {
		return err
	}
	n := &node{s: s, dir: dir, info: machineInfo(s)}
	if err := n.start(ctx); err != nil {
		return err
	}
	for i := range s.Steps {
		step := &s.Steps[i]
		switch {
		case step.Restart:
			if err := n.start(ctx); err != nil {
				s.Steps = s.Steps[:i] // upstream's kubelet does not start again: there is no more to ask
				return nil
			}
		case step.Add != nil:
			p := step.Add.MakePod()
			n.setPods(func(l []*v1.Pod) []*v1.Pod { return append(l, p) })
			r := n.topology.Admit(ctx, &lifecycle.PodAdmitAttributes{Pod: p, Operation: lifecycle.AddOperation})
			step.Answer.Reason, step.Answer.Message = r.Reason, r.Message
			if !r.Admit {
				n.remove(step.Add.UID)
			}
		default:
			n.remove(step.Remove)
		}
		n.look(&step.Answer)
	}
	return nil
}

func (n *node) remove(uid string) {
	n.setPods(func(l []*v1.Pod) []*v1.Pod {
		return slices.DeleteFunc(l, func(p *v1.Pod) bool { return string(p.UID) == uid })
	})
}

// start makes the managers anew over the checkpoints that are there.
func (n *node) start(ctx context.Context) error {
	logger := klog.Background()
	s := n.s.Settings
	var err error
	if n.topology, err = topologymanager.NewManager(logger, n.info.Topology, s.Topology, s.Scope,
		s.TopologyOptions); err != nil {
		return err
	}
	specific, err := cpuset.Parse(s.ReservedSystemCPUs)
	if err != nil {
		return err
	}
	var total int64
	var reserved []kubeletconfig.MemoryReservation
	for id, bytes := range s.ReservedMemory {
		total += bytes
		reserved = append(reserved, kubeletconfig.MemoryReservation{NumaNode: int32(id),
			Limits: v1.ResourceList{v1.ResourceMemory: *resource.NewQuantity(bytes, resource.BinarySI)}})
	}
	keep := v1.ResourceList{v1.ResourceCPU: *resource.NewQuantity(int64(s.ReservedCPUs), resource.DecimalSI),
		v1.ResourceMemory: *resource.NewQuantity(total, resource.BinarySI)}
	if n.cpu, err = cpumanager.NewManager(logger, s.CPU, s.CPUOptions, time.Hour, n.info, specific, keep, n.dir,
		n.topology); err != nil {
		return err
	}
	n.topology.AddHintProvider(logger, n.cpu)
	if n.memory, err = memorymanager.NewManager(logger, s.Memory, n.info, keep, reserved, n.dir, n.topology); err !=
		nil {
		return err
	}
	n.topology.AddHintProvider(logger, n.memory)
	if err := n.cpu.Start(ctx, n.active, always{}, always{}, nil, containermap.NewContainerMap()); err != nil {
		return err
	}
	return n.memory.Start(ctx, n.active, always{}, always{}, nil, containermap.NewContainerMap())
}

// look reads who has what, after what is gone was taken back.
func (n *node) look(a *numascenario.Answer) {
	logger := klog.Background()
	none := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{}}}}
	n.cpu.GetTopologyHints(logger, none, &none.Spec.Containers[0], lifecycle.AddOperation)
	n.memory.GetTopologyHints(logger, none, &none.Spec.Containers[0], lifecycle.AddOperation)
	a.CPUs, a.Memory, a.Free = map[string]string{}, map[string]string{}, map[string]string{}
	a.Default = n.cpu.State().GetDefaultCPUSet().String()
	for uid, list := range n.cpu.State().GetCPUAssignments() {
		for name, set := range list {
			a.CPUs[uid+"/"+name] = set.String()
		}
	}
	for uid, list := range n.memory.State().GetMemoryAssignments() {
		for name, blocks := range list {
			var texts []string
			for _, b := range blocks {
				texts = append(texts, fmt.Sprint(b.Type, " ", b.Size, " ", b.NUMAAffinity))
			}
			slices.Sort(texts)
			a.Memory[uid+"/"+name] = strings.Join(texts, ", ")
		}
	}
	for id, m := range n.memory.State().GetMachineState() {
		for kind, t := range m.MemoryMap {
			a.Free[fmt.Sprint(id, "/", kind)] = fmt.Sprint(t.Free, " ", m.NumberOfAssignments, " ", m.Cells)
		}
	}
}

// machineInfo is the machine as cadvisor describes it.
func machineInfo(s *numascenario.Scenario) *cadvisor.MachineInfo {
	info := s.Shape.Machine()
	top := info.Topology()
	out := &cadvisor.MachineInfo{NumCores: top.NumCPUs, NumSockets: top.NumSockets}
	for _, node := range info.Nodes {
		c := cadvisor.Node{Id: node.ID, Memory: node.Memory, Distances: node.Distances}
		for _, h := range node.HugePages {
			c.HugePages = append(c.HugePages, cadvisor.HugePagesInfo{PageSize: h.PageSize, NumPages: h.Count})
		}
		for _, core := range node.Cores {
			made := cadvisor.Core{Id: core.ID, SocketID: core.Socket, Threads: core.Threads}
			if core.UncoreCache != nil {
				made.UncoreCaches = []cadvisor.Cache{{Id: *core.UncoreCache, Level: 3}}
			}
			c.Cores = append(c.Cores, made)
		}
		out.Topology = append(out.Topology, c)
	}
	return out
}
