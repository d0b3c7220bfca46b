package stats

import (
	"strconv"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/gantry-project/gantry/internal/pod/usage"
)

// subject is one cgroup as cAdvisor's metrics speak of it.
type subject struct {
	labels     labels // container, id, image, name, namespace, pod
	use        *usage.Cgroup
	created    time.Time
	layer      *usage.Space // of containers
	disk       *usage.Disk  // the file system the layer is on; of the root, the node's
	interfaces []usage.NetworkInterface
}

// Cadvisor is /metrics/cadvisor: cAdvisor's names and labels as upstream's kubelet serves them. A
// nil snapshot says that measuring failed.
func Cadvisor(s *Snapshot) []*dto.MetricFamily {
	if s == nil {
		return []*dto.MetricFamily{
			family("container_scrape_error", "1 if there was an error while getting container metrics, 0 otherwise",
				gauge, []point{{value: 1}}),
			family("machine_scrape_error", "1 if there was an error while getting machine metrics, 0 otherwise.", gauge,
				[]point{{value: 1}}),
		}
	}
	m := s.Machine
	out := []*dto.MetricFamily{family("cadvisor_version_info",
		"A metric with a constant '1' value labeled by kernel version, OS version, docker version, cadvisor version "+
			"& cadvisor revision.", gauge,
		[]point{{labels: labels{"cadvisorRevision", "", "cadvisorVersion", "", "dockerVersion", "",
			"kernelVersion", m.Kernel, "osVersion", m.OS}, value: 1}})}
	subjects := s.subjects()
	for _, r := range cadvisorRows() {
		var points []point
		for _, x := range subjects {
			for _, p := range r.read(x) {
				if !r.untimed {
					p.at = x.use.At
				}
				p.labels = merge(x.labels, p.labels)
				points = append(points, p)
			}
		}
		out = append(out, family(r.name, r.help, r.kind, points))
	}
	out = append(out,
		family("container_scrape_error", "1 if there was an error while getting container metrics, 0 otherwise", gauge,
			[]point{{value: 0}}))
	return append(out, m.families()...)
}

// merge puts a metric's own labels among those of its subject, sorted by name.
func merge(of, own labels) labels {
	out := make(labels, 0, len(of)+len(own))
	for len(of) > 0 || len(own) > 0 {
		if len(own) == 0 || len(of) > 0 && of[0] < own[0] {
			out, of = append(out, of[0], of[1]), of[2:]
		} else {
			out, own = append(out, own[0], own[1]), own[2:]
		}
	}
	return out
}

// subjects are the cgroups from the root down. What the runtime measured has no cgroup, and a path
// that is made of what is known.
func (s *Snapshot) subjects() []subject {
	var out []subject
	for i := range s.Tiers {
		t := &s.Tiers[i]
		x := subject{labels: identityLabels(t.Path, Container{}, nil), use: &t.Use, created: t.Use.Created}
		if t.Path == "/" {
			use := t.Use // the root's files say little; the machine's own say all
			use.CPU.Nanos, use.Memory.Bytes, use.Memory.WorkingSet, use.Memory.RSS = s.Node.CPUNanos, s.Node.MemoryUsed,
				s.Node.WorkingSet, s.Node.MemoryRSS
			use.Memory.Swap, use.Pressure = s.Node.Swap, s.Node.Pressure
			x.use, x.disk, x.interfaces, x.created = &use, s.Node.Disk, s.Node.Interfaces, s.Started
			x.use.Limits.Memory = s.Machine.MemoryBytes
			if len(use.Devices) == 0 { // kernels with cgroup v1 may count disks for no cgroup at all
				use.Devices = s.Node.Devices
			}
		}
		out = append(out, x)
	}
	for i := range s.Pods {
		p := &s.Pods[i]
		if m := p.Measured; m.Use != nil {
			out = append(out, subject{labels: identityLabels(orPath(m.Path, p.UID), Container{}, p), use: m.Use,
				created: p.Started})
			sandbox := p.Sandbox.Measured
			if sandbox.Use == nil {
				sandbox = CgroupUsage{Path: orPath(m.Path, p.UID) + "/" + p.Sandbox.ID,
					Use: &usage.Cgroup{At: m.Use.At, CPU: usage.CPU{QuotaMicros: -1}}}
			}
			out = append(out, subject{labels: identityLabels(sandbox.Path, Container{ID: p.Sandbox.ID}, p),
				use: sandbox.Use, created: p.Sandbox.Created, interfaces: p.Interfaces})
		}
		for j := range p.Containers {
			c := &p.Containers[j]
			if m := c.Measured; m.Use != nil {
				out = append(out, subject{labels: identityLabels(orPath(m.Path, p.UID+"/"+c.ID), *c, p), use: m.Use,
					created: c.Created, layer: c.Layer, disk: s.Node.Containers})
			}
		}
	}
	return out
}

func orPath(path, otherwise string) string {
	if path != "" {
		return path
	}
	return "/pod" + otherwise
}

func identityLabels(path string, c Container, p *Pod) labels {
	l := labels{"container", c.Name, "id", path, "image", c.Image, "name", c.ID, "namespace", "", "pod", ""}
	if p != nil {
		l[9], l[11] = p.Namespace, p.Name
	}
	return l
}

// families are the machine's.
func (m Machine) families() []*dto.MetricFamily {
	l := labels{"boot_id", m.BootID, "machine_id", m.ID, "system_uuid", m.SystemUUID}
	one := func(name, help string, v float64) *dto.MetricFamily {
		return family(name, help, gauge, []point{{labels: l, value: v}})
	}
	return []*dto.MetricFamily{
		one("machine_cpu_cores", "Number of logical CPU cores.", float64(m.CPUs)),
		one("machine_cpu_physical_cores", "Number of physical CPU cores.", float64(m.Cores)),
		one("machine_cpu_sockets", "Number of CPU sockets.", float64(m.Sockets)),
		one("machine_memory_bytes", "Amount of memory installed on the machine.", float64(m.MemoryBytes)),
		one("machine_swap_bytes", "Amount of swap memory available on the machine.", float64(m.SwapBytes)),
		family("machine_scrape_error", "1 if there was an error while getting machine metrics, 0 otherwise.", gauge,
			[]point{{value: 0}}),
	}
}

// deviceName is /dev/sda, or major:minor when the kernel does not tell.
func deviceName(d usage.Device) string {
	if d.Name != "" {
		return d.Name
	}
	return strconv.FormatUint(d.Major, 10) + ":" + strconv.FormatUint(d.Minor, 10)
}
