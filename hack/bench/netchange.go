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

	"github.com/gantry-project/gantry/hack/bench/result"
	dirs "github.com/gantry-project/gantry/internal/instance"
	"github.com/gantry-project/gantry/internal/proxy/nftables/nfnetlink"
	"github.com/gantry-project/gantry/internal/proxy/rules"
	"github.com/gantry-project/gantry/test/instance"
	"github.com/gantry-project/gantry/test/ports"
)

// changes measures `gantry proxy` as a process of its own beside `gantry server`, with 10, 1,000
// and 10,000 Services of five endpoints each. A "change" takes or gives one Service an endpoint,
// one after the other, 60 ms apart (the proxy lets 50 ms pass between two syncs): from the client's
// call that writes the EndpointSlice to the kernel's notice of the new rules, so the API server's
// share is in it. "first sync" is a start without tables, "restart" one that finds them as they
// should be: from exec to the health server's first yes, with the CPU time of the proxy and of the
// nft programs it runs.
func (b *bench) changes(ctx context.Context) ([]result.Figure, error) {
	p := &proxied{bench: b, sizes: []int{10, 1000, 10_000}}
	defer p.stop()
	if err := p.begin(ctx); err != nil {
		return nil, err
	}
	var figures []result.Figure
	for _, n := range p.sizes {
		of, err := p.at(ctx, n)
		if err != nil {
			return nil, fmt.Errorf("%d Services: %w", n, err)
		}
		figures = append(figures, of...)
	}
	return figures, nil
}

// proxied is a server and its proxy.
type proxied struct {
	*bench
	sizes  []int
	dir    string
	client *cluster
	table  *nfnetlink.Table
	health string
	server *exec.Cmd
	proxy  *exec.Cmd
	output bytes.Buffer // of both
	made   int          // Services
}

// begin starts the server. Its Service range is unique on this machine, because the proxy's rules
// affect all of it.
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
	p.server, err = p.run("server", "--data-dir", at, "--secure-port", fmt.Sprint(port), "--node-name", "bench",
		"--service-cluster-ip-range", "10.222.0.0/16")
	if err != nil {
		return err
	}
	i := instance.Foreign(p.binary, filepath.Join(at, "kubeconfig"))
	starting, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := i.WaitAPI(starting); err != nil {
		return fmt.Errorf("%w\n%s", err, p.output.String())
	}
	if p.client, err = connect(starting, i); err != nil {
		return err
	}
	table := rules.NewTableFrame(rules.Settings{Family: rules.IPv4, MasqueradeBit: 14})
	p.table, err = nfnetlink.Open(new(nfnetlink.Conn), rules.IPv4, "gantry_proxy_"+dirs.ID(p.dir), table)
	return err
}

func (p *proxied) run(verb string, args ...string) (*exec.Cmd, error) {
	c := exec.Command(p.binary, append([]string{verb}, args...)...)
	c.Stdout, c.Stderr = &p.output, &p.output
	return c, c.Start()
}

// startProxy starts the proxy and returns the time until its rules were in force, and the CPU time.
func (p *proxied) startProxy(ctx context.Context, name string) (figures []result.Figure, err error) {
	began := time.Now()
	p.proxy, err = p.run("proxy", "--kubeconfig", filepath.Join(p.dir, "server/kubeconfig"), "--data-dir", p.dir,
		"--hostname-override", "bench", "--healthz-bind-address", p.health, "--metrics-bind-address", "")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	err = instance.Poll(ctx, 5*time.Millisecond, func() error { return ready("http://" + p.health + "/livez") })
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, p.output.String())
	}
	took := time.Since(began)
	return []result.Figure{
		result.Value(name, "ms", result.Milliseconds(took)),
		result.Value(name+", CPU", "ms", result.Milliseconds(spent(p.proxy.Process.Pid))),
	}, nil
}

