package stats

import (
	dto "github.com/prometheus/client_model/go"

	"github.com/gantry-project/gantry/internal/pod/usage"
)

// cadvisorRow is one metric of /metrics/cadvisor.
type cadvisorRow struct {
	name, help string
	kind       dto.MetricType
	read       func(subject) []point
	untimed    bool
}

// number is a row with one value per cgroup.
func number(name, help string, kind dto.MetricType, f func(*usage.Cgroup) float64) cadvisorRow {
	return cadvisorRow{name: name, help: help, kind: kind,
		read: func(x subject) []point { return []point{{value: f(x.use)}} }}
}

// optionalNumber is a row of cgroups that have the number.
func optionalNumber(name, help string, kind dto.MetricType, f func(*usage.Cgroup) (float64, bool)) cadvisorRow {
	return cadvisorRow{name: name, help: help, kind: kind, read: func(x subject) []point {
		if v, ok := f(x.use); ok {
			return []point{{value: v}}
		}
		return nil
	}}
}

func bytes(name, help string, f func(*usage.Memory) uint64) cadvisorRow {
	return number(name, help, gauge, func(c *usage.Cgroup) float64 { return float64(f(&c.Memory)) })
}

func cadvisorRows() []cadvisorRow {
	var out []cadvisorRow
	for _, rows := range [][]cadvisorRow{cpuRows(), memoryRows(), diskRows(), networkRows(), specRows(),
		pressureRows()} {
		out = append(out, rows...)
	}
	return append(out,
		cadvisorRow{name: "container_start_time_seconds",
			help: "Start time of the container since unix epoch in seconds.", kind: gauge,
			read: func(x subject) []point {
				return []point{{value: float64(x.created.Unix())}}
			}},
		cadvisorRow{name: "container_last_seen", help: "Last time a container was seen by the exporter", kind: gauge,
			read: func(x subject) []point {
				return []point{{value: float64(x.use.At.Unix())}}
			}},
		number("container_processes", "Number of processes running inside the container.", gauge,
			func(c *usage.Cgroup) float64 { return float64(c.Processes) }),
		number("container_threads", "Number of threads running inside the container", gauge,
			func(c *usage.Cgroup) float64 { return float64(c.Threads) }),
		number("container_threads_max",
			"Maximum number of threads allowed inside the container, infinity if value is zero", gauge,
			func(c *usage.Cgroup) float64 { return float64(c.Limits.Threads) }),
		number("container_oom_events_total", "Count of out of memory events observed for the container", counter,
			func(c *usage.Cgroup) float64 { return float64(c.Memory.OOMKills) }),
	)
}

func cpuRows() []cadvisorRow {
	limited := func(f func(*usage.CPU) float64) func(*usage.Cgroup) (float64, bool) {
		return func(c *usage.Cgroup) (float64, bool) { return f(&c.CPU), c.CPU.QuotaMicros > 0 }
	}
	return []cadvisorRow{
		{name: "container_cpu_usage_seconds_total", help: "Cumulative cpu time consumed in seconds.", kind: counter,
			read: func(x subject) []point {
				return []point{{labels: labels{"cpu", "total"}, value: seconds(x.use.CPU.Nanos)}}
			}},
		number("container_cpu_user_seconds_total", "Cumulative user cpu time consumed in seconds.", counter,
			func(c *usage.Cgroup) float64 { return seconds(c.CPU.UserNanos) }),
		number("container_cpu_system_seconds_total", "Cumulative system cpu time consumed in seconds.", counter,
			func(c *usage.Cgroup) float64 { return seconds(c.CPU.SystemNanos) }),
		optionalNumber("container_cpu_cfs_periods_total", "Number of elapsed enforcement period intervals.", counter,
			limited(func(c *usage.CPU) float64 { return float64(c.Periods) })),
		optionalNumber("container_cpu_cfs_throttled_periods_total", "Number of throttled period intervals.", counter,
			limited(func(c *usage.CPU) float64 { return float64(c.ThrottledPeriods) })),
		optionalNumber("container_cpu_cfs_throttled_seconds_total",
			"Total time duration the container has been throttled.", counter,
			limited(func(c *usage.CPU) float64 { return seconds(c.ThrottledNanos) })),
	}
}

