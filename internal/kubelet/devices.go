package kubelet

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/gantry-project/gantry/internal/kubelet/config"
	"github.com/gantry-project/gantry/internal/kubelet/devices"
	"github.com/gantry-project/gantry/internal/reason"
)

// newDevices makes what gives devices away.
func (k *Kubelet) newDevices() (*devices.Devices, error) {
	o := &k.opts
	d := devices.Deps{RootDir: o.RootDir, Sockets: o.Dependencies.Sockets, Affinity: k.affinity,
		Active: func(uid types.UID) bool { return k.podWorkers.IsActive(uid) },
		Wake:   func(uid types.UID) { k.podWorkers.Wake(uid) }, NodeChanged: o.Dependencies.NodeStatusChanged,
		Metrics: o.Dependencies.Metrics}
	gates, err := config.ResolveGates(o.Config.FeatureGates)
	if err != nil {
		return nil, err
	}
	d.HideHealth = !gates.On("ResourceHealthStatus")
	if m := o.Dependencies.Machine; m != nil {
		d.NUMANodes = m.NodeIDs()
	}
	if !o.StaticPods.Standalone {
		d.API = claimAPI{o.Client, k.node}
	}
	return devices.New(d)
}

// Extended is what the node has of device plugins' resources.
func (k *Kubelet) Extended() (capacity, allocatable v1.ResourceList) { return k.devices.Capacity() }

// PreparedClaims are how many ResourceClaims are prepared here, all and by driver.
func (k *Kubelet) PreparedClaims() (all int, byDriver map[string]int) {
	return k.devices.Claims().Prepared()
}

// startDevices serves plugins, drivers and the PodResources API until ctx ends; the function
// returned waits for the end.
func (k *Kubelet) startDevices(ctx context.Context) (wait func(), err error) {
	return k.devices.Start(ctx, k.podResourcesProviders())
}

// reserveResources gives a Pod that comes CPUs, memory and devices. Nobody else is let in
// meanwhile.
func (k *Kubelet) reserveResources(pod *v1.Pod) *reason.Refusal {
	if k.containers != nil {
		return k.containers.Admit(pod)
	}
	return k.devices.Reserve(pod)
}

// podResources is what workers ask of the managers of resources.
type podResources struct{ kubelet *Kubelet }

// AllocateDevices has plugins prepare the devices that a Pod was given.
func (r podResources) AllocateDevices(ctx context.Context, pod *v1.Pod) *reason.Refusal {
	refusal := r.kubelet.devices.Allocate(ctx, pod)
	if refusal != nil {
		r.kubelet.podWorkers.HoldAdmissions(func() { r.kubelet.containers.Release(pod) })
	}
	return refusal
}

// ResourcesStatus is allocatedResourcesStatus of a Pod's containers.
func (r podResources) ResourcesStatus(pod *v1.Pod) map[string][]v1.ResourceStatus {
	return r.kubelet.devices.ResourcesStatus(pod)
}

// HoldsClaims tells whether drivers have to undo something for a Pod.
func (r podResources) HoldsClaims(uid types.UID) bool { return r.kubelet.devices.Claims().Holds(uid) }

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

// claimAPI is what the manager of claims reads and writes of the cluster.
type claimAPI struct {
	client kubernetes.Interface
	node   *node
}

// GetClaim reads a ResourceClaim.
func (a claimAPI) GetClaim(ctx context.Context, namespace, name string) (*resourceapi.ResourceClaim, error) {
	return a.client.ResourceV1().ResourceClaims(namespace).Get(ctx, name, metav1.GetOptions{})
}

var errNoNode = errors.New("the node is not registered yet")

// DeleteSlices deletes this node's ResourceSlices.
func (a claimAPI) DeleteSlices(ctx context.Context, driver string) error {
	n := a.node.get()
	if n == nil {
		return errNoNode
	}
	which := fields.Set{resourceapi.ResourceSliceSelectorNodeName: n.Name}
	if driver != "" {
		which[resourceapi.ResourceSliceSelectorDriver] = driver
	}
	return a.client.ResourceV1().ResourceSlices().DeleteCollection(ctx, metav1.DeleteOptions{},
		metav1.ListOptions{FieldSelector: which.String()})
}
