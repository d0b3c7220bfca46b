package stats

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/gantry-project/gantry/internal/pod/usage"
)

// Summary is the snapshot as /stats/summary tells it.
func (s *Snapshot) Summary() *statsapi.Summary {
	out := &statsapi.Summary{Node: s.node(), Pods: []statsapi.PodStats{}}
	for i := range s.Pods {
		out.Pods = append(out.Pods, s.pod(&s.Pods[i]))
	}
	return out
}

func (s *Snapshot) node() statsapi.NodeStats {
	n, now := s.Node, metav1.NewTime(s.Node.At)
	out := statsapi.NodeStats{
		NodeName: s.NodeName, StartTime: metav1.NewTime(s.Started),
		CPU: &statsapi.CPUStats{Time: now, UsageCoreNanoSeconds: &n.CPUNanos, UsageNanoCores: n.Rate,
			PSI: psi(n.Pressure.CPU)},
		Memory: &statsapi.MemoryStats{
			Time: now, AvailableBytes: &n.MemoryAvailable, UsageBytes: &n.MemoryUsed, WorkingSetBytes: &n.WorkingSet,
			RSSBytes:   &n.MemoryRSS,
			PageFaults: &n.Faults, MajorPageFaults: &n.MajorFaults, PSI: psi(n.Pressure.Memory),
		},
		Swap:   swap(now, n.Swap, n.SwapTotal),
		Rlimit: &statsapi.RlimitStats{Time: now, MaxPID: &n.MaxProcesses, NumOfRunningProcesses: &n.Processes},
		Fs:     disk(now, n.Disk),
	}
	if p := psi(n.Pressure.IO); p != nil {
		out.IO = &statsapi.IOStats{Time: now, PSI: p}
	}
	if n.Images != nil {
		out.Runtime = &statsapi.RuntimeStats{ImageFs: disk(now, n.Images), ContainerFs: disk(now, n.Containers)}
	}
	if len(n.Interfaces) > 0 {
		out.Network = network(now, n.Interfaces, n.DefaultInterface)
	}
	for _, x := range s.System {
		c := systemContainer(x.Name, x.Tier)
		if x.Path == "/" { // the root's files say little; the machine's own say all
			c.CPU, c.Memory = out.CPU, out.Memory
		}
		out.SystemContainers = append(out.SystemContainers, c)
	}
	for _, t := range s.Tiers {
		if isPods(t.Path) {
			out.SystemContainers = append(out.SystemContainers, systemContainer("pods", t))
		}
	}
	return out
}

// isPods tells whether a tier is the one that holds all Pods: kubepods, or kubepods.slice with
// systemd.
func isPods(path string) bool {
	for i := len(path) - 1; i >= 0; i-- {
		if path[i] == '/' || path[i] == '-' {
			name := path[i+1:]
			return name == "kubepods" || name == "kubepods.slice"
		}
	}
	return false
}

func systemContainer(name string, t Tier) statsapi.ContainerStats {
	m := CgroupUsage{Path: t.Path, Use: &t.Use, Rate: t.Rate}
	return statsapi.ContainerStats{Name: name, StartTime: metav1.NewTime(t.Use.Created), CPU: m.cpu(),
		Memory: m.memory()}
}

func (s *Snapshot) pod(p *Pod) statsapi.PodStats {
	out := statsapi.PodStats{
		PodRef:    statsapi.PodReference{Name: p.Name, Namespace: p.Namespace, UID: p.UID},
		StartTime: metav1.NewTime(p.Started),
		CPU:       p.Measured.cpu(), Memory: p.Measured.memory(), IO: p.Measured.io(), Swap: p.Measured.swap(),
		Containers: []statsapi.ContainerStats{},
	}
	if u := p.Measured.Use; u != nil && u.Processes > 0 {
		out.ProcessStats = &statsapi.ProcessStats{ProcessCount: &u.Processes}
	}
	if len(p.Interfaces) > 0 {
		out.Network = network(metav1.NewTime(p.InterfacesAt), p.Interfaces, "eth0")
	}
	for i := range p.Containers {
		out.Containers = append(out.Containers, s.container(&p.Containers[i]))
	}
	now := metav1.NewTime(s.Node.At)
	for _, v := range p.Volumes {
		vs := statsapi.VolumeStats{Name: v.Name, FsStats: *disk(metav1.NewTime(v.At), &v.Disk)}
		vs.InodesUsed = &v.Inodes
		if v.Claim != "" {
			vs.PVCRef = &statsapi.PVCReference{Name: v.Claim, Namespace: p.Namespace}
		}
		out.VolumeStats = append(out.VolumeStats, vs)
	}
	if s.Node.Disk != nil {
		out.EphemeralStorage = p.ephemeral(now, s.Node.Disk)
	}
	return out
}

