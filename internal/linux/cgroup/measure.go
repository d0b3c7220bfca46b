package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gantry-project/gantry/internal/pod/usage"
)

// Measure reads use and limits of the cgroup at p and everything below it. p may be any path of the
// hierarchy; "/" is the node. Files that the kernel lacks leave their fields zero; a cgroup that
// does not exist is an error.
func (t *Tree) Measure(p string) (usage.Cgroup, error) {
	p = clean(p)
	dir := t.hierarchy.mainDir(p)
	info, err := os.Stat(dir)
	if err != nil {
		return usage.Cgroup{}, fmt.Errorf("cgroup %s: %w", p, err)
	}
	c := usage.Cgroup{At: time.Now(), Created: info.ModTime()}
	t.hierarchy.measure(p, &c)
	return c, nil
}

func (h v1) mainDir(p string) string { return filepath.Join(h["memory"], p) }
func (h v2) mainDir(p string) string { return filepath.Join(h.mount, p) }

func (h v1) measure(p string, c *usage.Cgroup) {
	at := func(controller string) string {
		if h[controller] == "" {
			return ""
		}
		return filepath.Join(h[controller], p)
	}
	h.measureCPU(at, &c.CPU)
	h.measureMemory(at("memory"), c)
	if dir := at("pids"); dir != "" {
		c.Threads, c.Limits.Threads = readUint(dir, "pids.current"), readUint(dir, "pids.max")
	}
	c.Processes = countProcesses(at("memory"))
	if dir := at("blkio"); dir != "" {
		devices := devices{}
		devices.v1(dir, "blkio.throttle.io_service_bytes_recursive", true)
		devices.v1(dir, "blkio.throttle.io_serviced_recursive", false)
		c.Devices = devices.list()
	}
	if dir := at(unified); dir != "" {
		c.Pressure = pressure(dir)
	}
}

func (h v1) measureCPU(at func(string) string, c *usage.CPU) {
	c.QuotaMicros = -1
	if dir := at("cpuacct"); dir != "" {
		c.Nanos = readUint(dir, "cpuacct.usage")
		c.UserNanos, c.SystemNanos = readUint(dir, "cpuacct.usage_user"), readUint(dir, "cpuacct.usage_sys")
	}
	dir := at("cpu")
	stat := readStat(dir, "cpu.stat")
	c.Periods, c.ThrottledPeriods, c.ThrottledNanos = stat["nr_periods"], stat["nr_throttled"], stat["throttled_time"]
	c.Shares, c.PeriodMicros = readUint(dir, "cpu.shares"), readUint(dir, "cpu.cfs_period_us")
	if s, err := read(dir, "cpu.cfs_quota_us"); err == nil {
		if n, err := strconv.ParseInt(s, 10, 64); err == nil {
			c.QuotaMicros = n
		}
	}
}

func (h v1) measureMemory(dir string, c *usage.Cgroup) {
	stat := readStat(dir, "memory.stat")
	m := &c.Memory
	m.Bytes, m.Peak = readUint(dir, "memory.usage_in_bytes"), readUint(dir, "memory.max_usage_in_bytes")
	m.RSS, m.Cache, m.Mapped, m.Swap = stat["total_rss"], stat["total_cache"], stat["total_mapped_file"],
		stat["total_swap"]
	m.ActiveFile, m.InactiveFile = stat["total_active_file"], stat["total_inactive_file"]
	m.Faults, m.MajorFaults = stat["total_pgfault"], stat["total_pgmajfault"]
	m.WorkingSet = subtract(m.Bytes, m.InactiveFile)
	m.Kernel, m.LimitHits = readUint(dir, "memory.kmem.usage_in_bytes"), readUint(dir, "memory.failcnt")
	m.OOMKills = readStat(dir, "memory.oom_control")["oom_kill"]
	c.Limits.Memory = bounded(readUint(dir, "memory.limit_in_bytes"))
	c.Limits.Reservation = bounded(readUint(dir, "memory.soft_limit_in_bytes"))
	if both := readUint(dir, "memory.memsw.limit_in_bytes"); bounded(both) > 0 && c.Limits.Memory > 0 {
		c.Limits.Swap, c.Limits.HasSwap = subtract(both, c.Limits.Memory), true
	}
}

func (h v2) measure(p string, c *usage.Cgroup) {
	dir := h.mainDir(p)
	cpu := readStat(dir, "cpu.stat")
	c.CPU = usage.CPU{
		Nanos: cpu["usage_usec"] * 1000, UserNanos: cpu["user_usec"] * 1000, SystemNanos: cpu["system_usec"] * 1000,
		Periods: cpu["nr_periods"], ThrottledPeriods: cpu["nr_throttled"], ThrottledNanos: cpu["throttled_usec"] * 1000,
		Shares: sharesOf(readUint(dir, "cpu.weight")), QuotaMicros: -1,
	}
	if s, err := read(dir, "cpu.max"); err == nil {
		quota, period, _ := strings.Cut(s, " ")
		c.CPU.PeriodMicros, _ = strconv.ParseUint(period, 10, 64)
		if n, err := strconv.ParseInt(quota, 10, 64); err == nil {
			c.CPU.QuotaMicros = n
		}
	}
	stat, events := readStat(dir, "memory.stat"), readStat(dir, "memory.events")
	m := &c.Memory
	m.Bytes, m.Peak, m.Swap = readUint(dir, "memory.current"), readUint(dir, "memory.peak"),
		readUint(dir, "memory.swap.current")
	m.RSS, m.Cache, m.Mapped, m.Kernel = stat["anon"], stat["file"], stat["file_mapped"], stat["kernel"]
	if m.Bytes == 0 && p == "/" { // the root has no memory.current
		m.Bytes = stat["anon"] + stat["file"]
	}
	m.ActiveFile, m.InactiveFile = stat["active_file"], stat["inactive_file"]
	m.WorkingSet = subtract(m.Bytes, m.InactiveFile)
	m.Faults, m.MajorFaults = stat["pgfault"], stat["pgmajfault"]
	m.LimitHits, m.OOMKills = events["max"], events["oom_kill"]
	c.Limits.Memory, c.Limits.Reservation = readUint(dir, "memory.max"), readUint(dir, "memory.low")
	if s, err := read(dir, "memory.swap.max"); err == nil && s != "max" {
		c.Limits.Swap, c.Limits.HasSwap = readUint(dir, "memory.swap.max"), true
	}
	c.Threads, c.Limits.Threads = readUint(dir, "pids.current"), readUint(dir, "pids.max")
	c.Processes = countProcesses(dir)
	devices := devices{}
	devices.v2(dir)
	c.Devices = devices.list()
	c.Pressure = pressure(dir)
}

