package snapshot

import (
	"fmt"
	"maps"
	"slices"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	ndf "k8s.io/component-helpers/nodedeclaredfeatures"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/pod"
)

// NodeInfo is one node and what stands on it. Values inside a Snapshot are never changed: Cache and
// the edits change a clone.
type NodeInfo struct {
	node                         *v1.Node
	pods                         []framework.PodInfo
	podsWithAffinity             []framework.PodInfo // with any inter-Pod affinity
	podsWithRequiredAntiAffinity []framework.PodInfo // with required anti-affinity
	podsWithWideAntiAffinity     []framework.PodInfo // of these, with a topology beyond the host
	ports                        framework.HostPortInfo
	requested                    Resource
	nonZeroRequested             Resource
	allocatable                  Resource
	images                       map[string]*framework.ImageStateSummary
	pvcRefCounts                 map[string]int // "namespace/name" of claims to the number of Pods using them
	// volumes of Pods that are neither claims nor made of the API's objects or the node's own disk
	inlineVolumes int
	features      ndf.FeatureSet
	generation    int64
}

var _ framework.NodeInfo = (*NodeInfo)(nil)

// NewNodeInfo is a node with Pods on it; node may be nil for Pods whose node is not known.
func NewNodeInfo(node *v1.Node, pods ...framework.PodInfo) *NodeInfo {
	n := &NodeInfo{}
	n.SetNode(node)
	for _, p := range pods {
		n.AddPodInfo(p)
	}
	return n
}

// Node is nil when only Pods are known.
func (n *NodeInfo) Node() *v1.Node { return n.node }

// GetPods lists the Pods on the node, assumed ones included.
func (n *NodeInfo) GetPods() []framework.PodInfo { return n.pods }

// GetPodsWithAffinity lists those with inter-Pod affinity or anti-affinity of any kind.
func (n *NodeInfo) GetPodsWithAffinity() []framework.PodInfo { return n.podsWithAffinity }

// GetPodsWithRequiredAntiAffinity lists those with required anti-affinity.
func (n *NodeInfo) GetPodsWithRequiredAntiAffinity() []framework.PodInfo {
	return n.podsWithRequiredAntiAffinity
}

// GetPodsWithRequiredNonHostScopedAntiAffinity lists those whose required anti-affinity reaches
// beyond the host.
func (n *NodeInfo) GetPodsWithRequiredNonHostScopedAntiAffinity() []framework.PodInfo {
	return n.podsWithWideAntiAffinity
}

// GetUsedPorts gives the host ports taken.
func (n *NodeInfo) GetUsedPorts() framework.HostPortInfo { return n.ports }

// GetRequested sums the requests of all Pods here; Pods is their number.
func (n *NodeInfo) GetRequested() framework.Resource { return &n.requested }

// GetNonZeroRequested sums them with defaults for containers that request nothing.
func (n *NodeInfo) GetNonZeroRequested() framework.Resource { return &n.nonZeroRequested }

// GetAllocatable is status.allocatable.
func (n *NodeInfo) GetAllocatable() framework.Resource { return &n.allocatable }

// GetImageStates gives the images present, by every name they have.
func (n *NodeInfo) GetImageStates() map[string]*framework.ImageStateSummary { return n.images }

// GetPVCRefCounts counts the Pods using each claim.
func (n *NodeInfo) GetPVCRefCounts() map[string]int { return n.pvcRefCounts }

// GetGeneration grows with each change.
func (n *NodeInfo) GetGeneration() int64 { return n.generation }

// GetNodeDeclaredFeatures is status.declaredFeatures, as far as this release knows them.
func (n *NodeInfo) GetNodeDeclaredFeatures() ndf.FeatureSet { return n.features }

// Snapshot gives a copy that may be changed.
func (n *NodeInfo) Snapshot() framework.NodeInfo { return n.clone() }

