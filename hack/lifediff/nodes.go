package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/gantry-project/gantry/internal/containerd"
	"github.com/gantry-project/gantry/internal/cri"
	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/test/images"
	"github.com/gantry-project/gantry/test/replay/instance"
	"github.com/gantry-project/gantry/test/replay/pods"
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

// kubeletConfig is the configuration of both kubelets.
const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
maxPods: 110
clusterDomain: cluster.local
clusterDNS: [10.96.0.10]
resolvConf: %[1]s/resolv.conf
staticPodPath: %[1]s/manifests
imageGCHighThresholdPercent: 100
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
		func(_ context.Context, what string) error {
			if what == "stop" {
				return p.gantry.End("kubelet")
			}
			return p.gantry.StartKubelet()
		}); err != nil {
		return err
	}
	if err := p.cluster(begin, cfg, upstreamNode, p.upstream.dir, filepath.Join(p.upstream.dir, "manifests"),
		p.upstream.kubelet); err != nil {
		return err
	}
	return p.ready(begin)
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
	if err := os.MkdirAll(filepath.Join(dir, "manifests"), 0o755); err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, "resolv.conf"),
		[]byte("nameserver 192.0.2.53\nsearch example.test\noptions ndots:1\n"), 0o644); err != nil {
		return "", err
	}
	path := filepath.Join(dir, "kubelet.yaml")
	return path, os.WriteFile(path, fmt.Appendf(nil, kubeletConfig+more, dir), 0o644)
}

// images puts the images where both containerds import them, and serves those that are to be
// pulled.
func (p *pair) images(archive string) error {
	standard := images.Standard()
	names := []string{busyboxImage, agnhostImage, nonRootImage}
	if err := images.Archive(archive, images.Select(standard, names...)); err != nil {
		return err
	}
	var err error
	if p.registry, err = images.Serve(nil); err != nil {
		return err
	}
	if err := p.registry.Push("fresh:1", standard["registry.example/fresh:1"]); err != nil {
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
		if err := p.registry.Mirror(filepath.Join(node, "containerd", "certs.d"), "registry.example"); err != nil {
			return err
		}
	}
	return p.upstream.serve(p.registry.Addr)
}

// cluster prepares what lives on a node need.
func (p *pair) cluster(ctx context.Context, cfg *rest.Config, node, dir, manifests string,
	kubelet func(context.Context, string) error) error {
	endpoint := containerd.Config{DataDir: dir}.Endpoint()
	var runtime *cri.Client
	err := p.gantry.Await(ctx, 50*time.Millisecond, func(ctx context.Context) (err error) {
		runtime, err = cri.Dial(ctx, cri.Options{Endpoint: endpoint, Journal: journal.Discard{}})
		return err
	})
	if err != nil {
		return err
	}
	p.runtimes = append(p.runtimes, runtime)
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return err
	}
	p.clusters[node] = &pods.Cluster{
		URL: strings.TrimSuffix(cfg.Host, "/"), Client: client, Manifests: manifests, Kubelet: kubelet,
		Kubectl: func(ctx context.Context, args ...string) pods.Printed {
			out, errs, code := p.gantry.Kubectl(ctx, args...)
			return pods.Printed{Out: out, Err: errs, Exit: code}
		},
		Kill: killProcess(runtime.Runtime()),
		Folders: []pods.Folder{
			{Real: manifests, Normalized: "/etc/kubernetes/manifests"},
			{Real: filepath.Join(dir, "kubelet"), Normalized: "/var/lib/kubelet"},
			{Real: filepath.Dir(strings.TrimPrefix(endpoint, "unix://")), Normalized: "/run/containerd"},
			{Real: filepath.Join(dir, "containerd"), Normalized: "/var/lib/containerd"},
			{Real: p.registry.Addr, Normalized: "registry.example"},
		},
		Names: []pods.Folder{{Real: node, Normalized: anyNode}},
	}
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

// send sends one request as the administrator.
func send(ctx context.Context, cluster *pods.Cluster, method, path, kind, body string) error {
	req, err := http.NewRequestWithContext(ctx, method, cluster.URL+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", kind)
	res, err := cluster.Client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if text, _ := io.ReadAll(res.Body); res.StatusCode >= 300 && res.StatusCode != http.StatusConflict {
		return fmt.Errorf("%s %s: %s: %s", method, path, res.Status, text)
	}
	return nil
}

// killProcess sends KILL to the first process of a container, or of the sandbox, behind the back of
// runtime and kubelet.
func killProcess(runtime internalapi.RuntimeService) func(ctx context.Context, podUID, container string) error {
	return func(ctx context.Context, podUID, container string) error {
		labels := map[string]string{"io.kubernetes.pod.uid": podUID}
		var info map[string]string
		if container == "" {
			boxes, err := runtime.ListPodSandbox(ctx, &runtimeapi.PodSandboxFilter{LabelSelector: labels})
			if err != nil || len(boxes) == 0 {
				return errors.Join(fmt.Errorf("no sandbox of Pod %s", podUID), err)
			}
			status, err := runtime.PodSandboxStatus(ctx, boxes[0].Id, true)
			if err != nil {
				return err
			}
			info = status.Info
		} else {
			labels["io.kubernetes.container.name"] = container
			list, err := runtime.ListContainers(ctx, &runtimeapi.ContainerFilter{LabelSelector: labels})
			if err != nil || len(list) == 0 {
				return errors.Join(fmt.Errorf("no container %s of Pod %s", container, podUID), err)
			}
			status, err := runtime.ContainerStatus(ctx, list[0].Id, true)
			if err != nil {
				return err
			}
			info = status.Info
		}
		var more struct{ Pid int }
		if err := json.Unmarshal([]byte(info["info"]), &more); err != nil || more.Pid <= 1 {
			return errors.Join(fmt.Errorf("the runtime does not tell the process of %s %s", podUID, container), err)
		}
		return syscall.Kill(more.Pid, syscall.SIGKILL)
	}
}
