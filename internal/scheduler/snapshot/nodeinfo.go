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

// NodeInfo is one node and what stands on it. Values inside a Snapshot are never changed: World and the edits change a clone.
type NodeInfo struct {
	node        *v1.Node
	pods        []framework.PodInfo
	affine      []framework.PodInfo // with any inter-Pod affinity
	antiAffine  []framework.PodInfo // with required anti-affinity
	antiWide    []framework.PodInfo // of these, with a topology beyond the host
	ports       framework.HostPortInfo
	requested   Resource
	non0        Resource
	allocatable Resource
	images      map[string]*framework.ImageStateSummary
	claims      map[string]int // "namespace/name" of claims to the number of Pods using them
	inline      int            // volumes of Pods that are neither claims nor made of the API's objects or the node's own disk
	features    ndf.FeatureSet
	generation  int64
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
func (n *NodeInfo) GetPodsWithAffinity() []framework.PodInfo { return n.affine }

// GetPodsWithRequiredAntiAffinity lists those with required anti-affinity.
func (n *NodeInfo) GetPodsWithRequiredAntiAffinity() []framework.PodInfo { return n.antiAffine }

// GetPodsWithRequiredNonHostScopedAntiAffinity lists those whose required anti-affinity reaches beyond the host.
func (n *NodeInfo) GetPodsWithRequiredNonHostScopedAntiAffinity() []framework.PodInfo {
	return n.antiWide
}

// GetUsedPorts gives the host ports taken.
func (n *NodeInfo) GetUsedPorts() framework.HostPortInfo { return n.ports }

// GetRequested sums the requests of all Pods here; Pods is their number.
func (n *NodeInfo) GetRequested() framework.Resource { return &n.requested }

// GetNonZeroRequested sums them with defaults for containers that request nothing.
func (n *NodeInfo) GetNonZeroRequested() framework.Resource { return &n.non0 }

// GetAllocatable is status.allocatable.
func (n *NodeInfo) GetAllocatable() framework.Resource { return &n.allocatable }

// GetImageStates gives the images present, by every name they have.
func (n *NodeInfo) GetImageStates() map[string]*framework.ImageStateSummary { return n.images }

// GetPVCRefCounts counts the Pods using each claim.
func (n *NodeInfo) GetPVCRefCounts() map[string]int { return n.claims }

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
	return fmt.Sprintf("%s: %d Pods, requested cpu %dm memory %d, allocatable cpu %dm memory %d", name, len(n.pods), n.requested.MilliCPU, n.requested.Memory, n.allocatable.MilliCPU, n.allocatable.Memory)
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
	if isAffine(p) {
		n.affine = append(n.affine, p)
	}
	if len(p.GetRequiredAntiAffinityTerms()) > 0 {
		n.antiAffine = append(n.antiAffine, p)
		if reachesBeyondHost(p) {
			n.antiWide = append(n.antiWide, p)
		}
	}
	n.account(p, 1)
}

// RemovePod takes a Pod off the node; it is an error when it does not stand here.
func (n *NodeInfo) RemovePod(_ logr.Logger, p *v1.Pod) error {
	i := indexOf(n.pods, p)
	if i < 0 {
		return fmt.Errorf("Pod %s does not stand on %s", pod.Key(p), n)
	}
	gone := n.pods[i]
	n.pods = without(n.pods, i)
	for _, list := range []*[]framework.PodInfo{&n.affine, &n.antiAffine, &n.antiWide} {
		if j := indexOf(*list, p); j >= 0 {
			*list = without(*list, j)
		}
	}
	n.account(gone, -1)
	if len(pod.HostPorts(gone.GetPod())) > 0 { // Pods bound by hand may share a port: those left keep it
		for _, other := range n.pods {
			n.takePorts(other.GetPod())
		}
	}
	return nil
}

func (n *NodeInfo) takePorts(p *v1.Pod) {
	for _, port := range pod.HostPorts(p) {
		if n.ports == nil {
			n.ports = framework.HostPortInfo{}
		}
		n.ports.Add(port.HostIP, string(port.Protocol), port.HostPort)
	}
}

