package podactions

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"strconv"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	kubelettypes "k8s.io/kubelet/pkg/types"

	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/kubelet/resource"
)

// containerConfig is the container as CRI takes it.
func (c *operation) containerConfig(ctx context.Context, m podplan.Member, a podplan.Start,
	ref string) (*runtimeapi.ContainerConfig, error) {
	security, err := c.securityContext(ctx, m, ref)
	if err != nil {
		return nil, err
	}
	env, err := c.env(ctx, m)
	if err != nil {
		return nil, err
	}
	mounts, err := c.mounts(ctx, m, env)
	if err != nil {
		return nil, err
	}
	devices, err := c.devices(m)
	if err != nil {
		return nil, err
	}
	given, err := c.deviceOptions(ctx, m)
	if err != nil {
		return nil, err
	}
	lookup := env.lookup()
	return &runtimeapi.ContainerConfig{
		Metadata:    &runtimeapi.ContainerMetadata{Name: m.Name, Attempt: uint32(a.Attempt)},
		Image:       &runtimeapi.ImageSpec{Image: ref, UserSpecifiedImage: m.Image},
		Command:     expandAll(m.Command, lookup),
		Args:        expandAll(m.Args, lookup),
		WorkingDir:  m.WorkingDir,
		Envs:        append(given.envs(), env.list()...), // the last of one name counts
		Mounts:      append(given.mounts(), mounts...),
		Devices:     append(given.deviceNodes(), devices...),
		CDIDevices:  given.cdiDevices(),
		Labels:      c.labels(m),
		Annotations: given.annotations(c.annotations(m, a)),
		LogPath:     path.Join(m.Name, fmt.Sprintf("%d.log", a.Attempt)),
		Stdin:       m.Stdin,
		StdinOnce:   m.StdinOnce,
		Tty:         m.TTY,
		StopSignal:  stopSignal(m),
		Linux: &runtimeapi.LinuxContainerConfig{
			Resources:       c.newContainerResources(m.Container),
			SecurityContext: security,
		},
	}, nil
}

// newContainerResources is what a container is made with: sizes, CPUs and memory nodes.
func (c *operation) newContainerResources(m *v1.Container) *runtimeapi.LinuxContainerResources {
	r := resource.ForContainer(c.pod, m, c.nodeResources(), c.containerOptions(m))
	if cm := c.executor.d.Containers; cm != nil {
		cm.PreCreateContainer(c.pod, m.Name, r)
	}
	return r
}

// containerOptions are the node's options for a container: one with exclusive CPUs has no quota.
func (c *operation) containerOptions(m *v1.Container) resource.Options {
	o := c.executor.d.Node.Resources
	if cm := c.executor.d.Containers; cm != nil && cm.HasExclusiveCPUs(c.pod, m) {
		o.CFSQuota = false
	}
	return o
}

// podOptions are the node's options for the Pod's cgroup: no quota when a container has CPUs of its
// own.
func (c *operation) podOptions() resource.Options {
	o := c.executor.d.Node.Resources
	for _, list := range [][]v1.Container{c.pod.Spec.InitContainers, c.pod.Spec.Containers} {
		for i := range list {
			o.CFSQuota = o.CFSQuota && c.containerOptions(&list[i]).CFSQuota
		}
	}
	return o
}

func (c *operation) labels(m podplan.Member) map[string]string {
	return map[string]string{
		kubelettypes.KubernetesPodNameLabel:       c.pod.Name,
		kubelettypes.KubernetesPodNamespaceLabel:  c.pod.Namespace,
		kubelettypes.KubernetesPodUIDLabel:        string(c.pod.UID),
		kubelettypes.KubernetesContainerNameLabel: m.Name,
	}
}

// annotations are the annotations that a restarted kubelet, or another one, reads.
func (c *operation) annotations(m podplan.Member, a podplan.Start) map[string]string {
	n := map[string]string{
		podplan.HashAnnotation:          podplan.Hash(m.Container),
		podplan.RestartCountAnnotation:  strconv.Itoa(a.Attempt),
		podplan.MessagePathAnnotation:   m.TerminationMessagePath,
		podplan.MessagePolicyAnnotation: string(m.TerminationMessagePolicy),
		podplan.CrashDelayAnnotation:    a.CrashDelay.String(),
	}
	if g := c.pod.DeletionGracePeriodSeconds; g != nil {
		n[podplan.PodDeletionGraceAnnotation] = strconv.FormatInt(*g, 10)
	}
	if g := c.pod.Spec.TerminationGracePeriodSeconds; g != nil {
		n[podplan.PodGraceAnnotation] = strconv.FormatInt(*g, 10)
	}
	if m.Lifecycle != nil && m.Lifecycle.PreStop != nil {
		n[podplan.PreStopAnnotation] = asJSON(m.Lifecycle.PreStop)
	}
	if len(m.Ports) > 0 {
		n[podplan.PortsAnnotation] = asJSON(m.Ports)
	}
	return n
}

func asJSON(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return "" // API types always marshal
	}
	return string(raw)
}

func stopSignal(m podplan.Member) runtimeapi.Signal {
	if m.Lifecycle == nil || m.Lifecycle.StopSignal == nil {
		return runtimeapi.Signal_SIGNAL_RUNTIME_DEFAULT
	}
	return runtimeapi.Signal(runtimeapi.Signal_value["SIGNAL_"+string(*m.Lifecycle.StopSignal)])
}

// nodeResources is what a container's values depend on besides its Pod.
func (c *operation) nodeResources() resource.Node {
	n := resource.Node{Allocatable: c.executor.d.Node.Allocatable()}
	if capacity := c.executor.d.Node.Capacity(); capacity != nil {
		n.MemoryBytes = capacity.Memory().Value()
	}
	return n
}
