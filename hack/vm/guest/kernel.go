package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const tracing = "/sys/kernel/tracing/"

// kernel follows what the kernel does, by its own tracing: who gets SIGTERM and SIGKILL, and whom
// the OOM killer marks. Times are those of the monotonic clock.
type kernel struct {
	t *timeline

	mu      sync.Mutex
	signals []sentSignal
	victims int // of the OOM killer
	notices map[string][]time.Duration
}

// sentSignal is a signal on its way to a process.
type sentSignal struct {
	at     time.Duration
	number int
	pid    int
	comm   string // of the receiver
	from   string // comm and thread of the sender
}

// watchKernel begins to follow.
func watchKernel(t *timeline) (*kernel, error) {
	for _, f := range [][2]string{
		{"trace_clock", "mono"},
		{"events/signal/signal_generate/filter", "sig==9||sig==15"},
		{"events/signal/signal_generate/enable", "1"},
		{"events/oom/mark_victim/enable", "1"},
	} {
		if err := os.WriteFile(tracing+f[0], []byte(f[1]), 0o644); err != nil {
			return nil, err
		}
	}
	pipe, err := os.Open(tracing + "trace_pipe")
	if err != nil {
		return nil, err
	}
	k := &kernel{t: t, notices: map[string][]time.Duration{}}
	go func() {
		for s := bufio.NewScanner(pipe); s.Scan(); {
			k.take(s.Text())
		}
	}()
	return k, nil
}

var (
	traceLine  = regexp.MustCompile(`^\s*(.*-\d+)\s+\[.*\s(\d+\.\d+): (signal_generate|mark_victim): (.*)`)
	traceField = regexp.MustCompile(`(\w+)=(\S+)`)
)

// take notes a line of the trace.
func (k *kernel) take(line string) {
	m := traceLine.FindStringSubmatch(line)
	if m == nil {
		return
	}
	seconds, _ := strconv.ParseFloat(m[2], 64)
	at := time.Duration(seconds * float64(time.Second))
	fields := map[string]string{}
	for _, f := range traceField.FindAllStringSubmatch(m[4], -1) {
		fields[f[1]] = f[2]
	}
	pid, _ := strconv.Atoi(fields["pid"])
	k.mu.Lock()
	defer k.mu.Unlock()
	if m[3] == "mark_victim" {
		k.victims++
		k.t.sayAt(at, "kernel: the OOM killer takes process %d", pid)
		return
	}
	number, _ := strconv.Atoi(fields["sig"])
	k.signals = append(k.signals, sentSignal{at, number, pid, fields["comm"], m[1]})
}

// sent are the signals to these processes since a time.
func (k *kernel) sent(pids []int, since time.Duration) []sentSignal {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []sentSignal
	for _, s := range k.signals {
		if s.at >= since && slices.Contains(pids, s.pid) {
			out = append(out, s)
		}
	}
	return out
}

// oomKills are how many processes the OOM killer has taken since the start.
func (k *kernel) oomKills() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.victims
}

// notify notes, until the machine ends, when the kernel tells of something: a file that is readable
// with POLLPRI. The first one after a call of since is what counts.
func (k *kernel) notify(what string, f *os.File) {
	for {
		fds := []unix.PollFd{{Fd: int32(f.Fd()), Events: unix.POLLPRI}}
		if _, err := unix.Poll(fds, -1); err != nil && err != unix.EINTR {
			return
		}
		if fds[0].Revents&unix.POLLPRI == 0 {
			if fds[0].Revents&unix.POLLERR != 0 {
				return
			}
			continue
		}
		k.note(what, now())
		_, _ = f.ReadAt(make([]byte, 4096), 0) // takes the notice
		time.Sleep(10 * time.Millisecond)
	}
}

func (k *kernel) note(what string, at time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if list := k.notices[what]; len(list) == 0 || at-list[len(list)-1] > 5*time.Second {
		k.t.sayAt(at, "kernel: %s", what)
	}
	k.notices[what] = append(k.notices[what], at)
}

// since are the times after one at which the kernel told of something.
func (k *kernel) since(what string, from time.Duration) []time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(k.notices[what]), func(at time.Duration) bool { return at < from })
}

// Names of what is told.
const (
	stalled = "tasks wait for memory (PSI)"
	events  = "memory.events of the Pods' cgroup"
	crossed = "the threshold of memory.available is crossed"
)

// watchMemory listens to the same notices that the node listens to.
func (k *kernel) watchMemory() error {
	psi, err := os.OpenFile("/proc/pressure/memory", os.O_RDWR|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	if _, err := psi.WriteString("some 100000 1000000\x00"); err != nil {
		return fmt.Errorf("trigger of /proc/pressure/memory: %w", err)
	}
	go k.notify(stalled, psi)
	file, err := os.Open(filepath.Join(podsCgroup(), "memory.events"))
	if err != nil {
		return err
	}
	go k.notify(events, file)
	return nil
}

// sampleMemory notes when the node crosses the threshold, to 20 ms, and says every second how much
// is left, until stop is closed.
func (k *kernel) sampleMemory(stop chan struct{}) {
	total := readMeminfo()["MemTotal"]
	low := false
	for i := 0; ; i++ {
		left := total - workingSet("/sys/fs/cgroup")
		if i%100 == 0 {
			k.t.say("%d MiB of memory available, %d MiB free", left>>20, readMeminfo()["MemFree"]>>20)
		}
		if is := left < memoryThreshold; is != low {
			if low = is; is {
				k.note(crossed, now())
			}
		}
		select {
		case <-stop:
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// workingSet is that of a cgroup's directory, the root's too.
func workingSet(dir string) int64 {
	stat := keyed(filepath.Join(dir, "memory.stat"))
	used, err := strconv.ParseInt(contents(filepath.Join(dir, "memory.current")), 10, 64)
	if err != nil { // the root has none
		used = stat["anon"] + stat["file"]
	}
	return used - stat["inactive_file"]
}

// keyed reads a file of lines "name number".
func keyed(file string) map[string]int64 {
	out := map[string]int64{}
	for line := range strings.Lines(contents(file)) {
		if f := strings.Fields(line); len(f) == 2 {
			out[f[0]], _ = strconv.ParseInt(f[1], 10, 64)
		}
	}
	return out
}

// processesBelow are the processes of a cgroup and of those below it.
func processesBelow(dir string) []int {
	var out []int
	_ = filepath.WalkDir(dir, func(file string, e os.DirEntry, err error) error {
		if err == nil && e.Name() == "cgroup.procs" {
			for f := range strings.FieldsSeq(contents(file)) {
				if pid, err := strconv.Atoi(f); err == nil {
					out = append(out, pid)
				}
			}
		}
		return nil
	})
	return out
}
