package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/gantry-project/gantry/internal/cri"
	"github.com/gantry-project/gantry/test/images"
	"github.com/gantry-project/gantry/test/instance"
	"github.com/gantry-project/gantry/test/replay/pods"
	"github.com/gantry-project/gantry/test/replay/recordednode"
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
	var err error
	if r.options.kubeconfig != "" {
		p.cluster, err = r.foreign()
	} else {
		err = r.start(ctx, p, split)
	}
	if err != nil {
		return nil, errors.Join(err, p.remove())
	}
	if err := createDefaults(ctx, p.cluster); err != nil {
		return nil, errors.Join(err, p.remove())
	}
	return p, nil
}

// foreign is the running cluster that was named.
func (r *podReplay) foreign() (*pods.Cluster, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", r.options.kubeconfig)
	if err != nil {
		return nil, err
	}
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, err
	}
	return &pods.Cluster{URL: recordednode.URL(cfg), Client: client,
		Kubectl: recordednode.Kubectl(instance.Foreign(r.options.binary, r.options.kubeconfig)),
		Kill: func(context.Context, string, string) error {
			return errors.New("this cluster's runtime is not reached")
		}}, nil
}

// start starts a Gantry with the node, images and registry of the recorded cluster.
func (r *podReplay) start(ctx context.Context, p *podInstance, split bool) error {
	number := r.options.number
	if split {
		number++
	}
	dir, err := os.MkdirTemp("", "gantry-recordings-")
	if err != nil {
		return err
	}
	config, err := recordednode.WriteKubeletConfig(dir, "")
	if err != nil {
		return err
	}
	if p.instance, err = instance.New(instance.Options{Binary: r.options.binary, BinDir: r.options.binDir,
		Number: number, Split: split, Config: config, Flags: []string{"--emulated-version=1.36"}}); err != nil {
		return err
	}
	i := p.instance
	if err := r.images(p); err != nil {
		return err
	}
	if err := i.Start(); err != nil {
		return err
	}
	begin, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if err := i.WaitAPI(begin); err != nil {
		return err
	}
	if split {
		if err := i.StartRoles(); err != nil {
			return err
		}
	}
	if p.runtime, err = recordednode.DialRuntime(begin, i.Dir); err != nil {
		return err
	}
	cfg, err := i.Admin(ctx)
	if err != nil {
		return err
	}
	p.cluster, err = recordednode.Node{Dir: i.Dir, Manifests: filepath.Join(dir, "manifests"), Runtime: p.runtime,
		Instance: i}.Cluster(cfg)
	if err == nil && split {
		p.cluster.Kubelet = recordednode.Kubelet(i)
	}
	return err
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
	if p.registry, err = recordednode.ServeImages(); err != nil {
		return err
	}
	return recordednode.MirrorImages(p.registry, p.instance.Dir)
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
		if err := cluster.Send(ctx, http.MethodPost, "/apis/scheduling.k8s.io/v1/priorityclasses",
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
