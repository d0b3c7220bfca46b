package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	dirs "github.com/gantry-project/gantry/internal/linux/instance"
	"github.com/gantry-project/gantry/internal/proxy/kernel/wire"
	"github.com/gantry-project/gantry/internal/proxy/rules"
	"github.com/gantry-project/gantry/test/ports"
	"github.com/gantry-project/gantry/test/replay/instance"
)

// changes measures `gantry proxy` beside `gantry server`: from the write of a slice to the rule, a full look, and what it takes at rest.
func (b *bench) changes(ctx context.Context) error {
	p := &proxied{bench: b, sizes: []int{10, 1000, 10_000}}
	defer p.stop()
	if err := p.begin(ctx); err != nil {
		return err
	}
	var rows [][]string
	for _, n := range p.sizes {
		row, err := p.at(ctx, n)
		if err != nil {
			return fmt.Errorf("%d Services: %w", n, err)
		}
		rows = append(rows, row)
	}
	b.page.add(section{
		Title: "Changes of Services",
		How: fmt.Sprintf("`gantry proxy` as a process of its own beside `gantry server`; Services with five endpoints each. A change takes or gives one Service an endpoint; its time runs from the client's call that "+
			"writes the slice to the kernel's notice of the new rules, so the API server's share is in it (%d changes, one after the other, 60 ms apart: the proxy lets 50 ms pass between two looks). "+
			"*From nothing* is a start without tables, *again* one that finds them as they should be: from exec to the health server's first yes, with the processor time of the proxy and of the nft programs it runs.", b.times(200)),
		Head: []string{"Services", "change p50, ms", "p99, ms", "CPU of one, ms", "from nothing, ms", "CPU, ms", "again, ms", "CPU, ms", "RSS, MiB", "anonymous, MiB", "at rest, % of a core"},
		Rows: rows, Budget: "change p50 ≤ 10 ms and p99 ≤ 50 ms with 10,000 Services; RSS ≤ 150 MiB with 10,000; nothing at rest",
	})
	return nil
}

// proxied is a server and its proxy.
type proxied struct {
	*bench
	sizes  []int
	dir    string
	client *cluster
	table  *wire.Table
	health string
	server *exec.Cmd
	proxy  *exec.Cmd
	said   bytes.Buffer // by both
	made   int          // Services
}

// begin starts the server. Its Services' addresses are nobody else's on this machine, as the proxy's rules hold for all of it.
func (p *proxied) begin(ctx context.Context) (err error) {
	if p.dir, err = os.MkdirTemp("", "gantry-bench-proxy-"); err != nil {
		return err
	}
	port, err := ports.Free()
	if err != nil {
		return err
	}
	healthz, err := ports.Free()
	if err != nil {
		return err
	}
	p.health = fmt.Sprintf("127.0.0.1:%d", healthz)
	at := filepath.Join(p.dir, "server")
	if p.server, err = p.run("server", "--data-dir", at, "--secure-port", fmt.Sprint(port), "--node-name", "bench", "--service-cluster-ip-range", "10.222.0.0/16"); err != nil {
		return err
	}
	i := instance.Foreign(p.binary, filepath.Join(at, "kubeconfig"))
	starting, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := i.WaitAPI(starting); err != nil {
		return fmt.Errorf("%w\n%s", err, p.said.String())
	}
	if p.client, err = connect(starting, i); err != nil {
		return err
	}
	p.table, err = wire.Open(new(wire.Line), rules.IPv4, "gantry_proxy_"+dirs.ID(p.dir), rules.Table(rules.Settings{Family: rules.IPv4, MasqueradeBit: 14}))
	return err
}

func (p *proxied) run(verb string, args ...string) (*exec.Cmd, error) {
	c := exec.Command(p.binary, append([]string{verb}, args...)...)
	c.Stdout, c.Stderr = &p.said, &p.said
	return c, c.Start()
}

// start starts the proxy and returns how long it took until its rules were in force, and the processor time.
func (p *proxied) start(ctx context.Context) (took, cpu time.Duration, err error) {
	began := time.Now()
	if p.proxy, err = p.run("proxy", "--kubeconfig", filepath.Join(p.dir, "server/kubeconfig"), "--data-dir", p.dir, "--hostname-override", "bench",
		"--healthz-bind-address", p.health, "--metrics-bind-address", ""); err != nil {
		return 0, 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	err = instance.Poll(ctx, 5*time.Millisecond, func() error { return ready("http://" + p.health + "/livez") })
	if err != nil {
		return 0, 0, fmt.Errorf("%w\n%s", err, p.said.String())
	}
	return time.Since(began), spent(p.proxy.Process.Pid), nil
}

func (p *proxied) end(c *exec.Cmd) {
	if c == nil || c.Process == nil {
		return
	}
	_ = c.Process.Signal(syscall.SIGTERM) // one that has ended is what is wanted
	_ = c.Wait()
}

func (p *proxied) stop() {
	p.end(p.proxy)
	p.end(p.server)
	if out, err := exec.Command(p.binary, "proxy", "--cleanup", "--data-dir", p.dir).CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v: %s\n", err, out)
	}
	if p.table != nil {
		p.table.Close()
	}
	if err := os.RemoveAll(p.dir); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
	}
}

