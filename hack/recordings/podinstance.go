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
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/gantry-project/gantry/internal/containerd"
	"github.com/gantry-project/gantry/internal/cri"
	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/test/images"
	"github.com/gantry-project/gantry/test/replay/instance"
	"github.com/gantry-project/gantry/test/replay/pods"
)

// podInstance is a cluster for Pods with what the recorded cases expect.
type podInstance struct {
	cluster  *pods.Cluster
	instance *instance.Instance
	registry *images.Registry
	runtime  *cri.Client
}

func (p *podInstance) remove() error {
	var errs []error
	if p.runtime != nil {
		errs = append(errs, p.runtime.Close())
	}
	if p.registry != nil {
		errs = append(errs, p.registry.Close())
	}
	if p.instance != nil {
		errs = append(errs, p.instance.Remove())
	}
	return errors.Join(errs...)
}

// newInstance returns the running cluster that was named, or starts one.
func (r *podReplay) newInstance(ctx context.Context, split bool) (*podInstance, error) {
	p := &podInstance{}
	var cfg *rest.Config
	var err error
	if r.options.kubeconfig != "" {
		cfg, err = clientcmd.BuildConfigFromFlags("", r.options.kubeconfig)
		if err != nil {
			return nil, err
		}
		gantry := instance.Foreign(r.options.binary, r.options.kubeconfig)
		p.cluster = &pods.Cluster{Kubectl: runKubectl(gantry), Kill: func(context.Context, string, string) error {
			return errors.New("this cluster's runtime is not reached")
		}}
	} else if cfg, err = r.start(ctx, p, split); err != nil {
		return nil, errors.Join(err, p.remove())
	}
	if p.cluster.Client, err = rest.HTTPClientFor(cfg); err != nil {
		return nil, errors.Join(err, p.remove())
	}
	p.cluster.URL = strings.TrimSuffix(cfg.Host, "/")
	if err := createDefaults(ctx, p.cluster); err != nil {
		return nil, errors.Join(err, p.remove())
	}
	return p, nil
}

// start starts a Gantry with the node, images and registry of the recorded cluster.
func (r *podReplay) start(ctx context.Context, p *podInstance, split bool) (*rest.Config, error) {
	number := r.options.number
	if split {
		number++
	}
	dir, err := os.MkdirTemp("", "gantry-recordings-")
	if err != nil {
		return nil, err
	}
	config, err := kubeletConfig(dir)
	if err != nil {
		return nil, err
	}
	if p.instance, err = instance.New(instance.Options{Binary: r.options.binary, BinDir: r.options.binDir,
		Number: number, Split: split, Config: config, Flags: []string{"--emulated-version=1.36"}}); err != nil {
		return nil, err
	}
	i := p.instance
	if err := r.images(p); err != nil {
		return nil, err
	}
	if err := i.Start(); err != nil {
		return nil, err
	}
	begin, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if err := i.WaitAPI(begin); err != nil {
		return nil, err
	}
	if split {
		if err := i.StartRoles(); err != nil {
			return nil, err
		}
	}
	if p.runtime, err = dial(begin, i.Dir); err != nil {
		return nil, err
	}
	p.cluster = &pods.Cluster{
		Kubectl: runKubectl(i), Manifests: filepath.Join(dir, "manifests"), Kill: killProcess(p.runtime.Runtime()),
		Folders: []pods.Folder{
			{Real: filepath.Join(dir, "manifests"), Normalized: "/etc/kubernetes/manifests"},
			{Real: filepath.Join(i.Dir, "kubelet"), Normalized: "/var/lib/kubelet"},
			{Real: filepath.Dir(strings.TrimPrefix(endpoint(i.Dir), "unix://")), Normalized: "/run/containerd"},
			{Real: filepath.Join(i.Dir, "containerd"), Normalized: "/var/lib/containerd"},
		},
	}
	if split {
		p.cluster.Kubelet = func(_ context.Context, what string) error {
			if what == "stop" {
				return i.End("kubelet")
			}
			return i.StartKubelet()
		}
	}
	return i.Admin(ctx)
}

func endpoint(dir string) string { return containerd.Config{DataDir: dir}.Endpoint() }

