package stats

import (
	"context"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/gantry-project/gantry/internal/pod/usage"
)

// measureFromRuntime has the runtime measure the Pods whose cgroups cannot be read.
func (c *Collector) measureFromRuntime(ctx context.Context, pods []Pod) error {
	list, err := c.d.Runtime.ListPodSandboxStats(ctx, nil)
	if err != nil {
		return err
	}
	by := map[string]*runtimeapi.PodSandboxStats{}
	for _, s := range list {
		by[s.GetAttributes().GetId()] = s
	}
	for i := range pods {
		p := &pods[i]
		s := by[p.Sandbox.ID]
		if p.Measured.Use != nil || s == nil {
			continue
		}
		linux := s.GetLinux()
		p.Measured = usageFromRuntime(linux.GetCpu(), linux.GetMemory())
		if n := linux.GetProcess().GetProcessCount(); n != nil && p.Measured.Use != nil {
			p.Measured.Use.Processes = n.Value
		}
		if n := linux.GetNetwork(); n != nil && !p.HostNetwork {
			p.InterfacesAt = time.Unix(0, n.Timestamp)
			p.Interfaces = networkInterfaces(n)
		}
		for _, x := range linux.GetContainers() {
			for j := range p.Containers {
				if p.Containers[j].ID == x.GetAttributes().GetId() {
					p.Containers[j].Measured = usageFromRuntime(x.GetCpu(), x.GetMemory())
				}
			}
		}
	}
	return nil
}

// usageFromRuntime turns the runtime's numbers into a cgroup's.
func usageFromRuntime(cpu *runtimeapi.CpuUsage, memory *runtimeapi.MemoryUsage) CgroupUsage {
	if cpu == nil && memory == nil {
		return CgroupUsage{}
	}
	at := max(cpu.GetTimestamp(), memory.GetTimestamp())
	u := &usage.Cgroup{At: time.Unix(0, at)}
	u.CPU = usage.CPU{Nanos: cpu.GetUsageCoreNanoSeconds().GetValue(), QuotaMicros: -1}
	u.Memory = usage.Memory{
		Bytes: memory.GetUsageBytes().GetValue(), WorkingSet: memory.GetWorkingSetBytes().GetValue(),
		RSS:    memory.GetRssBytes().GetValue(),
		Faults: memory.GetPageFaults().GetValue(), MajorFaults: memory.GetMajorPageFaults().GetValue(),
	}
	if available := memory.GetAvailableBytes().GetValue(); available > 0 {
		u.Limits.Memory = available + u.Memory.WorkingSet
	}
	m := CgroupUsage{Use: u}
	if n := cpu.GetUsageNanoCores(); n != nil {
		m.Rate = &n.Value
	}
	return m
}

func networkInterfaces(n *runtimeapi.NetworkUsage) []usage.NetworkInterface {
	var out []usage.NetworkInterface
	for _, i := range append([]*runtimeapi.NetworkInterfaceUsage{n.DefaultInterface}, n.Interfaces...) {
		if i == nil || len(out) > 0 && out[0].Name == i.Name {
			continue
		}
		out = append(out, usage.NetworkInterface{
			Name: i.Name, RxBytes: i.GetRxBytes().GetValue(), RxErrors: i.GetRxErrors().GetValue(),
			TxBytes: i.GetTxBytes().GetValue(), TxErrors: i.GetTxErrors().GetValue(),
		})
	}
	return out
}
