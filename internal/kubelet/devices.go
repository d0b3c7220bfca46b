package kubelet

import (
	"context"
	"fmt"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/kubelet/devicemanager"
	"github.com/gantry-project/gantry/internal/kubelet/devicemanager/manager"
	"github.com/gantry-project/gantry/internal/kubelet/podresources"
	"github.com/gantry-project/gantry/internal/reason"
)

// DevicePluginDir is the directory of device plugins' sockets below the kubelet's own.
const DevicePluginDir = "device-plugins"

// newDeviceManager makes the manager of device plugins' devices.
func (k *Kubelet) newDeviceManager() *manager.Manager {
	var nodes []int
	if m := k.opts.Dependencies.Machine; m != nil {
		nodes = m.NodeIDs()
	}
	return manager.New(manager.Deps{
		Dir: filepath.Join(k.opts.RootDir, DevicePluginDir), Sockets: k.opts.Dependencies.Sockets,
		Active:          func(uid types.UID) bool { return k.podWorkers.IsActive(uid) },
		CapacityChanged: k.capacityChanged, Affinity: k.affinity, NUMANodes: nodes,
		HealthChanged: func(uid types.UID) { k.podWorkers.Wake(uid) },
	})
}

func (k *Kubelet) capacityChanged() {
	if changed := k.opts.Dependencies.NodeStatusChanged; changed != nil {
		changed()
	}
}

// Extended is what the node has of device plugins' resources.
func (k *Kubelet) Extended() (capacity, allocatable v1.ResourceList) {
	if k.workers() == nil {
		return nil, nil
	}
	return k.devices.Capacity()
}

// reserveResources gives a Pod that comes CPUs, memory and devices. Nobody else is let in
// meanwhile.
func (k *Kubelet) reserveResources(pod *v1.Pod) *reason.Refusal {
	if k.containers != nil {
		return k.containers.Admit(pod)
	}
	provider := k.devices.HintProvider()
	return deviceRefusal(eachContainer(pod, func(c *v1.Container) error { return provider.Allocate(pod, c) }))
}

// allocateDevices has plugins prepare the devices that a Pod was given.
func (k *Kubelet) allocateDevices(ctx context.Context, pod *v1.Pod) *reason.Refusal {
	refusal := deviceRefusal(k.devices.Allocate(ctx, pod.UID))
	if refusal != nil {
		k.podWorkers.HoldAdmissions(func() { k.containers.Release(pod) })
	}
	return refusal
}

// deviceRefusal is why a Pod does not get its devices, with upstream's words; nil for nil.
func deviceRefusal(err error) *reason.Refusal {
	if err == nil {
		return nil
	}
	return &reason.Refusal{Code: reason.AdmitUnexpected, By: "kubelet/devicemanager", Err: err,
		Detail: fmt.Sprintf("Allocate failed due to %v, which is unexpected", err),
		Fix:    "see what the device plugin says, or create the Pod without a node for the scheduler to choose one"}
}

// affinity is the NUMA nodes that the topology manager chose for a container; nil: any.
func (k *Kubelet) affinity(uid types.UID, container string) map[int64]bool {
	if k.containers == nil {
		return nil
	}
	var out map[int64]bool
	for _, n := range k.containers.Topology.GetAffinity(uid, container).NUMANodeAffinity.Bits() {
		if out == nil {
			out = map[int64]bool{}
		}
		out[int64(n)] = true
	}
	return out
}

// eachContainer calls f for init containers and then for app containers until it fails.
func eachContainer(pod *v1.Pod, f func(c *v1.Container) error) error {
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if err := f(&list[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// allocatedResources is allocatedResourcesStatus of a Pod's containers.
func (k *Kubelet) allocatedResources(pod *v1.Pod) map[string][]v1.ResourceStatus {
	var out map[string][]v1.ResourceStatus
	for i := range pod.Spec.Containers {
		name := pod.Spec.Containers[i].Name
		list := append(k.devices.ResourcesStatus(pod.UID, name),
			k.claims.ResourcesStatus(pod, &pod.Spec.Containers[i])...)
		if len(list) > 0 {
			if out == nil {
				out = map[string][]v1.ResourceStatus{}
			}
			out[name] = list
		}
	}
	return out
}

// withAllocated is the node with at least as many devices as Pods have, when this Pod has any: it
// was scheduled when they were there, and keeps what it has when their plugin fails.
func (k *Kubelet) withAllocated(node *v1.Node, pod *v1.Pod) *v1.Node {
	if node == nil {
		return nil
	}
	var out *v1.Node
	for name, q := range k.devices.Allocated(pod.UID) {
		if has, ok := node.Status.Allocatable[name]; ok && has.Cmp(q) >= 0 {
			continue
		}
		if out == nil {
			out = node.DeepCopy()
		}
		out.Status.Allocatable[name] = q
	}
	if out == nil {
		return node
	}
	return out
}

// containerDevices is what containers get for their devices.
type containerDevices struct{ *Kubelet }

// RunOptions is podactions.Devices.
func (d containerDevices) RunOptions(ctx context.Context, pod *v1.Pod,
	c *v1.Container) (devicemanager.RunOptions, error) {
	out, err := d.devices.RunOptions(ctx, pod, c)
	if err != nil {
		return out, err
	}
	cdi, err := d.claims.CDIDevices(pod, c)
	out.CDIDevices = append(cdi, out.CDIDevices...)
	return out, err
}

// startDevices serves device plugins, drivers and the PodResources API until ctx ends; the function
// returned waits for the end.
func (k *Kubelet) startDevices(ctx context.Context) (wait func(), err error) {
	if k.opts.Dependencies.Sockets == nil {
		return func() {}, nil
	}
	registered, err := k.devices.Start(ctx)
	if err != nil {
		return nil, err
	}
	drivers, undone := k.claims.Start(ctx)
	k.claimDrivers = drivers
	served := make(chan struct{})
	go func() {
		defer close(served)
		err := podresources.Serve(ctx, podresources.SocketPath(k.opts.RootDir), k.opts.Dependencies.Sockets.Listen,
			podresources.Providers{Pods: k.activePods, Devices: k.devices, DynamicResources: k.claims})
		if err != nil {
			klog.FromContext(ctx).Error(err, "Nobody can ask what Pods have of the node")
		}
	}()
	return func() { registered(); undone(); <-served }, nil
}
