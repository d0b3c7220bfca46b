package proc

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Usage is a sample of the machine's use.
type Usage struct {
	At               time.Time
	CPUNanoseconds   uint64 // all processors together, since boot
	MemoryUsed       uint64 // MemTotal - MemFree - Hugetlb: no cgroup counts huge pages
	MemoryAvailable  uint64 // MemAvailable
	MemoryWorkingSet uint64 // MemTotal - MemAvailable - Hugetlb
	MemoryRSS        uint64 // AnonPages
	SwapUsed         uint64
	SwapTotal        uint64
	Faults           uint64 // page faults since boot
	MajorFaults      uint64
	Processes        uint64
	MaxProcesses     uint64
}

const ticksPerSecond = 100 // USER_HZ; fixed in the kernel's interface on all platforms Gantry runs on

// Sample reads the machine's use below root.
func Sample(root string) (Usage, error) {
	mem, err := meminfo(root)
	if err != nil {
		return Usage{}, err
	}
	pages := mem["MemTotal"] - min(mem["Hugetlb"], mem["MemTotal"])
	u := Usage{
		At: time.Now(), MemoryUsed: pages - min(mem["MemFree"], pages), MemoryAvailable: mem["MemAvailable"],
		MemoryWorkingSet: pages - min(mem["MemAvailable"], pages), MemoryRSS: mem["AnonPages"],
		SwapUsed: mem["SwapTotal"] - mem["SwapFree"], SwapTotal: mem["SwapTotal"],
	}
	if u.CPUNanoseconds, err = cpuTime(root); err != nil {
		return Usage{}, err
	}
	// "0.20 0.18 0.12 1/80 11206": the fourth field is runnable/all scheduling entities
	if f := strings.Fields(first(root, "proc/loadavg")); len(f) >= 4 {
		_, all, _ := strings.Cut(f[3], "/")
		u.Processes, _ = strconv.ParseUint(all, 10, 64)
	}
	for line := range strings.Lines(first(root, "proc/vmstat")) {
		switch name, n, _ := strings.Cut(strings.TrimSpace(line), " "); name {
		case "pgfault":
			u.Faults, _ = strconv.ParseUint(n, 10, 64)
		case "pgmajfault":
			u.MajorFaults, _ = strconv.ParseUint(n, 10, 64)
		}
	}
	u.MaxProcesses, _ = strconv.ParseUint(first(root, "proc/sys/kernel/pid_max"), 10, 64)
	return u, nil
}

// cpuTime adds up user, nice, system, irq, softirq and steal of the first line of /proc/stat.
func cpuTime(root string) (uint64, error) {
	path := filepath.Join(root, "proc/stat")
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("processor time of this machine: %w", err)
	}
	line, _, _ := strings.Cut(string(b), "\n")
	f := strings.Fields(line)
	if len(f) < 9 || f[0] != "cpu" {
		return 0, fmt.Errorf("processor time of this machine: %s begins with %q", path, line)
	}
	var ticks uint64
	for _, i := range []int{1, 2, 3, 6, 7, 8} {
		n, err := strconv.ParseUint(f[i], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("processor time of this machine: %s: %w", path, err)
		}
		ticks += n
	}
	return ticks * (uint64(time.Second) / ticksPerSecond), nil
}

// Tasks are how many tasks there are below root, and the greatest number that the kernel allows:
// pid_max or threads-max, whichever is less.
func Tasks(root string) (running, most int64, err error) {
	running = -1
	// "0.20 0.18 0.12 1/80 11206": the fourth field is runnable/all scheduling entities
	if f := strings.Fields(first(root, "proc/loadavg")); len(f) >= 4 {
		_, all, _ := strings.Cut(f[3], "/")
		if running, err = strconv.ParseInt(all, 10, 64); err != nil {
			running = -1
		}
	}
	if running < 0 {
		return 0, 0, fmt.Errorf("tasks of this machine: %s cannot be read", filepath.Join(root, "proc/loadavg"))
	}
	for _, name := range []string{"proc/sys/kernel/pid_max", "proc/sys/kernel/threads-max"} {
		if n, err := strconv.ParseInt(first(root, name), 10, 64); err == nil && (most == 0 || n < most) {
			most = n
		}
	}
	if most == 0 {
		return 0, 0, fmt.Errorf("tasks of this machine: no limit can be read below %s", root)
	}
	return running, most, nil
}
