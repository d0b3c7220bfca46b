package main

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// row is one measurement.
type row struct {
	Case      string  `json:"case"`
	Nodes     int     `json:"nodes"`
	Pods      int     `json:"pods"` // measured
	Placed    int     `json:"placed"`
	PerSecond float64 `json:"podsPerSecond"`
	PerCore   float64 `json:"podsPerCoreSecond"` // of the scheduler's processor time
	P50       float64 `json:"p50Ms"`             // in memory: one decision; through the API: create to bound
	P99       float64 `json:"p99Ms"`
	RSS       int64   `json:"rssMiB"`
	Note      string  `json:"note,omitempty"`
}

func table(rows []row) string {
	var b strings.Builder
	b.WriteString("| Case | Nodes | Pods | Placed | Pods/s | Pods per core-second | p50, ms | p99, ms | RSS, MiB | |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %.0f | %.0f | %s | %s | %d | %s |\n", r.Case, r.Nodes, r.Pods, r.Placed, r.PerSecond, r.PerCore, ms(r.P50), ms(r.P99), r.RSS, r.Note)
	}
	return b.String()
}

func ms(v float64) string {
	if v < 1 {
		return fmt.Sprintf("%.3f", v)
	}
	return fmt.Sprintf("%.1f", v)
}

// took fills in times.
func (r *row) took(each []time.Duration, wall, cpu time.Duration) {
	slices.Sort(each)
	at := func(share float64) float64 {
		if len(each) == 0 {
			return 0
		}
		return float64(each[min(int(share*float64(len(each))), len(each)-1)]) / 1e6
	}
	r.P50, r.P99 = at(0.50), at(0.99)
	if wall > 0 {
		r.PerSecond = float64(r.Placed) / wall.Seconds()
	}
	if cpu > 0 {
		r.PerCore = float64(r.Placed) / cpu.Seconds()
	}
}

// ownCPU is the processor time of this process, garbage collection included.
func ownCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func ownRSS() int64 {
	runtime.GC()
	return rssOf(os.Getpid())
}

// rssOf is the resident memory of a process in MiB; 0 when it cannot be read.
func rssOf(pid int) int64 {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	var size, resident int64
	if _, err := fmt.Sscan(string(raw), &size, &resident); err != nil {
		return 0
	}
	return resident * int64(os.Getpagesize()) >> 20
}

// cpuOf is the processor time of a process; 0 when it cannot be read.
func cpuOf(pid int) time.Duration {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(raw), ") ")
	fields := strings.Fields(rest)
	var user, system int64
	if len(fields) < 13 {
		return 0
	}
	if _, err := fmt.Sscan(fields[11]+" "+fields[12], &user, &system); err != nil {
		return 0
	}
	return time.Duration(user+system) * (time.Second / 100) // USER_HZ
}
