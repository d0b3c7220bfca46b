package podactions

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	kubelettypes "k8s.io/kubelet/pkg/types"

	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/reason"
)

func (c *operation) createSandbox(ctx context.Context, a podplan.CreateSandbox) error {
	handler, err := c.executor.d.Cluster.RuntimeHandler(ctx, deref(c.pod.Spec.RuntimeClassName))
	if err != nil {
		return c.sandboxRefusal(ctx, err)
	}
	cfg, err := c.sandboxConfig(ctx, a.Attempt,
		func(reason, message string) { c.executor.d.Events.Pod(c.pod, v1.EventTypeWarning, reason, message) })
	if err != nil {
		return c.sandboxRefusal(ctx, err)
	}
	if err := os.MkdirAll(cfg.LogDirectory, 0o755); err != nil {
		return c.sandboxRefusal(ctx, err)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	callCtx, done := withStartGrace(ctx)
	defer done()
	requested := false
	err = c.callLimited(ctx, sandboxPriority, "make the sandbox", func() error {
		requested = true
		_, err := c.executor.d.Runtime.RunPodSandbox(callCtx, cfg, handler)
		return err
	})
	if err == nil {
		return nil
	}
	refusal := c.sandboxRefusal(ctx, err)
	if requested && isAbandoned(err) {
		refusal.Err = fmt.Errorf("%w: %w", ErrAbandoned, err)
	}
	return refusal
}

// ErrAbandoned is in the error of a sandbox's making that nobody waited for any longer: the runtime
// may finish it nevertheless.
var ErrAbandoned = errors.New("given up")

// isAbandoned tells whether a call ended because its caller did not wait any longer. What another
// broken call has made is on the runtime's record when it answers again.
func isAbandoned(err error) bool {
	c := status.Code(err)
	return c == codes.Canceled || c == codes.DeadlineExceeded || errors.Is(err, context.Canceled) || errors.Is(err,
		context.DeadlineExceeded)
}

func (c *operation) sandboxRefusal(ctx context.Context, err error) *reason.Refusal {
	if ctx.Err() == nil {
		c.executor.d.Events.SandboxFailed(c.pod, err)
	}
	return newRefusal(reason.FailedCreatePodSandBox, err)
}

func (c *operation) stopSandbox(ctx context.Context, a podplan.StopSandbox) error {
	if a.Changed {
		c.executor.d.Events.SandboxChanged(c.pod)
	}
	err := c.callLimited(ctx, containerPriority, "stop the sandbox",
		func() error { return ignoreNotFound(c.executor.d.Runtime.StopPodSandbox(ctx, a.ID)) })
	if err != nil {
		return newRefusal(reason.FailedStop, fmt.Errorf("stop sandbox %s: %w", a.ID, err))
	}
	return nil
}

func (c *operation) removeSandbox(ctx context.Context, a podplan.RemoveSandbox) error {
	if err := ignoreNotFound(c.executor.d.Runtime.StopPodSandbox(ctx, a.ID)); err != nil {
		return newRefusal(reason.FailedRelease, fmt.Errorf("stop sandbox %s: %w", a.ID, err))
	}
	if err := ignoreNotFound(c.executor.d.Runtime.RemovePodSandbox(ctx, a.ID)); err != nil {
		return newRefusal(reason.FailedRelease, fmt.Errorf("remove sandbox %s: %w", a.ID, err))
	}
	c.executor.d.RuntimeCache.Forget(a.ID)
	return nil
}

func (c *operation) removeContainer(ctx context.Context, a podplan.RemoveContainer) error {
	if err := ignoreNotFound(c.executor.d.Runtime.RemoveContainer(ctx, a.ID)); err != nil {
		return newRefusal(reason.FailedRelease, fmt.Errorf("remove container %s: %w", a.ID, err))
	}
	c.executor.d.RuntimeCache.Forget(a.ID)
	return nil
}

// sandboxConfig is the sandbox as CRI takes it.
func (c *operation) sandboxConfig(ctx context.Context, attempt uint32,
	warn func(reason, message string)) (*runtimeapi.PodSandboxConfig, error) {
	dns, err := c.dns(warn)
	if err != nil {
		return nil, err
	}
	host, domain, err := hostnameOf(c.pod)
	if err != nil {
		return nil, err
	}
	hostname, err := c.fullHostname(host, domain)
	if err != nil {
		return nil, err
	}
	if c.pod.Spec.HostNetwork && c.pod.Spec.HostnameOverride == nil {
		hostname = ""
	}
	labels := map[string]string{}
	for k, v := range c.pod.Labels {
		labels[k] = v
	}
	labels[kubelettypes.KubernetesPodNameLabel] = c.pod.Name
	labels[kubelettypes.KubernetesPodNamespaceLabel] = c.pod.Namespace
	labels[kubelettypes.KubernetesPodUIDLabel] = string(c.pod.UID)
	linux, err := c.linuxSandbox(ctx)
	if err != nil {
		return nil, err
	}
	return &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: c.pod.Name, Namespace: c.pod.Namespace,
			Uid: string(c.pod.UID), Attempt: attempt},
		Hostname:     hostname,
		LogDirectory: LogDir(c.executor.d.Node.LogDir, c.pod),
		DnsConfig:    dns,
		PortMappings: portMappings(c.pod),
		Labels:       labels,
		Annotations:  c.pod.Annotations,
		Linux:        linux,
	}, nil
}

