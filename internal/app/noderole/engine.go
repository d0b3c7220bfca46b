package noderole

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/tools/record"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/containerd"
	"github.com/gantry-project/gantry/internal/cri"
	"github.com/gantry-project/gantry/internal/cri/pullprogress"
	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/metrics"
	kubeletresource "github.com/gantry-project/gantry/internal/kubelet/resource"
	"github.com/gantry-project/gantry/internal/linux/systemdcgroup"
	"github.com/gantry-project/gantry/internal/options"
)

// followImages imports archives that are put into DATA-DIR/images, until ctx ends. That it cannot
// look there is no reason for the node to stop.
func (e *ContainerRuntime) followImages(ctx context.Context, events record.EventRecorder, node string) {
	var all sync.WaitGroup
	all.Go(func() { e.images.publish(ctx, events, node) })
	if e.Child != nil {
		fault := func(err error) { klog.FromContext(ctx).Error(err, "Image archives wait") }
		if err := e.Child.FollowImages(ctx, fault); err != nil {
			klog.FromContext(ctx).Error(err, "Image archives are imported at the next start only")
		}
	}
	<-ctx.Done()
	all.Wait()
}

// stopGrace is what containers get when all Pods are stopped with Gantry, in seconds.
const stopGrace = 10

// StopSandboxes stops every container with grace, then every sandbox, and returns how many Pods
// that were.
func StopSandboxes(ctx context.Context, runtime internalapi.RuntimeService) (int, error) {
	containers, err := runtime.ListContainers(ctx,
		&runtimeapi.ContainerFilter{
			State: &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING}})
	if err != nil {
		return 0, err
	}
	var wg sync.WaitGroup
	var failed atomic.Pointer[error]
	note := func(err error) {
		if err != nil {
			failed.Store(&err)
		}
	}
	for _, c := range containers {
		wg.Go(func() { note(runtime.StopContainer(ctx, c.Id, stopGrace)) })
	}
	wg.Wait()
	boxes, err := runtime.ListPodSandbox(ctx,
		&runtimeapi.PodSandboxFilter{
			State: &runtimeapi.PodSandboxStateValue{State: runtimeapi.PodSandboxState_SANDBOX_READY}})
	if err != nil {
		return 0, err
	}
	for _, b := range boxes {
		wg.Go(func() { note(runtime.StopPodSandbox(ctx, b.Id)) })
	}
	wg.Wait()
	if e := failed.Load(); e != nil {
		return len(boxes), *e
	}
	return len(boxes), nil
}

// ContainerRuntime is the container runtime and the network of a node.
type ContainerRuntime struct {
	Child   *containerd.Child // nil when the runtime is somebody else's
	Client  *cri.Client
	store   *pullprogress.Store // tells how far pulls are
	Metrics *metrics.Metrics
	// network tells that Pods are on Gantry's own network.
	Network        bool
	NetworkReady   func() error // says what is waited for where another CNI plugin makes the network; nil: nothing is
	PolicyListener net.Listener // where new Pods wait for their network policies; nil: nowhere
	images         *importQueue
	logf           func(string, ...any)
}

// StartContainerRuntime starts or adopts containerd, makes the Pod network and connects over CRI.
// say is told each step.
func StartContainerRuntime(ctx context.Context, p *options.Instance, sink journal.Sink,
	logf func(string, ...any)) (*ContainerRuntime, error) {
	e := &ContainerRuntime{Metrics: metrics.New(), images: newImportQueue(), logf: logf}
	sink = e.Metrics.Sink(sink)
	endpoint := p.Runtime
	if endpoint == "" {
		if err := ownContainerRuntime(ctx, p, e, logf); err != nil {
			return nil, err
		}
		endpoint = e.Child.Endpoint()
	}
	dial := cri.Options{
		Endpoint: endpoint, ImageEndpoint: p.CRI.ImageEndpoint, Timeout: p.CRI.Timeout, Journal: sink,
		ConnectTimeout: 30 * time.Second, OnCall: e.Metrics.RuntimeCall,
		OnMessage: sandboxRequests(),
	}
	err := e.handshake(ctx, dial)
	if err == nil {
		e.store, err = pullprogress.Open(pullprogress.Options{Endpoint: cmp.Or(p.CRI.ImageEndpoint, endpoint)})
	}
	if err != nil {
		e.Close()
		return nil, err
	}
	return e, nil
}