func (s *Snapshot) container(c *Container) statsapi.ContainerStats {
	out := statsapi.ContainerStats{
		Name: c.Name, StartTime: metav1.NewTime(c.Created), CPU: c.Measured.cpu(), Memory: c.Measured.memory(),
		IO: c.Measured.io(), Swap: c.Measured.swap(),
	}
	now := metav1.NewTime(s.Node.At)
	if c.Layer != nil {
		out.Rootfs = partOf(now, s.Node.Containers, *c.Layer)
	}
	if c.Logs != nil {
		out.Logs = partOf(now, s.Node.Disk, *c.Logs)
	}
	return out
}

// ephemeral is what the Pod takes of the node's disk: layers, logs, volumes that end with it.
func (p *Pod) ephemeral(now metav1.Time, of *usage.Disk) *statsapi.FsStats {
	sum := p.Logs
	for _, c := range p.Containers {
		if c.Layer != nil {
			sum.Bytes += c.Layer.Bytes
			sum.Inodes += c.Layer.Inodes
		}
	}
	for _, v := range p.Volumes {
		if v.Ephemeral {
			sum.Bytes += v.Disk.Used
			sum.Inodes += v.Inodes
		}
	}
	return partOf(now, of, sum)
}

func (m CgroupUsage) cpu() *statsapi.CPUStats {
	if m.Use == nil {
		return nil
	}
	return &statsapi.CPUStats{Time: metav1.NewTime(m.Use.At), UsageCoreNanoSeconds: &m.Use.CPU.Nanos,
		UsageNanoCores: m.Rate, PSI: psi(m.Use.Pressure.CPU)}
}

func (m CgroupUsage) memory() *statsapi.MemoryStats {
	if m.Use == nil {
		return nil
	}
	x := &m.Use.Memory
	out := &statsapi.MemoryStats{
		Time: metav1.NewTime(m.Use.At), UsageBytes: &x.Bytes, WorkingSetBytes: &x.WorkingSet, RSSBytes: &x.RSS,
		PageFaults: &x.Faults, MajorPageFaults: &x.MajorFaults,
		PSI: psi(m.Use.Pressure.Memory),
	}
	if limit := m.Use.Limits.Memory; limit > 0 {
		available := subtract(limit, x.WorkingSet)
		out.AvailableBytes = &available
	}
	return out
}

func (m CgroupUsage) io() *statsapi.IOStats {
	if m.Use == nil || m.Use.Pressure.IO == nil {
		return nil
	}
	return &statsapi.IOStats{Time: metav1.NewTime(m.Use.At), PSI: psi(m.Use.Pressure.IO)}
}

func (m CgroupUsage) swap() *statsapi.SwapStats {
	if m.Use == nil {
		return nil
	}
	out := &statsapi.SwapStats{Time: metav1.NewTime(m.Use.At), SwapUsageBytes: &m.Use.Memory.Swap}
	if l := m.Use.Limits; l.HasSwap {
		available := subtract(l.Swap, m.Use.Memory.Swap)
		out.SwapAvailableBytes = &available
	}
	return out
}

func swap(now metav1.Time, used, total uint64) *statsapi.SwapStats {
	available := subtract(total, used)
	return &statsapi.SwapStats{Time: now, SwapUsageBytes: &used, SwapAvailableBytes: &available}
}

func psi(s *usage.Stalls) *statsapi.PSIStats {
	if s == nil {
		return nil
	}
	data := func(x usage.Stall) statsapi.PSIData {
		return statsapi.PSIData{Total: x.TotalMicros * uint64(time.Microsecond), Avg10: x.Avg10, Avg60: x.Avg60,
			Avg300: x.Avg300}
	}
	return &statsapi.PSIStats{Full: data(s.Full), Some: data(s.Some)}
}

func disk(now metav1.Time, d *usage.Disk) *statsapi.FsStats {
	if d == nil {
		return nil
	}
	used := d.Inodes - d.InodesFree
	return &statsapi.FsStats{
		Time: now, AvailableBytes: &d.Available, CapacityBytes: &d.Capacity, UsedBytes: &d.Used,
		InodesFree: &d.InodesFree, Inodes: &d.Inodes, InodesUsed: &used,
	}
}

// partOf is a part of a file system; which one, may not be known.
func partOf(now metav1.Time, of *usage.Disk, part usage.Space) *statsapi.FsStats {
	out := &statsapi.FsStats{Time: now, UsedBytes: &part.Bytes, InodesUsed: &part.Inodes}
	if of != nil {
		out.AvailableBytes, out.CapacityBytes, out.Inodes, out.InodesFree = &of.Available, &of.Capacity, &of.Inodes,
			&of.InodesFree
	}
	return out
}

// network tells of all interfaces, and of the named one (or else the first) as the default.
func network(now metav1.Time, list []usage.NetworkInterface, main string) *statsapi.NetworkStats {
	out := &statsapi.NetworkStats{Time: now}
	for i := range list {
		c := &list[i]
		one := statsapi.InterfaceStats{Name: c.Name, RxBytes: &c.RxBytes, RxErrors: &c.RxErrors, TxBytes: &c.TxBytes,
			TxErrors: &c.TxErrors}
		if i == 0 || c.Name == main {
			out.InterfaceStats = one
		}
		out.Interfaces = append(out.Interfaces, one)
	}
	return out
}
