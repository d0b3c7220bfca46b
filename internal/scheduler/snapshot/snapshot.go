package snapshot

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/kube-scheduler/framework"
)

// Snapshot is the cluster at one moment. It never changes; any number of readers may hold it.
type Snapshot struct {
	nodeList    // zones interleaved, so that a prefix of the list is spread over zones
	index       map[string]int
	hasAffinity bool // there may be Pods with affinity
	generation  int64
	layout      int64
	changes     changeLog
}

var (
	_ framework.SharedLister      = (*Snapshot)(nil)
	_ framework.NodeInfoLister    = (*Snapshot)(nil)
	_ framework.StorageInfoLister = (*Snapshot)(nil)
)

// Of builds a snapshot from objects: for tests, `why` and simulations. Pods without a node and Pods
// that have ended are left out.
func Of(nodes []*v1.Node, pods []*v1.Pod) *Snapshot {
	w := NewCache()
	for _, n := range nodes {
		w.SetNode(n)
	}
	for _, p := range pods {
		w.SetPod(p)
	}
	return w.UpdateSnapshot()
}

// Len is the number of nodes.
func (s *Snapshot) Len() int { return s.n }

// Generation grows with each UpdateSnapshot that saw a change.
func (s *Snapshot) Generation() int64 { return s.generation }

// All lists the nodes, zones interleaved, in a new slice.
func (s *Snapshot) All() []framework.NodeInfo {
	return s.nodesWhere(func(*NodeInfo) bool { return true }, s.n)
}

func (s *Snapshot) nodesWhere(which func(*NodeInfo) bool, room int) []framework.NodeInfo {
	out := make([]framework.NodeInfo, 0, room)
	for i := range s.n {
		if n := s.at(i); which(n) {
			out = append(out, n)
		}
	}
	return out
}

// Node finds a node by name; nil when there is none.
func (s *Snapshot) Node(name string) framework.NodeInfo {
	if i, ok := s.index[name]; ok {
		return s.at(i)
	}
	return nil
}

// NodeInfos implements framework.SharedLister.
func (s *Snapshot) NodeInfos() framework.NodeInfoLister { return s }

// StorageInfos implements framework.SharedLister.
func (s *Snapshot) StorageInfos() framework.StorageInfoLister { return s }

// List implements framework.NodeInfoLister: All, in a slice that the caller may keep. The error is
// always nil.
func (s *Snapshot) List() ([]framework.NodeInfo, error) { return s.All(), nil }

// HavePodsWithAffinityList lists nodes with Pods that have inter-Pod affinity of any kind, in a new
// slice in the order of All; nil where the cluster has none. The error is always nil.
func (s *Snapshot) HavePodsWithAffinityList() ([]framework.NodeInfo, error) {
	return s.listWhere(func(n *NodeInfo) bool { return len(n.podsWithAffinity) > 0 })
}

func (s *Snapshot) listWhere(which func(*NodeInfo) bool) ([]framework.NodeInfo, error) {
	if !s.hasAffinity {
		return nil, nil
	}
	return s.nodesWhere(which, 0), nil
}

// HavePodsWithRequiredAntiAffinityList lists nodes with Pods that have required anti-affinity, as
// HavePodsWithAffinityList does.
func (s *Snapshot) HavePodsWithRequiredAntiAffinityList() ([]framework.NodeInfo, error) {
	return s.listWhere(func(n *NodeInfo) bool { return len(n.podsWithRequiredAntiAffinity) > 0 })
}

// HavePodsWithRequiredNonHostScopedAntiAffinityList lists nodes with Pods whose required
// anti-affinity has a topology key other than the hostname, as HavePodsWithAffinityList does.
func (s *Snapshot) HavePodsWithRequiredNonHostScopedAntiAffinityList() ([]framework.NodeInfo, error) {
	return s.listWhere(func(n *NodeInfo) bool { return len(n.podsWithWideAntiAffinity) > 0 })
}

// Get implements framework.NodeInfoLister: Node, with an error that names the node where the
// snapshot has none of that name.
func (s *Snapshot) Get(name string) (framework.NodeInfo, error) {
	if n := s.Node(name); n != nil {
		return n, nil
	}
	return nil, fmt.Errorf("node %q is not in the snapshot", name)
}

// IsPVCUsedByPods tells whether a Pod that stands on a node uses the claim "namespace/name".
func (s *Snapshot) IsPVCUsedByPods(key string) bool {
	for i := range s.n {
		if s.at(i).pvcRefCounts[key] > 0 {
			return true
		}
	}
	return false
}

// PodGroupStates has none: Pod groups are not served.
func (s *Snapshot) PodGroupStates() framework.PodGroupStateLister { return noGroupStates{} }

// PodGroups has none.
func (s *Snapshot) PodGroups() framework.PodGroupLister { return noGroups{} }

// CompositePodGroupStates has none.
func (s *Snapshot) CompositePodGroupStates() framework.CompositePodGroupStateLister {
	return noCompositeStates{}
}

// CompositePodGroups has none.
func (s *Snapshot) CompositePodGroups() framework.CompositePodGroupLister { return noComposites{} }

type (
	noGroupStates     struct{}
	noGroups          struct{}
	noCompositeStates struct{}
	noComposites      struct{}
)

// Get returns framework.ErrNotFound for every name.
func (noGroupStates) Get(string, string) (framework.PodGroupState, error) {
	return nil, framework.ErrNotFound
}

// Get returns framework.ErrNotFound for every name.
func (noGroups) Get(string, string) (*schedulingv1beta1.PodGroup, error) {
	return nil, framework.ErrNotFound
}

// Get returns framework.ErrNotFound for every name.
func (noCompositeStates) Get(string, string) (framework.CompositePodGroupState, error) {
	return nil, framework.ErrNotFound
}

// Get returns framework.ErrNotFound for every name.
func (noComposites) Get(string, string) (*schedulingv1alpha3.CompositePodGroup, error) {
	return nil, framework.ErrNotFound
}