// dial waits for the instance's runtime.
func dial(ctx context.Context, dir string) (*cri.Client, error) {
	var c *cri.Client
	err := instance.Poll(ctx, 50*time.Millisecond, func() error {
		var err error
		c, err = cri.Dial(ctx, cri.Options{Endpoint: endpoint(dir), Journal: journal.Discard{}})
		return err
	})
	return c, err
}

// runKubectl runs kubectl of an instance.
func runKubectl(i *instance.Instance) func(context.Context, ...string) pods.Printed {
	return func(ctx context.Context, args ...string) pods.Printed {
		out, errs, code := i.Kubectl(ctx, args...)
		return pods.Printed{Out: out, Err: errs, Exit: code}
	}
}

// kubeletConfig writes the configuration of the recorded node: its resolv.conf, its static Pod
// folder, its cluster DNS.
func kubeletConfig(dir string) (string, error) {
	if err := os.Mkdir(filepath.Join(dir, "manifests"), 0o755); err != nil {
		return "", err
	}
	resolv := filepath.Join(dir, "resolv.conf")
	if err := os.WriteFile(resolv, []byte("nameserver 192.0.2.53\nsearch example.test\noptions ndots:1\n"),
		0o644); err != nil {
		return "", err
	}
	path := filepath.Join(dir, "kubelet.yaml")
	// keeps the images between cases
	text := fmt.Sprintf("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: "+
		"110\nclusterDomain: cluster.local\nclusterDNS: [10.96.0.10]\nresolvConf: %s\nstaticPodPath: "+
		"%s\nimageGCHighThresholdPercent: 100\n",
		resolv, filepath.Join(dir, "manifests"))
	return path, os.WriteFile(path, []byte(text), 0o644)
}

// images puts the recorded node's images where Gantry imports them, and starts a registry with
// registry.example/fresh:1 only.
func (r *podReplay) images(p *podInstance) error {
	archive := filepath.Join(p.instance.Dir, "images", "recorded.tar")
	if err := os.MkdirAll(filepath.Dir(archive), 0o755); err != nil {
		return err
	}
	names := []string{"registry.example/busybox:1.37", "registry.example/agnhost:2.63", "registry.example/nginx:1.27",
		"registry.example/nonroot:1.5"}
	if err := images.Archive(archive, images.Select(images.Standard(), names...)); err != nil {
		return err
	}
	var err error
	if p.registry, err = images.Serve(nil); err != nil {
		return err
	}
	if err := p.registry.Push("fresh:1", images.Standard()["registry.example/fresh:1"]); err != nil {
		return err
	}
	return p.registry.Mirror(filepath.Join(p.instance.Dir, "containerd", "certs.d"), "registry.example")
}

// createDefaults creates what every case expects: priority classes, a file on the node, a ready
// node.
func createDefaults(ctx context.Context, cluster *pods.Cluster) error {
	for _, c := range []struct {
		name, policy string
		value        int
	}{{"rec-low", "PreemptLowerPriority", 10}, {"rec-high", "PreemptLowerPriority", 1000},
		{"rec-never", "Never", 2000}} {
		body := fmt.Sprintf(
			`{"apiVersion":"scheduling.k8s.io/v1","kind":"PriorityClass","metadata":{"name":%q},"value":%d,`+
				`"preemptionPolicy":%q}`, c.name, c.value, c.policy)
		if err := sendOne(ctx, cluster, http.MethodPost, "/apis/scheduling.k8s.io/v1/priorityclasses",
			"application/json", body); err != nil {
			return err
		}
	}
	if err := os.MkdirAll("/tmp/rec-hostpath", 0o755); err != nil {
		return err
	}
	if err := os.WriteFile("/tmp/rec-hostpath/file", []byte("on the node\n"), 0o644); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return instance.Poll(ctx, 50*time.Millisecond, func() error {
		p := cluster.Kubectl(ctx, "wait", "node/node-1", "--for=condition=Ready", "--timeout=20s")
		if p.Exit != 0 {
			return errors.New(p.Err)
		}
		return nil
	})
}

func sendOne(ctx context.Context, cluster *pods.Cluster, method, path, kind, body string) error {
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

// killProcess sends KILL to the first process of a container, or of the sandbox, bypassing runtime
// and kubelet.
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
