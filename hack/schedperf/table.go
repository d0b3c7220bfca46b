package main

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// row is one measurement.
type row struct {
	Case      string
	Nodes     int
	Pods      int // number of measured Pods
	Placed    int
	PerSecond float64 // Pods per second
	// Pods per second of the scheduler's CPU time; in memory decisions, those that no node fits
	// included
	PerCore   float64
	Min       float64 // ms, as P50
	P50, P99  float64 // ms; in memory: one decision; through the API: create to bound
	RSS       int64   // MiB
	Note      string
	Scheduler string  // side by side: its name
	Turn      int     // side by side: number of the turn, from 1
	CPU       float64 // seconds
}

func table(rows []row) string {
	if len(rows) > 0 && rows[0].Scheduler != "" {
		return comparisonTable(rows)
	}
	var b strings.Builder
	b.WriteString("| Case | Nodes | Pods | Placed | Pods/s | Pods per core-second | p50, ms | p99, ms | RSS, MiB | |\n")
	b.WriteString("|" + strings.Repeat(" --- |", 10) + "\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %.0f | %.0f | %s | %s | %d | %s |\n", r.Case, r.Nodes, r.Pods, r.Placed,
			r.PerSecond, r.PerCore, ms(r.P50), ms(r.P99), r.RSS, r.Note)
	}
	return b.String()
}

// comparisonTable formats each scheduler's turns of a case side by side, with the ratio of their
// Pods per core-second.
func comparisonTable(rows []row) string {
	var b strings.Builder
	first, other := rows[0].Scheduler, ""
	for _, r := range rows {
		if r.Scheduler != first {
			other = r.Scheduler
		}
	}
	fmt.Fprintf(&b, "| Case | Nodes | Pods | %s, Pods per core-second | %s | times ", first, other)
	fmt.Fprintf(&b, "| %s, p50, ms | p99, ms | RSS, MiB | %s, p50, ms | p99, ms | RSS, MiB | |\n", first, other)
	b.WriteString("|" + strings.Repeat(" --- |", 13) + "\n")
	for rest := rows; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].Case == rest[0].Case && rest[n].Nodes == rest[0].Nodes {
			n++
		}
		us, them := resultsOf(rest[:n], first), resultsOf(rest[:n], other)
		times := "-"
		if them.rate() > 0 {
			times = fmt.Sprintf("%.1f", us.rate()/them.rate())
		}
		fmt.Fprintf(&b, "| %s | %d | %d | %s | %s | %s | %s | %s | %s |\n", rest[0].Case, rest[0].Nodes, rest[0].Pods,
			strings.Join(us.rates, ", "), strings.Join(them.rates, ", "), times, us.clock(), them.clock(),
			strings.Join(append(us.notes, them.notes...), "; "))
		rest = rest[n:]
	}
	return b.String()
}

// schedulerResult is one scheduler's turns of a case.
type schedulerResult struct {
	rates, notes []string // one rate per turn; errors
	placed       int
	cpu          float64
	p50, p99     []float64
	rss          int64
}

func resultsOf(rows []row, who string) schedulerResult {
	var s schedulerResult
	for _, r := range rows {
		if r.Scheduler != who {
			continue
		}
		s.rates, s.p50, s.p99 = append(s.rates, fmt.Sprintf("%.0f", r.PerCore)), append(s.p50, r.P50),
			append(s.p99, r.P99)
		s.placed, s.cpu, s.rss = s.placed+r.Placed, s.cpu+r.CPU, max(s.rss, r.RSS)
		if r.Placed < r.Pods {
			s.notes = append(s.notes, fmt.Sprintf("%s, turn %d: %d placed", who, r.Turn, r.Placed))
		}
	}
	return s
}

// rate returns Pods per second of CPU time.
func (s schedulerResult) rate() float64 {
	if s.cpu == 0 {
		return 0
	}
	return float64(s.placed) / s.cpu
}

// clock returns the cells of times and memory: the least of several turns.
func (s schedulerResult) clock() string {
	if len(s.p50) == 0 {
		return "- | - | -"
	}
	return fmt.Sprintf("%s | %s | %d", ms(slices.Min(s.p50)), ms(slices.Min(s.p99)), s.rss)
}

func ms(v float64) string {
	if v < 1 {
		return fmt.Sprintf("%.3f", v)
	}
	return fmt.Sprintf("%.1f", v)
}

// took sets the times.
func (r *row) took(each []time.Duration, wall, cpu time.Duration) {
	slices.Sort(each)
	at := func(share float64) float64 {
		if len(each) == 0 {
			return 0
		}
		return float64(each[min(int(share*float64(len(each))), len(each)-1)]) / 1e6
	}
	r.Min, r.P50, r.P99 = at(0), at(0.50), at(0.99)
	if wall > 0 {
		r.PerSecond = float64(r.Placed) / wall.Seconds()
	}
	if r.CPU = cpu.Seconds(); cpu > 0 {
		r.PerCore = float64(r.Placed) / r.CPU
	}
}

// ownCPU returns the CPU time of this process, garbage collection included.
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

// rssOf returns the resident memory of a process in MiB; 0 if it cannot be read.
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

// cpuOf returns the CPU time of a process from its own clock, which has nanoseconds; 0 if it cannot
// be read.
func cpuOf(pid int) time.Duration {
	var t unix.Timespec
	// the clock id of a process, as clock_getcpuclockid(3) computes it
	if err := unix.ClockGettime(int32(^pid<<3|2), &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano())
}