func (p *proxied) end(c *exec.Cmd) {
	if c == nil || c.Process == nil {
		return
	}
	_ = c.Process.Signal(syscall.SIGTERM) // it may have ended
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
func (p *proxied) at(ctx context.Context, n int) ([]result.Figure, error) {
	if err := p.grow(ctx, n); err != nil {
		return nil, err
	}
	if out, err := exec.Command(p.binary, "proxy", "--cleanup", "--data-dir", p.dir).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	name := fmt.Sprintf("%d Services", n)
	figures, err := p.startProxy(ctx, name+"/first sync")
	if err != nil {
		return nil, err
	}
	took, cpu, err := p.change(ctx, n, p.times(200))
	if err != nil {
		return nil, err
	}
	figures = append(figures, result.Durations(name+"/change", took),
		result.Value(name+"/change, CPU", "ms", result.Milliseconds(cpu)))
	rest, err := p.rest(ctx, name)
	if err != nil {
		return nil, err
	}
	p.end(p.proxy)
	again, err := p.startProxy(ctx, name+"/restart")
	p.end(p.proxy)
	return slices.Concat(figures, rest, again), err
}

// rest measures the idle proxy.
func (p *proxied) rest(ctx context.Context, name string) ([]result.Figure, error) {
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
	u := read(fmt.Sprintf("/proc/%d", pid))
	u.cpu = spent(pid) - before
	return u.figures(name, window), nil
}

// grow creates Services until there are n.
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
	s := &v1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("s%d", k)},
		Spec:       v1.ServiceSpec{Ports: []v1.ServicePort{{Name: "http", Port: 80}}},
	}
	if _, err := p.client.client.CoreV1().Services("default").Create(ctx, s, metav1.CreateOptions{}); err != nil {
		return err
	}
	_, err := p.client.client.DiscoveryV1().EndpointSlices("default").Create(ctx, sliceOf(k, 5), metav1.CreateOptions{})
	return err
}

// sliceOf returns a Service's EndpointSlice with the given number of endpoints.
func sliceOf(k, ends int) *discoveryv1.EndpointSlice {
	service := fmt.Sprintf("s%d", k)
	labels := map[string]string{discoveryv1.LabelServiceName: service}
	s := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: service + "-1", Labels: labels},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports: []discoveryv1.EndpointPort{{Name: new("http"), Protocol: new(v1.ProtocolTCP),
			Port: new(int32(8080))}},
	}
	for e := range ends {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{
			Addresses:  []string{fmt.Sprintf("10.%d.%d.%d", 100+e, k>>8, k&255)},
			NodeName:   new(fmt.Sprintf("node-%d", e)),
			Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true), Terminating: new(false)},
			TargetRef:  &v1.ObjectReference{Kind: "Pod", Namespace: "default", Name: fmt.Sprintf("s%d-%d", k, e)},
		})
	}
	return s
}

// change removes and adds endpoints and waits for each change's rules; it returns how long each
// took, and the CPU time of one.
func (p *proxied) change(ctx context.Context, n, many int) (took []time.Duration, cpu time.Duration, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	notified := make(chan time.Time, 1000)
	if err := p.table.Listen(ctx, func(h nfnetlink.Notification) {
		if slices.Contains(h.Sets, "service-ips") {
			notified <- time.Now()
		}
	}); err != nil {
		return nil, 0, err
	}
	pid := p.proxy.Process.Pid
	before := spent(pid)
	for i := range many {
		k := i * 7919 % n // spread over all Services
		s := sliceOf(k, 5)
		if i/n%2 == 0 {
			s = sliceOf(k, 4-slices.Index(p.sizes, n)) // none left from an earlier size
		}
		began := time.Now()
		_, err := p.client.client.DiscoveryV1().EndpointSlices("default").Update(ctx, s, metav1.UpdateOptions{})
		if err != nil {
			return nil, 0, err
		}
		at, late := time.Time{}, time.After(30*time.Second)
		for !at.After(began) { // earlier notifications are of an earlier change
			select {
			case at = <-notified:
			case <-late:
				return nil, 0, fmt.Errorf("30 s after a change its rules are not in the kernel\n%s", p.output.String())
			}
		}
		took = append(took, at.Sub(began))
		if err := sleep(ctx, 60*time.Millisecond); err != nil {
			return nil, 0, err
		}
	}
	return took, (spent(pid) - before) / time.Duration(many), nil
}

// spent returns the CPU time of a process and of its reaped children.
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