// String prints name and sums.
func (n *NodeInfo) String() string {
	name := "unknown node"
	if n.node != nil {
		name = n.node.Name
	}
	return fmt.Sprintf("%s: %d Pods, requested cpu %dm memory %d, allocatable cpu %dm memory %d", name, len(n.pods),
		n.requested.MilliCPU, n.requested.Memory, n.allocatable.MilliCPU, n.allocatable.Memory)
}

// SetNode replaces the node object.
func (n *NodeInfo) SetNode(node *v1.Node) {
	n.node, n.allocatable, n.features = node, Resource{}, ndf.FeatureSet{}
	n.generation++
	if node != nil {
		n.allocatable.AddList(node.Status.Allocatable)
		n.features = ndf.DefaultFramework.TryMap(node.Status.DeclaredFeatures)
	}
}

// AddPodInfo puts a Pod onto the node.
func (n *NodeInfo) AddPodInfo(p framework.PodInfo) {
	n.pods = append(n.pods, p)
	if hasAffinity(p) {
		n.podsWithAffinity = append(n.podsWithAffinity, p)
	}
	if len(p.GetRequiredAntiAffinityTerms()) > 0 {
		n.podsWithRequiredAntiAffinity = append(n.podsWithRequiredAntiAffinity, p)
		if hasNonHostAntiAffinity(p) {
			n.podsWithWideAntiAffinity = append(n.podsWithWideAntiAffinity, p)
		}
	}
	n.updateResources(p, 1)
}

// RemovePod takes a Pod off the node; it is an error when it does not stand here.
func (n *NodeInfo) RemovePod(_ logr.Logger, p *v1.Pod) error {
	i := indexOf(n.pods, p)
	if i < 0 {
		return fmt.Errorf("Pod %s does not stand on %s", pod.Key(p), n)
	}
	gone := n.pods[i]
	n.pods = removeAt(n.pods, i)
	for _, list := range []*[]framework.PodInfo{&n.podsWithAffinity, &n.podsWithRequiredAntiAffinity,
		&n.podsWithWideAntiAffinity} {
		if j := indexOf(*list, p); j >= 0 {
			*list = removeAt(*list, j)
		}
	}
	n.updateResources(gone, -1)
	if len(pod.HostPorts(gone.GetPod())) > 0 { // Pods bound by hand may share a port: those left keep it
		for _, other := range n.pods {
			n.addPorts(other.GetPod())
		}
	}
	return nil
}

func (n *NodeInfo) addPorts(p *v1.Pod) {
	for _, port := range pod.HostPorts(p) {
		if n.ports == nil {
			n.ports = framework.HostPortInfo{}
		}
		n.ports.Add(port.HostIP, string(port.Protocol), port.HostPort)
	}
}

// updateResources adds (sign 1) or subtracts (-1) what a Pod takes of the node: requests, host
// ports, attachable inline volumes, claims. Each call is a new generation.
func (n *NodeInfo) updateResources(p framework.PodInfo, sign int) {
	n.generation++
	requests, nonZero := requestsOf(p)
	if sign > 0 {
		n.requested.Add(requests)
		n.requested.Pods++
		n.nonZeroRequested.MilliCPU, n.nonZeroRequested.Memory = n.nonZeroRequested.MilliCPU+nonZero.MilliCPU,
			n.nonZeroRequested.Memory+nonZero.Memory
	} else {
		n.requested.Sub(requests)
		n.requested.Pods--
		n.nonZeroRequested.MilliCPU, n.nonZeroRequested.Memory = n.nonZeroRequested.MilliCPU-nonZero.MilliCPU,
			n.nonZeroRequested.Memory-nonZero.Memory
	}
	if sign > 0 {
		n.addPorts(p.GetPod())
	} else {
		for _, port := range pod.HostPorts(p.GetPod()) {
			n.ports.Remove(port.HostIP, string(port.Protocol), port.HostPort)
		}
	}
	for i := range p.GetPod().Spec.Volumes {
		if attachable(&p.GetPod().Spec.Volumes[i].VolumeSource) {
			n.inlineVolumes += sign
		}
	}
	for _, key := range Claims(p.GetPod()) {
		if n.pvcRefCounts == nil {
			n.pvcRefCounts = map[string]int{}
		}
		if n.pvcRefCounts[key] += sign; n.pvcRefCounts[key] <= 0 {
			delete(n.pvcRefCounts, key)
		}
	}
}

