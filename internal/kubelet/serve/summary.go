package serve

import (
	"net/http"
	"sort"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// summary answers /stats/summary: the node as Usage measures it, Pods and containers as the runtime does.
func (s *Server) summary(w http.ResponseWriter, r *http.Request) {
	if s.o.Stats != nil {
		out, err := s.o.Stats.Summary(r.Context(), r.FormValue("only_cpu_and_memory") == "true")
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		writeJSON(w, out)
		return
	}
	out := statsapi.Summary{Node: statsapi.NodeStats{NodeName: s.o.NodeName}, Pods: []statsapi.PodStats{}}
	if s.o.Usage != nil {
		n, err := s.o.Usage.Node(r.Context())
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		n.NodeName = s.o.NodeName
		out.Node = n
	}
	list, err := s.o.Runtime.ListPodSandboxStats(r.Context(), nil)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	brief := r.FormValue("only_cpu_and_memory") == "true"
	for _, p := range list {
		st := podStats(p)
		if brief {
			st.Network, st.EphemeralStorage, st.ProcessStats = nil, nil, nil
			for i := range st.Containers {
				st.Containers[i].Rootfs, st.Containers[i].Logs = nil, nil
			}
		}
		out.Pods = append(out.Pods, st)
	}
	sort.Slice(out.Pods, func(a, b int) bool {
		x, y := out.Pods[a].PodRef, out.Pods[b].PodRef
		return x.Namespace < y.Namespace || x.Namespace == y.Namespace && x.Name < y.Name
	})
	writeJSON(w, out)
}

func podStats(p *runtimeapi.PodSandboxStats) statsapi.PodStats {
	m, l := p.GetAttributes().GetMetadata(), p.GetLinux()
	out := statsapi.PodStats{
		PodRef: statsapi.PodReference{Name: m.GetName(), Namespace: m.GetNamespace(), UID: m.GetUid()},
		CPU:    cpu(l.GetCpu()), Memory: memory(l.GetMemory()), Containers: []statsapi.ContainerStats{},
	}
	if n := l.GetNetwork(); n != nil {
		out.Network = &statsapi.NetworkStats{Time: at(n.Timestamp), InterfaceStats: card(n.DefaultInterface)}
		for _, i := range n.Interfaces {
			out.Network.Interfaces = append(out.Network.Interfaces, card(i))
		}
	}
	if n := l.GetProcess().GetProcessCount(); n != nil {
		out.ProcessStats = &statsapi.ProcessStats{ProcessCount: &n.Value}
	}
	for _, c := range l.GetContainers() {
		cs := statsapi.ContainerStats{Name: c.GetAttributes().GetMetadata().GetName(), CPU: cpu(c.Cpu), Memory: memory(c.Memory)}
		if name := c.GetAttributes().GetLabels()[labelContainer]; name != "" {
			cs.Name = name
		}
		if l := c.GetWritableLayer(); l != nil {
			cs.Rootfs = &statsapi.FsStats{Time: at(l.Timestamp), UsedBytes: number(l.UsedBytes), InodesUsed: number(l.InodesUsed)}
		}
		out.Containers = append(out.Containers, cs)
	}
	return out
}

func cpu(c *runtimeapi.CpuUsage) *statsapi.CPUStats {
	if c == nil {
		return nil
	}
	return &statsapi.CPUStats{Time: at(c.Timestamp), UsageCoreNanoSeconds: number(c.UsageCoreNanoSeconds), UsageNanoCores: number(c.UsageNanoCores)}
}

func memory(m *runtimeapi.MemoryUsage) *statsapi.MemoryStats {
	if m == nil {
		return nil
	}
	return &statsapi.MemoryStats{
		Time: at(m.Timestamp), AvailableBytes: number(m.AvailableBytes), UsageBytes: number(m.UsageBytes), WorkingSetBytes: number(m.WorkingSetBytes),
		RSSBytes: number(m.RssBytes), PageFaults: number(m.PageFaults), MajorPageFaults: number(m.MajorPageFaults),
	}
}

func card(n *runtimeapi.NetworkInterfaceUsage) statsapi.InterfaceStats {
	return statsapi.InterfaceStats{
		Name: n.GetName(), RxBytes: number(n.GetRxBytes()), RxErrors: number(n.GetRxErrors()), TxBytes: number(n.GetTxBytes()), TxErrors: number(n.GetTxErrors()),
	}
}

func at(nanos int64) metav1.Time { return metav1.NewTime(time.Unix(0, nanos)) }

func number(v *runtimeapi.UInt64Value) *uint64 {
	if v == nil {
		return nil
	}
	return &v.Value
}
