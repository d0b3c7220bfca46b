package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gantry-project/gantry/hack/bench/result"
)

// usage is what /proc reports of a process.
type usage struct {
	name      string
	rss, anon int64 // KiB
	cpu       time.Duration
}

// idle measures the processes of an instance without Pods, a minute after its last Pod was gone:
// VmRSS and RssAnon of /proc/PID/status, and the CPU time of the next 30 s. containerd is a process
// of its own and outlives Gantry.
func (b *bench) idle(ctx context.Context) ([]result.Figure, error) {
	i, c, err := b.running(ctx)
	if i != nil {
		defer b.remove(i)
	}
	if err != nil {
		return nil, err
	}
	if err := c.empty(ctx); err != nil {
		return nil, err
	}
	settle, window := 60*time.Second, 30*time.Second
	if b.short {
		settle, window = 5*time.Second, 5*time.Second
	}
	if err := sleep(ctx, settle); err != nil {
		return nil, err
	}
	before := processes(i.Traces())
	if err := sleep(ctx, window); err != nil {
		return nil, err
	}
	var figures []result.Figure
	for pid, u := range processes(i.Traces()) {
		u.cpu -= before[pid].cpu
		figures = append(figures, u.figures(u.name, window)...)
	}
	slices.SortFunc(figures, func(x, y result.Figure) int { return strings.Compare(x.Name, y.Name) })
	return figures, nil
}

// figures returns a process's figures over a window of time.
func (u usage) figures(name string, window time.Duration) []result.Figure {
	return []result.Figure{
		result.Value(name+"/CPU", "% of a core", float64(u.cpu)/float64(window)*100),
		result.Value(name+"/RSS", "MiB", mib(u.rss)), result.Value(name+"/anonymous", "MiB", mib(u.anon)),
	}
}

func mib(kib int64) float64 { return float64(kib) / 1024 }

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// processes returns the processes whose command line contains one of the instance's directories.
func processes(dirs []string) map[string]usage {
	out := map[string]usage{}
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil || !slices.ContainsFunc(dirs,
			func(dir string) bool { return strings.Contains(string(raw), dir) }) {
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

// read reads one process; fields that cannot be read are zero.
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