// countProcesses counts the processes in dir and below; 0 for the root, where it would be
// expensive.
func countProcesses(dir string) uint64 {
	if _, err := os.Stat(filepath.Join(filepath.Dir(dir), "cgroup.procs")); err != nil {
		return 0
	}
	pids, err := processes(dir)
	if err != nil {
		return 0
	}
	return uint64(len(pids))
}

// sharesOf returns cpu.shares for a weight, the inverse of Weight.
func sharesOf(weight uint64) uint64 {
	if weight == 0 {
		return 0
	}
	low, high := uint64(2), uint64(262144)
	for low < high {
		if mid := (low + high) / 2; Weight(mid) < weight {
			low = mid + 1
		} else {
			high = mid
		}
	}
	if weight == 100 {
		return 1024 // several shares have this weight; this is the default
	}
	return low
}

type devices map[[2]uint64]*usage.Device

func (d devices) of(name string) *usage.Device {
	a, b, _ := strings.Cut(name, ":")
	major, err := strconv.ParseUint(a, 10, 32)
	if err != nil {
		return nil
	}
	minor, err := strconv.ParseUint(b, 10, 32)
	if err != nil {
		return nil
	}
	key := [2]uint64{major, minor}
	if d[key] == nil {
		d[key] = &usage.Device{Major: major, Minor: minor}
	}
	return d[key]
}

// v1 parses lines such as "8:0 Read 4096".
func (d devices) v1(dir, file string, bytes bool) {
	text, _ := read(dir, file)
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) != 3 {
			continue
		}
		n, err := strconv.ParseUint(f[2], 10, 64)
		x := d.of(f[0])
		if err != nil || x == nil {
			continue
		}
		switch {
		case f[1] == "Read" && bytes:
			x.ReadBytes = n
		case f[1] == "Write" && bytes:
			x.WriteBytes = n
		case f[1] == "Read":
			x.Reads = n
		case f[1] == "Write":
			x.Writes = n
		}
	}
}

// v2 parses lines such as "8:0 rbytes=4096 wbytes=0 rios=1 wios=0 dbytes=0 dios=0".
func (d devices) v2(dir string) {
	text, _ := read(dir, "io.stat")
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		x := d.of(f[0])
		if x == nil {
			continue
		}
		for _, pair := range f[1:] {
			k, v, _ := strings.Cut(pair, "=")
			n, err := strconv.ParseUint(v, 10, 64)
			if err != nil {
				continue
			}
			switch k {
			case "rbytes":
				x.ReadBytes = n
			case "wbytes":
				x.WriteBytes = n
			case "rios":
				x.Reads = n
			case "wios":
				x.Writes = n
			}
		}
	}
}

func (d devices) list() []usage.Device {
	var out []usage.Device
	for _, x := range d {
		if name, err := os.Readlink(fmt.Sprintf("/sys/dev/block/%d:%d", x.Major, x.Minor)); err == nil {
			x.Name = "/dev/" + filepath.Base(name)
		}
		out = append(out, *x)
	}
	slices.SortFunc(out, func(a, b usage.Device) int {
		return slices.Compare([]uint64{a.Major, a.Minor}, []uint64{b.Major, b.Minor})
	})
	return out
}

// pressure reads the three pressure files of a directory.
func pressure(dir string) usage.Pressure {
	return usage.Pressure{CPU: stalls(dir, "cpu.pressure"), Memory: stalls(dir, "memory.pressure"),
		IO: stalls(dir, "io.pressure")}
}

// Pressure reads the machine's pressure from a directory such as /proc/pressure, whose files have
// no suffix.
func Pressure(dir string) usage.Pressure {
	return usage.Pressure{CPU: stalls(dir, "cpu"), Memory: stalls(dir, "memory"), IO: stalls(dir, "io")}
}

// stalls parses lines such as "some avg10=0.00 avg60=0.00 avg300=0.00 total=123".
func stalls(dir, file string) *usage.Stalls {
	text, err := read(dir, file)
	if err != nil || text == "" {
		return nil // PSI is off, or the kernel is older than 4.20
	}
	var s usage.Stalls
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) != 5 {
			continue
		}
		to := &s.Some
		if f[0] == "full" {
			to = &s.Full
		}
		for i, field := range []*float64{&to.Avg10, &to.Avg60, &to.Avg300} {
			_, v, _ := strings.Cut(f[i+1], "=")
			*field, _ = strconv.ParseFloat(v, 64)
		}
		_, v, _ := strings.Cut(f[4], "=")
		to.TotalMicros, _ = strconv.ParseUint(v, 10, 64)
	}
	return &s
}