// ownContainerRuntime makes network and containerd side by side.
func ownContainerRuntime(ctx context.Context, p *options.Instance, e *ContainerRuntime,
	logf func(string, ...any)) error {
	created := make(chan error, 1)
	go func() { created <- makeNetwork(ctx, p, e, logf) }()
	cfg := p.ContainerdConfig()
	cfg.OnEvent = func(ev containerd.Event) {
		switch {
		case ev.Err != nil:
			logf("containerd %s: %v", ev.Kind, ev.Err)
		default:
			logf("containerd %s (pid %d, %s)", ev.Kind, ev.PID, ev.Took.Round(time.Millisecond))
		}
	}
	cfg.OnImport = e.images.add
	var err error
	e.Child, err = containerd.Start(ctx, cfg)
	if networkErr := <-created; networkErr != nil {
		err = errors.Join(err, fmt.Errorf("Pod network: %w", networkErr))
	}
	if err != nil {
		e.Close()
	}
	return withMissingFix(err)
}

// withMissingFix turns what the machine lacks into an error with its remedy.
func withMissingFix(err error) error {
	var missing *containerd.PreflightError
	if errors.As(err, &missing) {
		what := missing.What
		if missing.Err != nil {
			what += ": " + missing.Err.Error()
		}
		return cli.WithFix(errors.New(what), "%s", missing.Fix)
	}
	return err
}

// NetworkNotReady says what the node's network waits for, nil when for nothing.
func (e *ContainerRuntime) NetworkNotReady() error {
	if e.NetworkReady == nil {
		return nil
	}
	return e.NetworkReady()
}

// Close leaves containerd and all containers running.
func (e *ContainerRuntime) Close() {
	if e.Client != nil {
		_ = e.Client.Close() // what is lost with it is asked again by the next one
	}
	if e.store != nil {
		_ = e.store.Close()
	}
	if e.PolicyListener != nil {
		_ = e.PolicyListener.Close()
	}
	if e.Child != nil {
		e.Child.Close()
	}
}

// cgroupDriver writes into the configuration which driver kubelet and runtime work with, says so
// when the two would differ, and reaches systemd when that is to keep the cgroups; nil with
// cgroupfs. It waits for a runtime that is away.
func (e *ContainerRuntime) cgroupDriver(ctx context.Context,
	c *kubeletconfig.KubeletConfiguration) (*systemdcgroup.Manager, error) {
	var f cri.Features
	err := e.whileAway(ctx, func() (err error) {
		f, err = e.Client.Features(ctx)
		return err
	})
	if err != nil {
		return nil, cli.WithFix(fmt.Errorf("asking the container runtime what it can do: %w", err),
			"see the runtime's log; `gantry doctor` names what it lacks")
	}
	driver, warning, err := kubeletresource.DriverOf(c.CgroupDriver, f.CgroupDriver)
	if err != nil {
		return nil, err
	}
	if warning != "" {
		e.logf("warning: %s", warning)
		klog.FromContext(ctx).Info(warning)
	}
	c.CgroupDriver = string(driver)
	if driver != kubeletresource.Systemd {
		return nil, nil
	}
	m, err := systemdcgroup.Dial(systemdcgroup.Options{Unified: unifiedCgroups()})
	if err != nil {
		return nil, cli.WithFix(
			fmt.Errorf("the container runtime has systemd keep cgroups (its cgroup driver is systemd), and %w", err),
			"run where systemd runs, or have the runtime use the cgroupfs driver (containerd: SystemdCgroup = false) "+
				"and restart it")
	}
	return m, nil
}

// registryDir is where the runtime reads registry hosts from.
func (e *ContainerRuntime) registryDir() string {
	if e.Child == nil {
		return ""
	}
	return e.Child.RegistryDir()
}

// handshake connects to the container runtime and sets e.client. A containerd of this process is
// waited for until ctx ends, as this process starts it again; another runtime for o.ConnectTimeout.
func (e *ContainerRuntime) handshake(ctx context.Context, o cri.Options) error {
	dial := func() (err error) {
		e.Client, err = cri.Dial(ctx, o)
		return err
	}
	if e.Child == nil {
		return dial()
	}
	return e.whileAway(ctx, dial)
}

// whileAway asks again until the answer is another than that the runtime is away, or ctx ends. It
// says what it waits for, each cause once in a row.
func (e *ContainerRuntime) whileAway(ctx context.Context, ask func() error) error {
	output := ""
	for {
		err := ask()
		if !cri.IsUnavailable(err) || ctx.Err() != nil {
			return err
		}
		if text := err.Error(); text != output {
			output = text
			e.logf("waiting for the container runtime: %s", text)
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(runtimeAgain):
		}
	}
}