func (c *operation) linuxSandbox(ctx context.Context) (*runtimeapi.LinuxPodSandboxConfig, error) {
	users, err := c.userNamespace(ctx)
	if err != nil {
		return nil, err
	}
	o := c.executor.d.Node.Resources
	l := &runtimeapi.LinuxPodSandboxConfig{
		CgroupParent:    o.CgroupParent(c.pod),
		Sysctls:         map[string]string{},
		SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{NamespaceOptions: namespaces(c.pod)},
	}
	// runtimes that make a machine of its own for the Pod need both before there is a container
	l.Resources = ownResources(c.pod, o)
	l.Overhead = overhead(c.pod, o)
	s := l.SecurityContext
	s.NamespaceOptions.UsernsOptions = users
	s.Seccomp = &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault}
	for _, m := range podplan.Members(c.pod) {
		if sc := m.SecurityContext; sc != nil && sc.Privileged != nil && *sc.Privileged {
			s.Privileged = true
		}
	}
	sc := c.pod.Spec.SecurityContext
	if sc == nil {
		return l, nil
	}
	for _, p := range sc.Sysctls {
		l.Sysctls[strings.ReplaceAll(p.Name, "/", ".")] = p.Value
	}
	s.RunAsUser, s.RunAsGroup = int64Value(sc.RunAsUser), int64Value(sc.RunAsGroup)
	s.SupplementalGroups, s.SupplementalGroupsPolicy = supplementalGroups(sc)
	s.SelinuxOptions = selinux(sc.SELinuxOptions)
	return l, nil
}

func namespaces(pod *v1.Pod) *runtimeapi.NamespaceOption {
	n := &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER}
	if pod.Spec.HostNetwork {
		n.Network = runtimeapi.NamespaceMode_NODE
	}
	if pod.Spec.HostIPC {
		n.Ipc = runtimeapi.NamespaceMode_NODE
	}
	switch share := pod.Spec.ShareProcessNamespace; {
	case pod.Spec.HostPID:
		n.Pid = runtimeapi.NamespaceMode_NODE
	case share != nil && *share:
		n.Pid = runtimeapi.NamespaceMode_POD
	}
	return n
}

// portMappings are the host ports of app containers and sidecars; a Pod on the host's network maps
// nothing.
func portMappings(pod *v1.Pod) []*runtimeapi.PortMapping {
	if pod.Spec.HostNetwork {
		return nil
	}
	var out []*runtimeapi.PortMapping
	for _, m := range podplan.Members(pod) {
		if m.Kind != podplan.App && m.Kind != podplan.Sidecar {
			continue
		}
		for _, p := range m.Ports {
			if p.HostPort <= 0 {
				continue
			}
			out = append(out, &runtimeapi.PortMapping{
				Protocol:      runtimeapi.Protocol(runtimeapi.Protocol_value[string(p.Protocol)]),
				ContainerPort: p.ContainerPort, HostPort: p.HostPort, HostIp: p.HostIP,
			})
		}
	}
	return out
}

func deref[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}