func (n *NodeInfo) account(p framework.PodInfo, sign int) {
	n.generation++
	ask, non0 := asks(p)
	if sign > 0 {
		n.requested.Add(ask)
		n.requested.Pods++
		n.non0.MilliCPU, n.non0.Memory = n.non0.MilliCPU+non0.MilliCPU, n.non0.Memory+non0.Memory
	} else {
		n.requested.Sub(ask)
		n.requested.Pods--
		n.non0.MilliCPU, n.non0.Memory = n.non0.MilliCPU-non0.MilliCPU, n.non0.Memory-non0.Memory
	}
	if sign > 0 {
		n.takePorts(p.GetPod())
	} else {
		for _, port := range pod.HostPorts(p.GetPod()) {
			n.ports.Remove(port.HostIP, string(port.Protocol), port.HostPort)
		}
	}
	for i := range p.GetPod().Spec.Volumes {
		if attachable(&p.GetPod().Spec.Volumes[i].VolumeSource) {
			n.inline += sign
		}
	}
	for _, key := range Claims(p.GetPod()) {
		if n.claims == nil {
			n.claims = map[string]int{}
		}
		if n.claims[key] += sign; n.claims[key] <= 0 {
			delete(n.claims, key)
		}
	}
}

// InlineVolumes is how many volumes Pods bring that may have to be attached without a claim, each counted for every Pod.
func (n *NodeInfo) InlineVolumes() int { return n.inline }

// attachable tells whether a volume without a claim may have to be attached.
func attachable(v *v1.VolumeSource) bool {
	return v.AWSElasticBlockStore != nil || v.GCEPersistentDisk != nil || v.AzureDisk != nil || v.AzureFile != nil || v.Cinder != nil || v.VsphereVolume != nil || v.PortworxVolume != nil
}

// Claims lists "namespace/name" of the persistent volume claims a Pod uses, those of its ephemeral volumes included.
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
	c := n.next()
	c.pods = slices.Clone(n.pods)
	c.affine, c.antiAffine, c.antiWide = slices.Clone(n.affine), slices.Clone(n.antiAffine), slices.Clone(n.antiWide)
	return c
}

// next is a copy that may be changed and shares the memory of the lists of Pods: one copy of a node may append to them, and nobody changes what is in them.
func (n *NodeInfo) next() *NodeInfo {
	c := *n
	if n.ports != nil {
		c.ports = make(framework.HostPortInfo, len(n.ports))
		for ip, taken := range n.ports {
			c.ports[ip] = maps.Clone(taken)
		}
	}
	c.requested.Scalar = maps.Clone(n.requested.Scalar)
	c.non0.Scalar = maps.Clone(n.non0.Scalar)
	c.claims = maps.Clone(n.claims)
	return &c
}

func isAffine(p framework.PodInfo) bool {
	return len(p.GetRequiredAffinityTerms())+len(p.GetRequiredAntiAffinityTerms())+len(p.GetPreferredAffinityTerms())+len(p.GetPreferredAntiAffinityTerms()) > 0
}

func reachesBeyondHost(p framework.PodInfo) bool {
	if own, ok := p.(*PodInfo); ok {
		return own.antiBeyondItsHost
	}
	return slices.ContainsFunc(p.GetRequiredAntiAffinityTerms(), func(t framework.AffinityTerm) bool { return t.TopologyKey != v1.LabelHostname })
}

// without is the list without one of it, in memory of its own: others may read the list.
func without(list []framework.PodInfo, i int) []framework.PodInfo {
	return append(append(make([]framework.PodInfo, 0, len(list)), list[:i]...), list[i+1:]...)
}

func indexOf(list []framework.PodInfo, p *v1.Pod) int {
	return slices.IndexFunc(list, func(i framework.PodInfo) bool { return i.GetPod().UID == p.UID })
}
