package snapshot

import (
	"fmt"
	"slices"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"
)

// WithPod returns a copy of the snapshot with one more Pod on the node of that name; s and all
// other nodes are shared and stay as they are. It fails where the snapshot has no such node. For
// simulations: `why`, preemption of a PodGroup.
func (s *Snapshot) WithPod(p framework.PodInfo, node string) (*Snapshot, error) {
	return s.withChangedNode(node, func(n framework.NodeInfo) error {
		n.AddPodInfo(p)
		return nil
	})
}

// WithoutPod returns a copy of the snapshot in which the Pod is gone from the node of that name. It
// fails where the snapshot has no such node, or the node no such Pod.
func (s *Snapshot) WithoutPod(p *v1.Pod, node string) (*Snapshot, error) {
	return s.withChangedNode(node, func(n framework.NodeInfo) error { return n.RemovePod(logr.Discard(), p) })
}

// WithNode is the snapshot with a node added, or replaced with its Pods kept. A new node comes last
// in the list.
func (s *Snapshot) WithNode(node *v1.Node) *Snapshot {
	if s.Node(node.Name) != nil {
		// the node is there and SetNode cannot fail
		c, _ := s.withChangedNode(node.Name, func(n framework.NodeInfo) error {
			n.SetNode(node)
			return nil
		})
		return c
	}
	return s.withList(append(s.list(), NewNodeInfo(node)))
}

// Without is the snapshot with nodes gone, Pods and all. Names that are not there are passed over.
func (s *Snapshot) Without(nodes ...string) *Snapshot {
	return s.withList(slices.DeleteFunc(s.list(),
		func(n *NodeInfo) bool { return slices.Contains(nodes, n.node.Name) }))
}

func (s *Snapshot) withList(list []*NodeInfo) *Snapshot {
	c := *s
	c.nodeList, c.index, c.layout = newNodeList(list), indexed(list), 0
	return &c
}

// withChangedNode is a copy of the snapshot in which change was made to one node; s stays as it is.
// An error of change, or a node that is not in s, gives no copy.
func (s *Snapshot) withChangedNode(node string, change func(framework.NodeInfo) error) (*Snapshot, error) {
	i, ok := s.index[node]
	if !ok {
		return nil, fmt.Errorf("node %q is not in the snapshot", node)
	}
	n := s.at(i).clone()
	if err := change(n); err != nil {
		return nil, err
	}
	c := *s
	c.nodeList, c.layout = s.copy(), 0
	c.set(&s.nodeList, i, n)
	c.hasAffinity = c.hasAffinity || len(n.podsWithAffinity) > 0
	return &c, nil
}

func indexed(list []*NodeInfo) map[string]int {
	m := make(map[string]int, len(list))
	for i, n := range list {
		m[n.node.Name] = i
	}
	return m
}