func memoryRows() []cadvisorRow {
	return []cadvisorRow{
		bytes("container_memory_cache", "Number of bytes of page cache memory.",
			func(m *usage.Memory) uint64 { return m.Cache }),
		bytes("container_memory_rss", "Size of RSS in bytes.", func(m *usage.Memory) uint64 { return m.RSS }),
		bytes("container_memory_kernel_usage", "Size of kernel memory allocated in bytes.",
			func(m *usage.Memory) uint64 { return m.Kernel }),
		bytes("container_memory_mapped_file", "Size of memory mapped files in bytes.",
			func(m *usage.Memory) uint64 { return m.Mapped }),
		bytes("container_memory_swap", "Container swap usage in bytes.",
			func(m *usage.Memory) uint64 { return m.Swap }),
		number("container_memory_failcnt", "Number of memory usage hits limits", counter,
			func(c *usage.Cgroup) float64 { return float64(c.Memory.LimitHits) }),
		bytes("container_memory_usage_bytes",
			"Current memory usage in bytes, including all memory regardless of when it was accessed",
			func(m *usage.Memory) uint64 { return m.Bytes }),
		bytes("container_memory_max_usage_bytes", "Maximum memory usage recorded in bytes",
			func(m *usage.Memory) uint64 { return m.Peak }),
		bytes("container_memory_working_set_bytes", "Current working set in bytes.",
			func(m *usage.Memory) uint64 { return m.WorkingSet }),
		bytes("container_memory_total_active_file_bytes", "Current total active file in bytes.",
			func(m *usage.Memory) uint64 { return m.ActiveFile }),
		bytes("container_memory_total_inactive_file_bytes", "Current total inactive file in bytes.",
			func(m *usage.Memory) uint64 { return m.InactiveFile }),
		{name: "container_memory_failures_total", help: "Cumulative count of memory allocation failures.",
			kind: counter, read: func(x subject) []point {
				m := x.use.Memory
				return []point{
					{labels: labels{"failure_type", "pgfault", "scope", "hierarchy"}, value: float64(m.Faults)},
					{labels: labels{"failure_type", "pgmajfault", "scope", "hierarchy"}, value: float64(m.MajorFaults)},
				}
			}},
	}
}

func diskRows() []cadvisorRow {
	devices := func(name, help string, f func(usage.Device) uint64) cadvisorRow {
		return cadvisorRow{name: name, help: help, kind: counter, read: func(x subject) []point {
			var out []point
			for _, d := range x.use.Devices {
				out = append(out, point{labels: labels{"device", deviceName(d)}, value: float64(f(d))})
			}
			return out
		}}
	}
	// A container's file system is its writable layer; the root's is the node's.
	fs := func(name, help string, f func(subject) (float64, bool)) cadvisorRow {
		return cadvisorRow{name: name, help: help, kind: gauge, read: func(x subject) []point {
			if v, ok := f(x); ok {
				return []point{{labels: labels{"device", ""}, value: v}}
			}
			return nil
		}}
	}
	of := func(f func(*usage.Disk) uint64) func(subject) (float64, bool) {
		return func(x subject) (float64, bool) {
			if x.disk == nil {
				return 0, false
			}
			return float64(f(x.disk)), true
		}
	}
	return []cadvisorRow{
		fs("container_fs_usage_bytes", "Number of bytes that are consumed by the container on this filesystem.",
			func(x subject) (float64, bool) {
				switch {
				case x.layer != nil:
					return float64(x.layer.Bytes), true
				case x.disk != nil:
					return float64(x.disk.Used), true
				}
				return 0, false
			}),
		fs("container_fs_limit_bytes", "Number of bytes that can be consumed by the container on this filesystem.",
			of(func(d *usage.Disk) uint64 { return d.Capacity })),
		fs("container_fs_inodes_free", "Number of available Inodes",
			of(func(d *usage.Disk) uint64 { return d.InodesFree })),
		fs("container_fs_inodes_total", "Number of Inodes", of(func(d *usage.Disk) uint64 { return d.Inodes })),
		devices("container_fs_reads_bytes_total", "Cumulative count of bytes read",
			func(d usage.Device) uint64 { return d.ReadBytes }),
		devices("container_fs_writes_bytes_total", "Cumulative count of bytes written",
			func(d usage.Device) uint64 { return d.WriteBytes }),
		devices("container_fs_reads_total", "Cumulative count of reads completed",
			func(d usage.Device) uint64 { return d.Reads }),
		devices("container_fs_writes_total", "Cumulative count of writes completed",
			func(d usage.Device) uint64 { return d.Writes }),
	}
}

