package snapshot

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kube-scheduler/framework"
)

// NodeState is a node of a snapshot that was taken apart, so that it can be written down.
type NodeState struct {
	Node *v1.Node `json:"node"`
	// on it, assumed ones included, in their order
	Pods []*v1.Pod `json:"pods,omitempty"`
	// of its images, where they were counted at another time than the others'
	Images map[string]framework.ImageStateSummary `json:"images,omitempty"`
}

// NodeStates takes the snapshot apart. The objects are the snapshot's own.
func (s *Snapshot) NodeStates() []NodeState {
	now := map[string]framework.ImageStateSummary{}
	for i := range s.n {
		own := sets.Set[string]{}
		for _, im := range s.at(i).node.Status.Images {
			for _, name := range im.Names {
				is, known := now[name]
				if !known {
					is.Size = im.SizeBytes
				}
				if !own.Has(name) {
					is.NumNodes++
				}
				own.Insert(name)
				now[name] = is
			}
		}
	}
	out := make([]NodeState, s.n)
	for i := range s.n {
		n := s.at(i)
		out[i].Node = n.node
		for _, p := range n.pods {
			out[i].Pods = append(out[i].Pods, p.GetPod())
		}
		for name, is := range n.images {
			if want := now[name]; want.Size == is.Size && want.NumNodes == is.NumNodes {
				continue
			}
			if out[i].Images == nil {
				out[i].Images = map[string]framework.ImageStateSummary{}
			}
			out[i].Images[name] = framework.ImageStateSummary{Size: is.Size, NumNodes: is.NumNodes}
		}
	}
	return out
}

// FromNodeStates is the snapshot that NodeStates took apart. The error names the place in the list.
func FromNodeStates(all []NodeState) (*Snapshot, error) {
	w := NewCache()
	for i, s := range all {
		if s.Node == nil || s.Node.Name == "" {
			return nil, fmt.Errorf("nodes[%d].node: a node with a name is missing", i)
		}
		if w.Node(s.Node.Name) != nil {
			return nil, fmt.Errorf("nodes[%d].node.metadata.name: %q is listed twice", i, s.Node.Name)
		}
		w.SetNode(s.Node)
		for j, p := range s.Pods {
			if p == nil {
				return nil, fmt.Errorf("nodes[%d].pods[%d]: a Pod is missing", i, j)
			}
			if err := w.AssumePod(p, s.Node.Name); err != nil {
				return nil, fmt.Errorf("nodes[%d].pods[%d].metadata.uid: %w", i, j, err)
			}
		}
	}
	out := w.UpdateSnapshot()
	for i, s := range all {
		n := out.at(out.index[s.Node.Name])
		for name, is := range s.Images {
			if n.images[name] == nil {
				return nil, fmt.Errorf("nodes[%d].images: the node does not list %q", i, name)
			}
			n.images[name] = &is
		}
	}
	return out, nil
}
