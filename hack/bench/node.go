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

	"github.com/gantry-project/gantry/hack/bench/result"
	"github.com/gantry-project/gantry/internal/cri/crifake"
	"github.com/gantry-project/gantry/test/instance"
)

// node measures one node as it fills. "rest" is what processes take with 0, 50 and 110 Pods of one
// container that sleeps, 20 s after the last one ran, over a minute; `gantry up` is API server,
// etcd, scheduler, controllers, proxy and kubelet in one process, "kubelet alone" is `gantry
// kubelet` beside a `gantry server`, and "fake" runs over a fake runtime in this process. "calls"
// are what the kubelet counts in kubelet_runtime_operations_total (event streams are not counted),
// for a start and an end one by one (without those that ask after runtime and images, Pods or not)
// and for a minute at rest.
//
// Starts, ends and exits are from the call of a client to the event that its watch brings: created
// to phase Running, deleted to gone (a process that ends on SIGTERM), and from the moment a process
// is let exit through a pipe to the status that says so, the runtime's share included.
func (b *bench) node(ctx context.Context) ([]result.Figure, error) {
	n, err := b.newNode(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer n.remove(b)
	if err := n.empty(ctx); err != nil {
		return nil, err
	}
	for _, step := range []func(context.Context) error{
		func(ctx context.Context) error { return n.rest(ctx, "0 Pods") },
		func(ctx context.Context) error { return n.counted(ctx, b.times(30)) },
		func(ctx context.Context) error { return n.exits(ctx, b.times(30)) },
		func(ctx context.Context) error { return n.group(ctx, "50 at once", 1, 50) },
		func(ctx context.Context) error { return n.fill(ctx, 50) },
		func(ctx context.Context) error { return n.rest(ctx, "50 Pods") },
		func(ctx context.Context) error { return n.fill(ctx, 100) },
		func(ctx context.Context) error { return n.group(ctx, "one by one beside 100", b.times(30), 1) },
		func(ctx context.Context) error { return n.fill(ctx, 110) },
		func(ctx context.Context) error { return n.rest(ctx, "110 Pods") },
	} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	alone, err := b.kubeletAlone(ctx)
	if err != nil {
		return nil, err
	}
	fakes, err := b.fakePods(ctx)
	return slices.Concat(n.figures, alone, fakes), err
}

// kubeletAlone measures a full node whose kubelet is a separate process.
func (b *bench) kubeletAlone(ctx context.Context) ([]result.Figure, error) {
	n, err := b.splitNode(ctx, instance.Options{})
	if err != nil {
		return nil, err
	}
	defer n.remove(b)
	if err := n.fill(ctx, 110); err != nil {
		return nil, err
	}
	err = n.rest(ctx, "110 Pods, kubelet alone")
	return n.figures, err
}

// splitNode starts an instance whose roles are processes of their own, and waits until its node is
// ready.
func (b *bench) splitNode(ctx context.Context, o instance.Options) (*nodeBench, error) {
	o.Split = true
	i, err := b.newInstance(o)
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
	n.role = "kubelet"
	return n, nil
}

// fakePods measures 1,000 Pods at rest over a fake runtime.
func (b *bench) fakePods(ctx context.Context) ([]result.Figure, error) {
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
	err = n.rest(ctx, fmt.Sprintf("%d fake Pods", b.times(1000)))
	return n.figures, err
}

// fill creates Pods up to a number and waits until all run.
func (n *nodeBench) fill(ctx context.Context, many int) error {
	var names []string
	for ; n.filled < many; n.filled++ {
		names = append(names, fmt.Sprintf("rest-%d", n.filled))
		if err := n.create(ctx, termSleeper(names[len(names)-1])); err != nil {
			return err
		}
	}
	return n.seen.all(ctx, names, running)
}

// rest waits a while, then measures the processes and counts the calls.
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
	after := processes(n.instance.Traces())
	now, err := n.counts(ctx)
	if err != nil {
		return err
	}
	for _, who := range []string{"gantry " + n.role, "containerd", "shims"} {
		n.figures = append(n.figures, sumOf(who, before, after).figures("rest/"+pods+"/"+who, n.window)...)
	}
	made := counts{}
	made.grown(called, now)
	n.figures = append(n.figures, made.figures("calls/a minute at rest, "+pods, n.window.Minutes())...)
	return nil
}

