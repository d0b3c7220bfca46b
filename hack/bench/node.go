package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/cri/crifake"
	"github.com/gantry-project/gantry/test/replay/instance"
)

// node measures one node as it fills: what it takes at rest with 0, 50 and 110 Pods, and how long starts, ends and the news of an exit take, alone, 50 at once, and beside
// 100 Pods at rest. Last, what 1,000 Pods of a fake runtime take.
func (b *bench) node(ctx context.Context) error {
	n, err := b.newNode(ctx, nil)
	if err != nil {
		return err
	}
	defer n.remove(b)
	if err := n.empty(ctx); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{
		func(ctx context.Context) error { return n.rest(ctx, "0") },
		func(ctx context.Context) error { return n.counted(ctx, b.times(30)) },
		func(ctx context.Context) error { return n.exits(ctx, b.times(30)) },
		func(ctx context.Context) error { return n.groups(ctx, "50 at once", 1, 50) },
		func(ctx context.Context) error { return n.fill(ctx, 50) },
		func(ctx context.Context) error { return n.rest(ctx, "50") },
		func(ctx context.Context) error { return n.fill(ctx, 100) },
		func(ctx context.Context) error { return n.groups(ctx, "one by one beside 100 at rest", b.times(30), 1) },
		func(ctx context.Context) error { return n.fill(ctx, 110) },
		func(ctx context.Context) error { return n.rest(ctx, "110") },
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	alone, err := b.alone(ctx, n)
	if err != nil {
		return err
	}
	fakes, err := b.thousand(ctx, n)
	if err != nil {
		return err
	}
	b.page.add(section{
		Title: "A node at rest",
		How: fmt.Sprintf("Pods with one container that sleeps, %.0f s after the last one ran; processor time of the next %.0f s. gantry up is API server, etcd, scheduler, controllers, proxy and kubelet in one process. "+
			"The row *kubelet* has in its place the process of `gantry kubelet` beside a `gantry server`, whole. The last row runs over a fake runtime in another process.",
			n.settle.Seconds(), n.window.Seconds()),
		Head:   []string{"Pods", "gantry up, % of a core", "RSS, MiB", "anonymous, MiB", "containerd, % of a core", "RSS, MiB", "shims, % of a core", "RSS, MiB"},
		Rows:   slices.Concat(n.resting, alone, fakes),
		Budget: "the kubelet's part at 110 idle Pods ≤ 1 % of a core and ≤ 50 MB",
	})
	b.page.add(section{
		Title: "Calls to the runtime",
		How: "What the kubelet counts in kubelet_runtime_operations_total; event streams are not counted. Starts and ends are those one by one, without the calls that ask after runtime and images, Pods or not. " +
			"A minute at rest is what the windows of the table above had, scaled. The audit lists sandboxes and containers and asks for the runtime's state and its images; every five minutes images are collected " +
			"(a list of them, one of containers, their file system).",
		Head:   []string{"What", "Calls", "Of them"},
		Rows:   n.calls,
		Budget: "none at rest beside the audit once a minute",
	})
	b.page.add(section{
		Title: "Starts, ends and exits",
		How: "From the call of a client to the event that its watch brings: created to phase Running, deleted to gone (a process that ends on SIGTERM), and from the moment a process is told to exit (through a pipe) " +
			"to the status that says so, the runtime's share included. Image present, restart policy Never for exits.",
		Head:   []string{"What", "Pods", "p50, ms", "p99, ms", "own p50, ms", "p99, ms"},
		Rows:   n.times,
		Budget: "create→Running p50 ≤ 200 ms one by one; event→status ≤ 30 ms p99",
	})
	return nil
}

// alone measures a full node whose kubelet is a process of its own.
func (b *bench) alone(ctx context.Context, real *nodeBench) ([][]string, error) {
	i, err := b.made(instance.Options{Split: true})
	if err != nil {
		return nil, err
	}
	begin := func() (*cluster, error) {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		if err := i.Start(); err != nil {
			return nil, err
		}
		if err := i.WaitAPI(ctx); err != nil {
			return nil, err
		}
		if err := i.StartRoles(); err != nil {
			return nil, err
		}
		c, err := connect(ctx, i)
		if err != nil {
			return nil, err
		}
		return c, c.nodeReady(ctx)
	}
	c, err := begin()
	if err != nil {
		b.remove(i)
		return nil, err
	}
	n, err := b.watched(ctx, i, c)
	if err != nil {
		return nil, err
	}
	defer n.remove(b)
	n.role = "kubelet"
	if err := n.fill(ctx, 110); err != nil {
		return nil, err
	}
	err = n.rest(ctx, "110, *kubelet*")
	real.calls = append(real.calls, n.calls...)
	return n.resting, err
}

// thousand measures 1,000 Pods at rest over a fake runtime.
func (b *bench) thousand(ctx context.Context, real *nodeBench) ([][]string, error) {
	dir, err := os.MkdirTemp("", "gantry-bench-fake-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	fake, err := crifake.Start(crifake.Options{Dir: dir, Images: []crifake.Image{{Names: []string{image}}}})
	if err != nil {
		return nil, err
	}
	defer fake.Close()
	config := filepath.Join(dir, "kubelet.yaml")
	text := "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: 1100\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	n, err := b.newNode(ctx, []string{"--container-runtime-endpoint", fake.Endpoint(), "--kubelet-config", config})
	if err != nil {
		return nil, err
	}
	defer n.remove(b)
	if err := n.fill(ctx, b.times(1000)); err != nil {
		return nil, err
	}
	err = n.rest(ctx, fmt.Sprintf("%d fake", b.times(1000)))
	real.calls = append(real.calls, n.calls...)
	return n.resting, err
}

// fill creates Pods until there are so many and waits until all run.
func (n *nodeBench) fill(ctx context.Context, many int) error {
	var names []string
	for ; n.filled < many; n.filled++ {
		names = append(names, fmt.Sprintf("rest-%d", n.filled))
		if err := n.create(ctx, ender(names[len(names)-1])); err != nil {
			return err
		}
	}
	return n.seen.all(ctx, names, running)
}

// rest waits a while and measures.
func (n *nodeBench) rest(ctx context.Context, pods string) error {
	if err := sleep(ctx, n.settle); err != nil {
		return err
	}
	called, err := n.counts(ctx)
	if err != nil {
		return err
	}
	before := processes(n.instance.Traces())
	if err := sleep(ctx, n.window); err != nil {
		return err
	}
	type sum struct {
		cpu       time.Duration
		rss, anon int64
	}
	var sums [3]sum
	after := processes(n.instance.Traces())
	now, err := n.counts(ctx)
	if err != nil {
		return err
	}
	made := counts{}
	made.grown(called, now)
	n.calls = append(n.calls, made.perMinute("a minute at rest, "+pods+" Pods", n.window))
	for pid, u := range after {
		i := slices.IndexFunc([]string{n.role, "containerd", "shim"}, func(s string) bool {
			return strings.HasSuffix(u.name, " "+s) || s == "shim" && strings.Contains(u.name, "shim")
		})
		if i < 0 {
			continue
		}
		sums[i] = sum{sums[i].cpu + u.cpu - before[pid].cpu, sums[i].rss + u.rss, sums[i].anon + u.anon}
	}
	row := []string{pods}
	for i, s := range sums {
		row = append(row, fmt.Sprintf("%.2f", float64(s.cpu)/float64(n.window)*100), mib(s.rss))
		if i == 0 {
			row = append(row, mib(s.anon))
		}
	}
	n.resting = append(n.resting, row)
	return nil
}

// groups measures lives of Pods, so many at once, so many times.
func (n *nodeBench) groups(ctx context.Context, what string, rounds, atOnce int) error {
	g, err := n.lives(ctx, what, rounds, atOnce)
	n.row("create → Running", what, g.start, owns(g.starts))
	n.row("delete → gone", what, g.end, owns(g.ends))
	return err
}

// counted measures lives one by one, and what they cost in calls to the runtime.
func (n *nodeBench) counted(ctx context.Context, many int) error {
	n.start, n.end = counts{}, counts{}
	err := n.groups(ctx, "one by one", many, 1)
	n.calls = append(n.calls, n.start.row("a Pod's start", float64(many), ofNode...), n.end.row("a Pod's end", float64(many), ofNode...))
	n.start, n.end = nil, nil
	return err
}

// note adds to a sum what was called since some counts, and returns the new ones; nothing while nobody counts.
func (n *nodeBench) note(ctx context.Context, sum, since counts) (counts, error) {
	if n.start == nil {
		return nil, nil
	}
	now, err := n.counts(ctx)
	if err == nil && since != nil {
		sum.grown(since, now)
	}
	return now, err
}

// lived is when what of a Pod was asked and seen by the client.
type lived struct {
	name                        string
	created, ran, deleted, gone time.Time
}

// life creates Pods side by side, waits until they run, deletes them and waits until they are gone.
func (n *nodeBench) life(ctx context.Context, names []string) ([]lived, error) {
	out := make([]lived, len(names))
	for i, name := range names {
		out[i].name = name
	}
	each := func(do func(p *lived) error) error {
		var all errgroup.Group
		for i := range out {
			all.Go(func() error { return do(&out[i]) })
		}
		return all.Wait()
	}
	since, err := n.note(ctx, nil, nil)
	if err != nil {
		return nil, err
	}
	err = each(func(p *lived) error {
		p.created = time.Now()
		return n.create(ctx, ender(p.name))
	})
	if err != nil {
		return nil, err
	}
	if err := n.seen.all(ctx, names, running); err != nil {
		return nil, err
	}
	if err := sleep(ctx, 200*time.Millisecond); err != nil { // a shell that has only begun to run has not set its trap
		return nil, err
	}
	if since, err = n.note(ctx, n.start, since); err != nil {
		return nil, err
	}
	err = each(func(p *lived) error {
		p.deleted = time.Now()
		return n.client.CoreV1().Pods("default").Delete(ctx, p.name, metav1.DeleteOptions{})
	})
	if err != nil {
		return nil, err
	}
	if err := n.seen.all(ctx, names, gone); err != nil {
		return nil, err
	}
	if _, err = n.note(ctx, n.end, since); err != nil {
		return nil, err
	}
	for i, p := range out {
		out[i].ran, out[i].gone = n.seen.at(p.name, running), n.seen.at(p.name, gone)
	}
	return out, nil
}

// exits measures how soon the API tells that a process has exited.
func (n *nodeBench) exits(ctx context.Context, many int) error {
	dir, err := os.MkdirTemp("", "gantry-bench-pipes-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var took []time.Duration
	for k := range many {
		p := sleeper(fmt.Sprintf("exit-%d", k))
		pipe := filepath.Join(dir, p.Name)
		if err := syscall.Mkfifo(pipe, 0o666); err != nil {
			return err
		}
		p.Spec.RestartPolicy = v1.RestartPolicyNever
		p.Spec.Volumes = []v1.Volume{{Name: "pipes", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: dir}}}}
		p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "pipes", MountPath: "/pipes"}}
		p.Spec.Containers[0].Command = []string{"cat", "/pipes/" + p.Name}
		if err := n.create(ctx, p); err != nil {
			return err
		}
		if err := n.seen.all(ctx, []string{p.Name}, running); err != nil {
			return err
		}
		w, err := os.OpenFile(pipe, os.O_WRONLY, 0) // waits for the reader; the end of what is written ends it
		if err != nil {
			return err
		}
		told := time.Now()
		if err := w.Close(); err != nil {
			return err
		}
		if err := n.seen.all(ctx, []string{p.Name}, exited); err != nil {
			return err
		}
		took = append(took, n.seen.at(p.Name, exited).Sub(told))
		if err := n.client.CoreV1().Pods("default").Delete(ctx, p.Name, metav1.DeleteOptions{}); err != nil {
			return err
		}
	}
	n.row("exit → status", "one by one", took, nil)
	return nil
}

func (n *nodeBench) row(what, pods string, took, own []time.Duration) {
	row := []string{what, pods, ms(quantile(took, 0.5)), ms(quantile(took, 0.99)), "", ""}
	if len(own) > 0 {
		row[4], row[5] = ms(quantile(own, 0.5)), ms(quantile(own, 0.99))
	}
	n.times = append(n.times, row)
}
