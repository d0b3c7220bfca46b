// Package recordednode makes a node like the one on which the lives of Pods in test/recordings were
// recorded: the kubelet's configuration, the images, and what a replay does to the node beside the
// API.
//
// In: a node's data directory, an instance. Out: a pods.Cluster for its node. It is no part of
// package instance, whose users need no runtime.
package recordednode

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
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
	"github.com/gantry-project/gantry/test/instance"
	"github.com/gantry-project/gantry/test/replay/pods"
)

// recordedNode is the configuration of the kubelet whose lives of Pods were recorded: its
// resolv.conf, its folder of static Pods, its cluster DNS. Images stay between lives.
const recordedNode = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
maxPods: 110
clusterDomain: cluster.local
clusterDNS: [10.96.0.10]
resolvConf: %[1]s/resolv.conf
staticPodPath: %[1]s/manifests
imageGCHighThresholdPercent: 100
`

// WriteKubeletConfig writes the recorded node's configuration, and more, for a kubelet whose files
// are in dir. It returns its path.
func WriteKubeletConfig(dir, more string) (string, error) {
	if err := os.MkdirAll(filepath.Join(dir, "manifests"), 0o755); err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, "resolv.conf"),
		[]byte("nameserver 192.0.2.53\nsearch example.test\noptions ndots:1\n"), 0o644); err != nil {
		return "", err
	}
	path := filepath.Join(dir, "kubelet.yaml")
	return path, os.WriteFile(path, []byte(fmt.Sprintf(recordedNode, dir)+more), 0o644)
}

func endpoint(dir string) string { return containerd.Config{DataDir: dir}.Endpoint() }

// DialRuntime waits for the runtime of the node with this data directory.
func DialRuntime(ctx context.Context, dir string) (*cri.Client, error) {
	var c *cri.Client
	err := instance.Poll(ctx, 50*time.Millisecond, func() error {
		var err error
		c, err = cri.Dial(ctx, cri.Options{Endpoint: endpoint(dir), Journal: journal.Discard{}})
		return err
	})
	return c, err
}

// Node says where a node is and how a replay reaches it.
type Node struct {
	Dir       string      // data directory
	Manifests string      // folder of static Pods
	Runtime   *cri.Client // of the node
	Instance  *instance.Instance
}

// Cluster is what replays of Pods need of the cluster with this node; Kubelet is not set.
func (n Node) Cluster(cfg *rest.Config) (*pods.Cluster, error) {
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, err
	}
	return &pods.Cluster{URL: URL(cfg), Client: client, Kubectl: Kubectl(n.Instance), Manifests: n.Manifests,
		Kill: killProcess(n.Runtime.Runtime()), Folders: folders(n.Dir, n.Manifests)}, nil
}

// URL is the API server's address as pods.Cluster has it.
func URL(cfg *rest.Config) string { return strings.TrimSuffix(cfg.Host, "/") }

// Kubectl runs kubectl of an instance.
func Kubectl(i *instance.Instance) func(context.Context, ...string) pods.Printed {
	return func(ctx context.Context, args ...string) pods.Printed {
		out, errs, code := i.Kubectl(ctx, args...)
		return pods.Printed{Out: out, Err: errs, Exit: code}
	}
}

// Kubelet stops and starts the kubelet of a split instance: "stop", else start.
func Kubelet(i *instance.Instance) func(context.Context, string) error {
	return func(_ context.Context, what string) error {
		if what == "stop" {
			return i.End("kubelet")
		}
		return i.StartKubelet()
	}
}

// ServeImages starts a registry that has registry.example/fresh:1 only, which lives pull. The
// caller closes it.
func ServeImages() (*images.Registry, error) {
	r, err := images.Serve(nil)
	if err != nil {
		return nil, err
	}
	if err := r.Push("fresh:1", images.Standard()["registry.example/fresh:1"]); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// MirrorImages has the containerd of the node with this data directory pull from the registry.
func MirrorImages(r *images.Registry, dir string) error {
	return r.Mirror(filepath.Join(dir, "containerd", "certs.d"), "registry.example")
}

// folders are the folders of the node with this data directory under the names that recordings use.
func folders(dir, manifests string) []pods.Folder {
	return []pods.Folder{
		{Real: manifests, Normalized: "/etc/kubernetes/manifests"},
		{Real: filepath.Join(dir, "kubelet"), Normalized: "/var/lib/kubelet"},
		{Real: filepath.Dir(strings.TrimPrefix(endpoint(dir), "unix://")), Normalized: "/run/containerd"},
		{Real: filepath.Join(dir, "containerd"), Normalized: "/var/lib/containerd"},
	}
}

// killProcess returns what sends KILL to the first process of a container, or of the sandbox when
// container is empty, unknown to runtime and kubelet.
func killProcess(runtime internalapi.RuntimeService) func(ctx context.Context, podUID, container string) error {
	return func(ctx context.Context, podUID, container string) error {
		info, err := processInfo(ctx, runtime, podUID, container)
		if err != nil {
			return err
		}
		var more struct{ Pid int }
		if err := json.Unmarshal([]byte(info["info"]), &more); err != nil || more.Pid <= 1 {
			return errors.Join(fmt.Errorf("the runtime does not tell the process of %s %s", podUID, container), err)
		}
		return syscall.Kill(more.Pid, syscall.SIGKILL)
	}
}

// processInfo is what the runtime says about the processes of a container, or of the sandbox.
func processInfo(ctx context.Context, runtime internalapi.RuntimeService, podUID,
	container string) (map[string]string, error) {
	labels := map[string]string{"io.kubernetes.pod.uid": podUID}
	if container == "" {
		boxes, err := runtime.ListPodSandbox(ctx, &runtimeapi.PodSandboxFilter{LabelSelector: labels})
		if err != nil || len(boxes) == 0 {
			return nil, errors.Join(fmt.Errorf("no sandbox of Pod %s", podUID), err)
		}
		status, err := runtime.PodSandboxStatus(ctx, boxes[0].Id, true)
		if err != nil {
			return nil, err
		}
		return status.Info, nil
	}
	labels["io.kubernetes.container.name"] = container
	list, err := runtime.ListContainers(ctx, &runtimeapi.ContainerFilter{LabelSelector: labels})
	if err != nil || len(list) == 0 {
		return nil, errors.Join(fmt.Errorf("no container %s of Pod %s", container, podUID), err)
	}
	status, err := runtime.ContainerStatus(ctx, list[0].Id, true)
	if err != nil {
		return nil, err
	}
	return status.Info, nil
}