// at measures with n Services.
func (p *proxied) at(ctx context.Context, n int) ([]string, error) {
	if err := p.grow(ctx, n); err != nil {
		return nil, err
	}
	if out, err := exec.Command(p.binary, "proxy", "--cleanup", "--data-dir", p.dir).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	nothing, cpuNothing, err := p.start(ctx)
	if err != nil {
		return nil, err
	}
	took, cpuOne, err := p.change(ctx, n, p.times(200))
	if err != nil {
		return nil, err
	}
	settle, window := 20*time.Second, 30*time.Second
	if p.short {
		settle, window = 2*time.Second, 5*time.Second
	}
	if err := sleep(ctx, settle); err != nil {
		return nil, err
	}
	pid := p.proxy.Process.Pid
	before := spent(pid)
	if err := sleep(ctx, window); err != nil {
		return nil, err
	}
	rest, u := spent(pid)-before, read(fmt.Sprintf("/proc/%d", pid))
	p.end(p.proxy)
	again, cpuAgain, err := p.start(ctx)
	p.end(p.proxy)
	return []string{fmt.Sprint(n), ms(quantile(took, 0.5)), ms(quantile(took, 0.99)), ms(cpuOne), ms(nothing), ms(cpuNothing), ms(again), ms(cpuAgain), mib(u.rss), mib(u.anon),
		fmt.Sprintf("%.2f", float64(rest)/float64(window)*100)}, err
}

// grow makes Services until there are n.
func (p *proxied) grow(ctx context.Context, n int) error {
	work, failed := make(chan int), make(chan error, 16)
	for range cap(failed) {
		go func() {
			var err error
			for k := range work {
				if err == nil {
					err = p.service(ctx, k)
				}
			}
			failed <- err
		}()
	}
	for ; p.made < n; p.made++ {
		work <- p.made
	}
	close(work)
	var errs []error
	for range cap(failed) {
		errs = append(errs, <-failed)
	}
	return errors.Join(errs...)
}

func (p *proxied) service(ctx context.Context, k int) error {
	s := &v1.Service{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("s%d", k)}, Spec: v1.ServiceSpec{Ports: []v1.ServicePort{{Name: "http", Port: 80}}}}
	if _, err := p.client.client.CoreV1().Services("default").Create(ctx, s, metav1.CreateOptions{}); err != nil {
		return err
	}
	_, err := p.client.client.DiscoveryV1().EndpointSlices("default").Create(ctx, sliceOf(k, 5), metav1.CreateOptions{})
	return err
}

// sliceOf is a Service's slice with so many endpoints.
func sliceOf(k, ends int) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("s%d-1", k), Labels: map[string]string{discoveryv1.LabelServiceName: fmt.Sprintf("s%d", k)}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: new("http"), Protocol: new(v1.ProtocolTCP), Port: new(int32(8080))}}}
	for e := range ends {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("10.%d.%d.%d", 100+e, k>>8, k&255)}, NodeName: new(fmt.Sprintf("node-%d", e)),
			Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true), Terminating: new(false)},
			TargetRef:  &v1.ObjectReference{Kind: "Pod", Namespace: "default", Name: fmt.Sprintf("s%d-%d", k, e)}})
	}
	return s
}

// change takes and gives endpoints and waits for each change's rules; it returns how long each took, and the processor time of one.
func (p *proxied) change(ctx context.Context, n, many int) (took []time.Duration, cpu time.Duration, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	heard := make(chan time.Time, 1000)
	if err := p.table.Listen(ctx, func(h wire.Heard) {
		if slices.Contains(h.Sets, "service-ips") {
			heard <- time.Now()
		}
	}); err != nil {
		return nil, 0, err
	}
	pid := p.proxy.Process.Pid
	before := spent(pid)
	for i := range many {
		k := i * 7919 % n // all over
		s := sliceOf(k, 5)
		if i/n%2 == 0 {
			s = sliceOf(k, 4-slices.Index(p.sizes, n)) // none that it has from an earlier size
		}
		began := time.Now()
		if _, err := p.client.client.DiscoveryV1().EndpointSlices("default").Update(ctx, s, metav1.UpdateOptions{}); err != nil {
			return nil, 0, err
		}
		at, late := time.Time{}, time.After(30*time.Second)
		for !at.After(began) { // what was heard before is of an earlier change
			select {
			case at = <-heard:
			case <-late:
				return nil, 0, fmt.Errorf("30 s after a change its rules are not in the kernel\n%s", p.said.String())
			}
		}
		took = append(took, at.Sub(began))
		if err := sleep(ctx, 60*time.Millisecond); err != nil {
			return nil, 0, err
		}
	}
	return took, (spent(pid) - before) / time.Duration(many), nil
}

// spent is the processor time of a process and of those it has waited for.
func spent(pid int) time.Duration {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(stat), ") ")
	sum := 0
	if f := strings.Fields(rest); len(f) > 14 {
		for _, ticks := range f[11:15] {
			n, _ := strconv.Atoi(ticks)
			sum += n
		}
	}
	return time.Duration(sum) * (time.Second / 100) // USER_HZ is 100 on every Linux that Go runs on
}
