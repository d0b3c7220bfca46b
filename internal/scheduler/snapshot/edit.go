package snapshot

import (
	"fmt"
	"maps"
	"slices"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"
)

// WithPod is the snapshot with one more Pod on a node.
func (s *Snapshot) WithPod(p framework.PodInfo, node string) (*Snapshot, error) {
	return s.edit(node, func(n framework.NodeInfo) error {
		n.AddPodInfo(p)
		return nil
	})
}

// WithoutPod is the snapshot with a Pod gone from a node.
func (s *Snapshot) WithoutPod(p *v1.Pod, node string) (*Snapshot, error) {
	return s.edit(node, func(n framework.NodeInfo) error { return n.RemovePod(logr.Discard(), p) })
}

// WithNode is the snapshot with a node added, or replaced with its Pods kept. A new node comes last in the list.
func (s *Snapshot) WithNode(node *v1.Node) *Snapshot {
	if s.Node(node.Name) != nil {
		c, _ := s.edit(node.Name, func(n framework.NodeInfo) error { // the node is there and SetNode cannot fail
			n.SetNode(node)
			return nil
		})
		return c
	}
	c := s.copy()
	c.index = maps.Clone(s.index)
	c.index[node.Name] = len(c.list)
	c.list = append(c.list, NewNodeInfo(node))
	return c
}

// Without is the snapshot with nodes gone, Pods and all. Names that are not there are passed over.
func (s *Snapshot) Without(nodes ...string) *Snapshot {
	c := s.copy()
	c.list = slices.DeleteFunc(c.list, func(n framework.NodeInfo) bool { return slices.Contains(nodes, n.Node().Name) })
	c.index = indexed(c.list)
	c.relist()
	return c
}

func (s *Snapshot) edit(node string, change func(framework.NodeInfo) error) (*Snapshot, error) {
	i, ok := s.index[node]
	if !ok {
		return nil, fmt.Errorf("node %q is not in the snapshot", node)
	}
	n := s.list[i].Snapshot()
	if err := change(n); err != nil {
		return nil, err
	}
	c := s.copy()
	c.list[i] = n
	c.relist()
	return c, nil
}

func (s *Snapshot) copy() *Snapshot {
	c := *s
	c.list = slices.Clone(s.list)
	return &c
}

// relist finds the nodes whose Pods have affinity.
func (s *Snapshot) relist() {
	s.affine, s.antiAffine, s.antiWide = nil, nil, nil
	for _, n := range s.list {
		if len(n.GetPodsWithAffinity()) == 0 {
			continue
		}
		s.affine = append(s.affine, n)
		if len(n.GetPodsWithRequiredAntiAffinity()) > 0 {
			s.antiAffine = append(s.antiAffine, n)
		}
		if len(n.GetPodsWithRequiredNonHostScopedAntiAffinity()) > 0 {
			s.antiWide = append(s.antiWide, n)
		}
	}
}

func indexed(list []framework.NodeInfo) map[string]int {
	m := make(map[string]int, len(list))
	for i, n := range list {
		m[n.Node().Name] = i
	}
	return m
}
