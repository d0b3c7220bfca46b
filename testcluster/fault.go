package testcluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/cri/crifake"
	"github.com/gantry-project/gantry/internal/kubelet/podplan"
)

// KillNode kills a node's kubelet as SIGKILL does: it writes nothing more. Its runtime and
// containers run on.
func (c *Cluster) KillNode(node string) {
	c.t.Helper()
	c.node(node).kill()
}

// StartNode starts a node's kubelet again, with the runtime and the files left.
func (c *Cluster) StartNode(node string) {
	c.t.Helper()
	if err := c.startNode(c.node(node)); err != nil {
		c.t.Fatalf("testcluster: node %s: %v", node, err)
	}
}

// KillRuntime kills a node's container runtime as SIGKILL does: calls in flight fail, containers
// run on, their events are lost.
func (c *Cluster) KillRuntime(node string) {
	c.t.Helper()
	c.node(node).runtime.Kill()
}

// StartRuntime starts a node's runtime again, with the containers as they are now.
func (c *Cluster) StartRuntime(node string) {
	c.t.Helper()
	if err := c.node(node).runtime.Restart(); err != nil {
		c.t.Fatalf("testcluster: runtime of %s: %v", node, err)
	}
}

// KillPod has the node's kubelet end a Pod on behalf of the node, as an eviction under node
// pressure does. What it returns is closed when the containers of the Pod have ended.
func (c *Cluster) KillPod(node string, uid types.UID, end podplan.Termination) <-chan struct{} {
	c.t.Helper()
	terminated, ok := c.node(node).kubelet.KillPod(uid, end)
	if !ok {
		c.t.Errorf("testcluster: node %s has no Pod %s", node, uid)
	}
	return terminated
}

// KillAPI kills the API server: requests and watches in flight fail.
func (c *Cluster) KillAPI() {
	c.t.Helper()
	c.connection.disconnect()
	c.stopServer()
}

// StartAPI starts the API server again, with etcd's files.
func (c *Cluster) StartAPI() {
	c.t.Helper()
	if err := c.startServer(); err != nil {
		c.t.Fatalf("testcluster: API server: %v", err)
	}
}

// KillControllers stops the controllers; their state is lost.
func (c *Cluster) KillControllers() {
	if c.stopControllers != nil {
		c.stopControllers()
	}
}

// StartControllers starts the controllers again.
func (c *Cluster) StartControllers() {
	c.t.Helper()
	if err := c.startControllers(); err != nil {
		c.t.Fatalf("testcluster: controllers: %v", err)
	}
}

// FaultPod is Fault for the calls about one Pod only.
func (c *Cluster) FaultPod(node, pod, method, terms string) {
	c.t.Helper()
	if err := c.node(node).runtime.FaultPod(pod, method, terms); err != nil {
		c.t.Fatalf("testcluster: %v", err)
	}
}

// LeftoverCgroups names everything a node has for Pods: sandboxes and containers, addresses,
// cgroups, directories of volumes and logs.
func (c *Cluster) LeftoverCgroups(node string) ([]string, error) {
	c.t.Helper()
	n := c.node(node)
	var out []string
	for _, line := range strings.Split(strings.TrimSpace(n.runtime.Dump()), "\n") {
		if line != "" {
			out = append(out, "runtime: "+strings.TrimSpace(line))
		}
	}
	for _, ip := range n.runtime.Addresses() {
		out = append(out, "address: "+ip.String())
	}
	for _, path := range n.cgroups.all() {
		if strings.Contains(filepath.Base(path), "pod") && !strings.HasSuffix(path, "kubepods") {
			out = append(out, "cgroup: "+path)
		}
	}
	for _, dir := range []string{"pods", "logs"} {
		list, err := os.ReadDir(filepath.Join(n.root, dir))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("what is left on %s: %w", node, err)
		}
		for _, e := range list {
			out = append(out, "directory: "+dir+"/"+e.Name())
		}
	}
	return out, nil
}

// Runtime returns a node's fake runtime, for images, registries and the requests it received.
func (c *Cluster) Runtime(node string) *crifake.Fake {
	c.t.Helper()
	return c.node(node).runtime
}

func (c *Cluster) node(name string) *node {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.nodes[name]
	if n == nil {
		c.t.Fatalf("testcluster: there is no node %s", name)
	}
	return n
}