func networkRows() []cadvisorRow {
	interfaces := func(name, help string, f func(usage.NetworkInterface) uint64) cadvisorRow {
		return cadvisorRow{name: "container_network_" + name, help: "Cumulative count of " + help, kind: counter,
			read: func(x subject) []point {
				var out []point
				for _, c := range x.interfaces {
					out = append(out, point{labels: labels{"interface", c.Name}, value: float64(f(c))})
				}
				return out
			}}
	}
	return []cadvisorRow{
		interfaces("receive_bytes_total", "bytes received", func(c usage.NetworkInterface) uint64 { return c.RxBytes }),
		interfaces("receive_packets_total", "packets received",
			func(c usage.NetworkInterface) uint64 { return c.RxPackets }),
		interfaces("receive_packets_dropped_total", "packets dropped while receiving",
			func(c usage.NetworkInterface) uint64 { return c.RxDropped }),
		interfaces("receive_errors_total", "errors encountered while receiving",
			func(c usage.NetworkInterface) uint64 { return c.RxErrors }),
		interfaces("transmit_bytes_total", "bytes transmitted",
			func(c usage.NetworkInterface) uint64 { return c.TxBytes }),
		interfaces("transmit_packets_total", "packets transmitted",
			func(c usage.NetworkInterface) uint64 { return c.TxPackets }),
		interfaces("transmit_packets_dropped_total", "packets dropped while transmitting",
			func(c usage.NetworkInterface) uint64 { return c.TxDropped }),
		interfaces("transmit_errors_total", "errors encountered while transmitting",
			func(c usage.NetworkInterface) uint64 { return c.TxErrors }),
	}
}

func specRows() []cadvisorRow {
	spec := func(r cadvisorRow) cadvisorRow { r.untimed = true; return r }
	return []cadvisorRow{
		spec(optionalNumber("container_spec_cpu_period", "CPU period of the container.", gauge,
			func(c *usage.Cgroup) (float64, bool) {
				return float64(c.CPU.PeriodMicros), c.CPU.PeriodMicros > 0
			})),
		spec(optionalNumber("container_spec_cpu_quota", "CPU quota of the container.", gauge,
			func(c *usage.Cgroup) (float64, bool) {
				return float64(c.CPU.QuotaMicros), c.CPU.QuotaMicros > 0
			})),
		spec(optionalNumber("container_spec_cpu_shares", "CPU share of the container.", gauge,
			func(c *usage.Cgroup) (float64, bool) {
				return float64(c.CPU.Shares), c.CPU.Shares > 0
			})),
		spec(number("container_spec_memory_limit_bytes", "Memory limit for the container.", gauge,
			func(c *usage.Cgroup) float64 { return float64(c.Limits.Memory) })),
		spec(number("container_spec_memory_swap_limit_bytes", "Memory swap limit for the container.", gauge,
			func(c *usage.Cgroup) float64 { return float64(c.Limits.Swap) })),
		spec(number("container_spec_memory_reservation_limit_bytes", "Memory reservation limit for the container.",
			gauge, func(c *usage.Cgroup) float64 { return float64(c.Limits.Reservation) })),
	}
}

func pressureRows() []cadvisorRow {
	row := func(name, help string, f func(usage.Pressure) *usage.Stalls, full bool) cadvisorRow {
		return optionalNumber("container_pressure_"+name+"_seconds_total", "Total time duration "+help, counter,
			func(c *usage.Cgroup) (float64, bool) {
				s := f(c.Pressure)
				if s == nil {
					return 0, false
				}
				if full {
					return float64(s.Full.TotalMicros) / 1e6, true
				}
				return float64(s.Some.TotalMicros) / 1e6, true
			})
	}
	cpu := func(p usage.Pressure) *usage.Stalls { return p.CPU }
	memory := func(p usage.Pressure) *usage.Stalls { return p.Memory }
	io := func(p usage.Pressure) *usage.Stalls { return p.IO }
	return []cadvisorRow{
		row("cpu_stalled", "no tasks in the container could make progress due to CPU congestion.", cpu, true),
		row("cpu_waiting", "tasks in the container have waited due to CPU congestion.", cpu, false),
		row("memory_stalled", "no tasks in the container could make progress due to memory congestion.", memory, true),
		row("memory_waiting", "tasks in the container have waited due to memory congestion.", memory, false),
		row("io_stalled", "no tasks in the container could make progress due to IO congestion.", io, true),
		row("io_waiting", "tasks in the container have waited due to IO congestion.", io, false),
	}
}
