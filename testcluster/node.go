package testcluster

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"github.com/gantry-project/gantry/internal/cri"
	"github.com/gantry-project/gantry/internal/cri/crifake"
	"github.com/gantry-project/gantry/internal/kubelet"
	"github.com/gantry-project/gantry/internal/kubelet/devicemanager/plugin"
	"github.com/gantry-project/gantry/internal/kubelet/nodestatus"
	"github.com/gantry-project/gantry/internal/kubelet/pluginmanager"
	"github.com/gantry-project/gantry/internal/kubelet/resource"
	"github.com/gantry-project/gantry/internal/linux/mount"
)

// node is one kubelet with its fake runtime.
type node struct {
	name, root string
	runtime    *crifake.Fake
	cgroups    *fakeCgroups
	report     *nodestatus.Reporter
	kubelet    *kubelet.Kubelet
	stop       func() // stops the kubelet; it writes pending statuses
	kill       func() // kills it
}

// addNode starts a kubelet and its runtime.
func (c *Cluster) addNode(name string, number int) error {
	fake, err := crifake.Start(crifake.Options{Dir: filepath.Join(c.dir, fmt.Sprint("n", number)), InMemory: true,
		PodCIDR: netip.MustParsePrefix(fmt.Sprintf("127.%d.0.0/16", 80+number%100))})
	if err != nil {
		return err
	}
	c.t.Cleanup(fake.Close)
	n := &node{name: name, root: filepath.Join(c.dir, name), runtime: fake,
		cgroups: &fakeCgroups{created: map[string]bool{}}}
	c.mu.Lock()
	for _, r := range c.rules {
		fake.On(r.match, r.script)
	}
	c.nodes[name] = n
	c.mu.Unlock()
	return c.startNode(n)
}

// startNode starts the node's kubelet.
func (c *Cluster) startNode(n *node) error {
	sink := c.log.SinkFor("kubelet", n.name)
	runtime, err := cri.Dial(context.Background(),
		cri.Options{Endpoint: n.runtime.Endpoint(), Dialer: n.runtime.Dialer(),
			Journal: sink})
	if err != nil {
		return err
	}
	life, cut := context.WithCancel(context.Background())
	client, err := kubernetes.NewForConfig(c.connection.config(life, &user.DefaultInfo{Name: "system:node:" + n.name,
		Groups: []string{user.NodesGroup, user.AllAuthenticated}}))
	if err != nil {
		cut()
		return err
	}
	k, err := c.newKubelet(n, client, runtime)
	if err != nil {
		cut()
		return err
	}
	n.report, err = nodestatus.New(nodestatus.Options{
		Client: client, Register: true, MaxPods: 110, Journal: sink,
		Identity: nodestatus.Identity{Name: n.name,
			Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}}},
		Machine: nodestatus.Machine{CPUs: 8, MemoryBytes: 32 << 30, EphemeralBytes: 100 << 30, OSImage: "testcluster"},
		Sources: nodestatus.Sources{Runtime: runtime.ProbeRuntime(), Images: runtime.Images(),
			Extended: k.Extended, VolumesInUse: k.VolumesInUse,
			RuntimeSuspect: runtime.Signals().RuntimeSuspect, ImagesChanged: runtime.Signals().ImagesChanged},
	})
	if err != nil {
		cut()
		return err
	}
	n.kubelet = k
	stopReport := c.background("node "+n.name, n.report.Run)
	stopKubelet := c.background("kubelet "+n.name, k.Run)
	n.stop = func() {
		stopKubelet()
		stopReport()
		cut()
		_ = runtime.Close() // unused from here on
	}
	stop := n.stop
	n.kill = func() {
		cut()
		_ = runtime.Close() // calls in flight fail
		stop()
	}
	c.t.Cleanup(stop)
	return nil
}

func (c *Cluster) newKubelet(n *node, client kubernetes.Interface, runtime *cri.Client) (*kubelet.Kubelet, error) {
	o := kubelet.Options{
		Client: client, NodeName: n.name, Config: &kubeletconfig.KubeletConfiguration{MaxPods: 110,
			ClusterDomain: "cluster.local"},
		Runtime: runtime.Runtime(), Images: runtime.Images(), RootDir: n.root, LogDir: filepath.Join(n.root, "logs"),
		Resources: resource.Options{Root: "/" + n.name}, Journal: c.log.SinkFor("kubelet", n.name),
		Dependencies: kubelet.Dependencies{HostIPs: func() []string { return []string{"127.0.0.1"} },
			Cgroups: n.cgroups, Mounts: mount.DirMounter{}, ProbeRuntime: runtime.ProbeRuntime(),
			Dial: n.runtime.DialPod},
	}
	if c.o.plugins {
		o.Dependencies.Sockets = plugin.UnixSockets{}
		o.Dependencies.PluginManager = pluginmanager.New(filepath.Join(n.root, "plugins_registry"), klog.Background())
		o.Dependencies.NodeStatusChanged = func() {
			if r := n.report; r != nil {
				r.Trigger()
			}
		}
	}
	return kubelet.New(o)
}