// InlineVolumes is how many volumes Pods bring that may have to be attached without a claim, each
// counted for every Pod.
func (n *NodeInfo) InlineVolumes() int { return n.inlineVolumes }

// attachable tells whether a volume without a claim may have to be attached.
func attachable(v *v1.VolumeSource) bool {
	return v.AWSElasticBlockStore != nil || v.GCEPersistentDisk != nil || v.AzureDisk != nil || v.AzureFile != nil ||
		v.Cinder != nil || v.VsphereVolume != nil || v.PortworxVolume != nil
}

// Claims lists "namespace/name" of the persistent volume claims a Pod uses, those of its ephemeral
// volumes included.
func Claims(p *v1.Pod) []string {
	var out []string
	for i := range p.Spec.Volumes {
		switch v := &p.Spec.Volumes[i]; {
		case v.PersistentVolumeClaim != nil:
			out = append(out, p.Namespace+"/"+v.PersistentVolumeClaim.ClaimName)
		case v.Ephemeral != nil:
			out = append(out, p.Namespace+"/"+p.Name+"-"+v.Name)
		}
	}
	return out
}

// clone is a copy that may be changed.
func (n *NodeInfo) clone() *NodeInfo {
	c := n.nextGeneration()
	c.pods = slices.Clone(n.pods)
	c.podsWithAffinity, c.podsWithRequiredAntiAffinity, c.podsWithWideAntiAffinity = slices.Clone(n.podsWithAffinity),
		slices.Clone(n.podsWithRequiredAntiAffinity), slices.Clone(n.podsWithWideAntiAffinity)
	return c
}

// nextGeneration is a copy that may be changed and shares the memory of the lists of Pods: one copy
// of a node may append to them, and nobody changes what is in them.
func (n *NodeInfo) nextGeneration() *NodeInfo {
	c := *n
	if n.ports != nil {
		c.ports = make(framework.HostPortInfo, len(n.ports))
		for ip, taken := range n.ports {
			c.ports[ip] = maps.Clone(taken)
		}
	}
	c.requested.Scalar = maps.Clone(n.requested.Scalar)
	c.nonZeroRequested.Scalar = maps.Clone(n.nonZeroRequested.Scalar)
	c.pvcRefCounts = maps.Clone(n.pvcRefCounts)
	return &c
}

func hasAffinity(p framework.PodInfo) bool {
	return len(p.GetRequiredAffinityTerms())+len(p.GetRequiredAntiAffinityTerms())+len(p.GetPreferredAffinityTerms())+
		len(p.GetPreferredAntiAffinityTerms()) > 0
}

func hasNonHostAntiAffinity(p framework.PodInfo) bool {
	if own, ok := p.(*PodInfo); ok {
		return own.nonHostAntiAffinity
	}
	return slices.ContainsFunc(p.GetRequiredAntiAffinityTerms(),
		func(t framework.AffinityTerm) bool { return t.TopologyKey != v1.LabelHostname })
}

// removeAt is the list without one of it, in memory of its own: others may read the list.
func removeAt(list []framework.PodInfo, i int) []framework.PodInfo {
	return append(append(make([]framework.PodInfo, 0, len(list)), list[:i]...), list[i+1:]...)
}

func indexOf(list []framework.PodInfo, p *v1.Pod) int {
	return slices.IndexFunc(list, func(i framework.PodInfo) bool { return i.GetPod().UID == p.UID })
}