// sumOf adds up the processes of one kind, and the CPU time since before.
func sumOf(kind string, before, after map[string]usage) (sum usage) {
	for pid, u := range after {
		if u.name == kind || strings.HasSuffix(u.name, " "+kind) || kind == "shims" && strings.Contains(u.name,
			"shim") {
			sum.cpu, sum.rss, sum.anon = sum.cpu+u.cpu-before[pid].cpu, sum.rss+u.rss, sum.anon+u.anon
		}
	}
	return sum
}

// group measures life cycles of Pods, atOnce at a time.
func (n *nodeBench) group(ctx context.Context, what string, rounds, atOnce int) error {
	l, err := n.lives(ctx, rounds, atOnce)
	n.figures = append(n.figures,
		result.Durations(what+"/create → Running", l.start), result.Durations(what+"/create → Running, own",
			owns(l.starts)),
		result.Durations(what+"/delete → gone", l.end), result.Durations(what+"/delete → gone, own", owns(l.ends)))
	return err
}

// counted measures life cycles one by one, and their calls to the runtime.
func (n *nodeBench) counted(ctx context.Context, many int) error {
	n.start, n.end = counts{}, counts{}
	err := n.group(ctx, "one by one", many, 1)
	n.figures = slices.Concat(n.figures, n.start.figures("calls/a Pod's start", float64(many), ofNode...),
		n.end.figures("calls/a Pod's end", float64(many), ofNode...))
	n.start, n.end = nil, nil
	return err
}

// note adds to sum the calls since some counts, and returns the new counts; nothing if sum is nil.
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

// lived is when a Pod's steps were requested and observed by the client.
type lived struct {
	name                        string
	created, ran, deleted, gone time.Time
}

// life creates Pods concurrently, waits until they run, deletes them and waits until they are gone.
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
		return n.create(ctx, termSleeper(p.name))
	})
	if err != nil {
		return nil, err
	}
	if err := n.seen.all(ctx, names, running); err != nil {
		return nil, err
	}
	if err := sleep(ctx, 200*time.Millisecond); err != nil { // a shell that just started has not set its trap
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

// exits measures how soon the API says that a process has exited.
func (n *nodeBench) exits(ctx context.Context, many int) error {
	dir, err := os.MkdirTemp("", "gantry-bench-pipes-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var took []time.Duration
	for k := range many {
		d, err := n.exit(ctx, dir, fmt.Sprintf("exit-%d", k))
		if err != nil {
			return err
		}
		took = append(took, d)
	}
	n.figures = append(n.figures, result.Durations("one by one/exit → status", took))
	return nil
}

// exit runs a Pod whose process reads a pipe in a directory, and lets it exit.
func (n *nodeBench) exit(ctx context.Context, dir, name string) (time.Duration, error) {
	p := sleeper(name)
	pipe := filepath.Join(dir, name)
	if err := syscall.Mkfifo(pipe, 0o666); err != nil {
		return 0, err
	}
	p.Spec.RestartPolicy = v1.RestartPolicyNever
	source := v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: dir}}
	p.Spec.Volumes = []v1.Volume{{Name: "pipes", VolumeSource: source}}
	p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "pipes", MountPath: "/pipes"}}
	p.Spec.Containers[0].Command = []string{"cat", "/pipes/" + name}
	if err := n.create(ctx, p); err != nil {
		return 0, err
	}
	if err := n.seen.all(ctx, []string{name}, running); err != nil {
		return 0, err
	}
	w, err := os.OpenFile(pipe, os.O_WRONLY, 0) // blocks until there is a reader; EOF ends it
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if err := w.Close(); err != nil {
		return 0, err
	}
	if err := n.seen.all(ctx, []string{name}, exited); err != nil {
		return 0, err
	}
	took := n.seen.at(name, exited).Sub(began)
	return took, n.client.CoreV1().Pods("default").Delete(ctx, name, metav1.DeleteOptions{})
}