// KubeletDir is the directory of a node's kubelet, below which plugins register (WithPlugins).
func (c *Cluster) KubeletDir(node string) string { return c.node(node).root }

// waitNodes waits until every node is Ready without taints that repel Pods, and Pods can be
// created.
func (c *Cluster) waitNodes() error {
	deadline := time.After(startTimeout)
	for name, n := range c.nodes {
		select {
		case <-n.report.Ready():
		case <-deadline:
			return fmt.Errorf("node %s was not Ready within %s", name, startTimeout)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	return c.until(ctx, "the default service account", func() (bool, error) {
		_, err := c.Client.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
		return err == nil, nil
	})
}

// until polls every few milliseconds: what it waits for takes less than a second.
func (c *Cluster) until(ctx context.Context, what string, ok func() (bool, error)) error {
	tick := time.NewTicker(3 * time.Millisecond)
	defer tick.Stop()
	for {
		done, err := ok()
		if done || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, ctx.Err())
		}
	}
}

// WaitPod waits until ok returns true and returns the Pod; nil means that it is gone. The test
// fails if ctx ends first.
func (c *Cluster) WaitPod(ctx context.Context, namespace, name string, ok func(*corev1.Pod) bool) *corev1.Pod {
	c.t.Helper()
	selector := metav1.ListOptions{FieldSelector: "metadata.name=" + name}
	for {
		list, err := c.Client.CoreV1().Pods(namespace).List(ctx, selector)
		if err != nil {
			c.t.Fatalf("testcluster: waiting for pod %s/%s: %v", namespace, name, err)
		}
		var p *corev1.Pod
		if len(list.Items) == 1 {
			p = &list.Items[0]
		}
		if ok(p) {
			return p
		}
		o := selector
		o.ResourceVersion = list.ResourceVersion
		w, err := c.Client.CoreV1().Pods(namespace).Watch(ctx, o)
		if err != nil {
			c.t.Fatalf("testcluster: waiting for pod %s/%s: %v", namespace, name, err)
		}
		select {
		case <-w.ResultChan():
		case <-ctx.Done():
			c.t.Fatalf("testcluster: pod %s/%s did not come to the wanted state: %v\nnow: %+v\n%s", namespace, name,
				ctx.Err(), p, c.Dump())
		}
		w.Stop()
	}
}

// Fault makes calls to a node's runtime fail: terms such as "2*error(no space)->ok", "delay(1s)",
// "hang".
func (c *Cluster) Fault(node, method, terms string) {
	c.t.Helper()
	if err := c.node(node).runtime.Fault(method, terms); err != nil {
		c.t.Fatalf("testcluster: %v", err)
	}
}

// StopNode stops a node's kubelet; its containers run on, and the API gets no more statuses.
func (c *Cluster) StopNode(node string) {
	c.t.Helper()
	c.node(node).stop()
}

// Dump returns the runtimes' state, for failure messages.
func (c *Cluster) Dump() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var b strings.Builder
	for name, n := range c.nodes {
		fmt.Fprintf(&b, "%s:\n%s\n", name, n.runtime.Dump())
	}
	return b.String()
}

// fakeCgroups is a cgroup tree that only has names.
type fakeCgroups struct {
	mu      sync.Mutex
	created map[string]bool
}

func (g *fakeCgroups) Ensure(path string, _ resource.Values) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.created[path] = true
	return nil
}

func (g *fakeCgroups) Remove(path string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for p := range g.created {
		if p == path || strings.HasPrefix(p, path+"/") {
			delete(g.created, p)
		}
	}
	return nil
}

// all returns the names of the cgroups.
func (g *fakeCgroups) all() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Sorted(maps.Keys(g.created))
}

func (g *fakeCgroups) List(parent string) ([]string, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []string
	for p := range g.created {
		if rest, below := strings.CutPrefix(p, parent+"/"); below && !strings.Contains(rest, "/") {
			out = append(out, rest)
		}
	}
	slices.Sort(out)
	return out, nil
}
