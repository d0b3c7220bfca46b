package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/gantry-project/gantry/internal/cri"
	"github.com/gantry-project/gantry/test/images"
	"github.com/gantry-project/gantry/test/instance"
	"github.com/gantry-project/gantry/test/replay/pods"
	"github.com/gantry-project/gantry/test/replay/recordednode"
)

// The names of the nodes, and the one that stands for both in what is compared: as long as they
// are.
const (
	gantryNode   = "life-gantry"
	upstreamNode = "life-origin"
	anyNode      = "life-sample"
)

// Addresses of the nodes, and where upstream's Pods are.
const (
	gantryIP         = "10.179.255.1"
	upstreamIP       = "10.179.255.2"
	upstreamPodRange = "10.179.128.0/24"
)

// kubeletConfig is what the configuration of both kubelets has beside the recorded node's.
const kubeletConfig = `# of both
evictionHard: {memory.available: 1Mi, nodefs.available: 1Mi, nodefs.inodesFree: "1", imagefs.available: 1Mi}
crashLoopBackOff: {maxContainerRestartPeriod: 8s}
featureGates: {KubeletCrashLoopBackOffMax: true}
`

// pair is the two nodes of a cluster.
type pair struct {
	gantry   *instance.Instance
	upstream *upstreamMachine
	registry *images.Registry
	runtimes []*cri.Client
	dirs     []string
	clusters map[string]*pods.Cluster

	allocatable map[string]v1.ResourceList // by node
}

func newPair(ctx context.Context, o options) (*pair, error) {
	p := &pair{clusters: map[string]*pods.Cluster{}}
	if err := p.start(ctx, o); err != nil {
		return nil, errors.Join(err, p.remove())
	}
	return p, nil
}

func (p *pair) start(ctx context.Context, o options) error {
	if out, err := exec.Command("sh", "-euc", "ip link set lo up").CombinedOutput(); err != nil {
		return fmt.Errorf("the loopback: %w\n%s", err, out)
	}
	dir, err := p.tempDir()
	if err != nil {
		return err
	}
	config, err := writeConfig(dir, "")
	if err != nil {
		return err
	}
	if p.gantry, err = instance.New(instance.Options{Binary: o.gantry, Node: gantryNode, NodeIP: gantryIP, Split: true,
		Config: config, Server: []string{"--advertise-address", gantryIP}}); err != nil {
		return err
	}
	if p.upstream, err = newUpstream(o); err != nil {
		return err
	}
	archive := filepath.Join(dir, "images.tar")
	if err := p.images(archive); err != nil {
		return err
	}
	if err := p.gantry.Start(); err != nil {
		return err
	}
	begin, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	if err := p.gantry.WaitAPI(begin); err != nil {
		return err
	}
	if err := p.gantry.StartRoles(); err != nil {
		return err
	}
	if err := p.upstream.start(begin, p.gantry); err != nil {
		return err
	}
	cfg, err := p.gantry.Admin(begin)
	if err != nil {
		return err
	}
	if err := p.cluster(begin, cfg, gantryNode, p.gantry.Dir, filepath.Join(dir, "manifests"),
		recordednode.Kubelet(p.gantry)); err != nil {
		return err
	}
	if err := p.cluster(begin, cfg, upstreamNode, p.upstream.dir, filepath.Join(p.upstream.dir, "manifests"),
		p.upstream.kubelet); err != nil {
		return err
	}
	if err := p.ready(begin); err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	p.allocatable = map[string]v1.ResourceList{}
	for _, node := range []string{gantryNode, upstreamNode} {
		n, err := client.CoreV1().Nodes().Get(begin, node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		p.allocatable[node] = n.Status.Allocatable
	}
	return nil
}

func (p *pair) tempDir() (string, error) {
	dir, err := os.MkdirTemp("", "gantry-lifediff-")
	if err == nil {
		p.dirs = append(p.dirs, dir)
	}
	return dir, err
}

// writeConfig writes the configuration of a kubelet whose files are in dir.
func writeConfig(dir, more string) (string, error) {
	return recordednode.WriteKubeletConfig(dir, kubeletConfig+more)
}

// images puts the images where both containerds import them, and serves those that are to be
// pulled.
func (p *pair) images(archive string) error {
	names := []string{busyboxImage, agnhostImage, nonRootImage}
	if err := images.Archive(archive, images.Select(images.Standard(), names...)); err != nil {
		return err
	}
	var err error
	if p.registry, err = recordednode.ServeImages(); err != nil {
		return err
	}
	for _, node := range []string{p.gantry.Dir, p.upstream.dir} {
		dir := filepath.Join(node, "images")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := os.Link(archive, filepath.Join(dir, "images.tar")); err != nil {
			return err
		}
		if err := recordednode.MirrorImages(p.registry, node); err != nil {
			return err
		}
	}
	return p.upstream.serve(p.registry.Addr)
}

// cluster prepares what lives on a node need.
func (p *pair) cluster(ctx context.Context, cfg *rest.Config, node, dir, manifests string,
	kubelet func(context.Context, string) error) error {
	runtime, err := recordednode.DialRuntime(ctx, dir)
	if err != nil {
		return err
	}
	p.runtimes = append(p.runtimes, runtime)
	c, err := recordednode.Node{Dir: dir, Manifests: manifests, Runtime: runtime, Instance: p.gantry}.Cluster(cfg)
	if err != nil {
		return err
	}
	c.Kubelet, c.Names = kubelet, []pods.Folder{{Real: node, Normalized: anyNode}}
	c.Folders = append(c.Folders, pods.Folder{Real: p.registry.Addr, Normalized: "registry.example"})
	p.clusters[node] = c
	return nil
}

// ready waits until both nodes are.
func (p *pair) ready(ctx context.Context) error {
	return p.gantry.Await(ctx, 500*time.Millisecond, func(ctx context.Context) error {
		if err := p.upstream.failed(); err != nil {
			return err
		}
		for _, node := range []string{gantryNode, upstreamNode} {
			out := p.clusters[node].Kubectl(ctx, "get", "node", node, "-o",
				`jsonpath={.status.conditions[?(@.type=="Ready")].status}`)
			if strings.TrimSpace(out.Out) != "True" {
				return fmt.Errorf("node %s is not ready: %s%s", node, out.Out, out.Err)
			}
		}
		return nil
	})
}

func (p *pair) remove() error {
	var errs []error
	for _, r := range p.runtimes {
		errs = append(errs, r.Close())
	}
	if p.upstream != nil {
		errs = append(errs, p.upstream.remove())
	}
	if p.gantry != nil {
		errs = append(errs, p.gantry.Remove())
	}
	if p.registry != nil {
		errs = append(errs, p.registry.Close())
	}
	for _, dir := range p.dirs {
		errs = append(errs, os.RemoveAll(dir))
	}
	return errors.Join(errs...)
}
