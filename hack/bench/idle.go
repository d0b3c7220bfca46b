package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// usage is what /proc tells of a process.
type usage struct {
	name      string
	rss, anon int64 // KiB
	cpu       time.Duration
}

// idle measures the processes of an instance without Pods that had a minute to rest.
func (b *bench) idle(ctx context.Context) error {
	i, c, err := b.running(ctx)
	if i != nil {
		defer b.remove(i)
	}
	if err != nil {
		return err
	}
	if err := c.empty(ctx); err != nil {
		return err
	}
	settle, window := 60*time.Second, 30*time.Second
	if b.short {
		settle, window = 5*time.Second, 5*time.Second
	}
	if err := sleep(ctx, settle); err != nil {
		return err
	}
	before := processes(i.Traces())
	if err := sleep(ctx, window); err != nil {
		return err
	}
	var rows [][]string
	for pid, u := range processes(i.Traces()) {
		spent := float64(u.cpu-before[pid].cpu) / float64(window) * 100
		rows = append(rows, []string{u.name, mib(u.rss), mib(u.anon), fmt.Sprintf("%.2f", spent)})
	}
	slices.SortFunc(rows, func(x, y []string) int { return strings.Compare(x[0], y[0]) })
	b.page.add(section{
		Title: "At rest",
		How: fmt.Sprintf("One instance without Pods, %.0f s after its last Pod was gone; VmRSS and RssAnon of /proc/PID/status, and the processor time of the next %.0f s. "+
			"containerd is a process of its own and outlives Gantry.", settle.Seconds(), window.Seconds()),
		Head:   []string{"Process", "RSS, MiB", "anonymous, MiB", "% of a core"},
		Rows:   rows,
		Budget: "gantry up: RSS ≤ 200 MB, anonymous ≤ 110 MB, ≤ 1 % of a core",
	})
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// processes are those whose command line names one of the instance's directories.
func processes(traces []string) map[string]usage {
	out := map[string]usage{}
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil || !slices.ContainsFunc(traces, func(dir string) bool { return strings.Contains(string(raw), dir) }) {
			continue
		}
		args := strings.Split(string(raw), "\x00")
		u := read(filepath.Dir(f))
		u.name = filepath.Base(args[0])
		if len(args) > 1 && !strings.HasPrefix(args[1], "-") {
			u.name += " " + args[1]
		}
		out[filepath.Base(filepath.Dir(f))] = u
	}
	return out
}

// read reads one process; fields that cannot be read stay zero.
func read(proc string) usage {
	var u usage
	status, _ := os.ReadFile(filepath.Join(proc, "status"))
	for _, line := range strings.Split(string(status), "\n") {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		n, _ := strconv.ParseInt(f[1], 10, 64)
		switch f[0] {
		case "VmRSS:":
			u.rss = n
		case "RssAnon:":
			u.anon = n
		}
	}
	stat, _ := os.ReadFile(filepath.Join(proc, "stat"))
	if _, rest, ok := strings.Cut(string(stat), ") "); ok {
		if f := strings.Fields(rest); len(f) > 12 {
			user, _ := strconv.ParseInt(f[11], 10, 64)
			system, _ := strconv.ParseInt(f[12], 10, 64)
			u.cpu = time.Duration(user+system) * (time.Second / 100) // USER_HZ is 100 on every Linux that Go runs on
		}
	}
	return u
}
