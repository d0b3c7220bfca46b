package snapshot

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kube-scheduler/framework"
)

// imageState is one image name in the cluster: its size and the nodes that hold it.
type imageState struct {
	size  int64
	nodes sets.Set[string]
}

// setImages takes the images of a node object into account. How many nodes hold an image is read
// when a changed node is frozen, not when another node pulls it: the score that uses it is a hint,
// and upstream reads it at the same moments.
func (w *Cache) setImages(s *nodeItem, node *v1.Node) {
	if s.info.node != nil && sameImages(s.info.node.Status.Images, node.Status.Images) {
		return
	}
	w.dropImages(s)
	for _, im := range node.Status.Images {
		for _, name := range im.Names {
			st := w.images[name]
			if st == nil {
				st = &imageState{size: im.SizeBytes, nodes: sets.Set[string]{}}
				w.images[name] = st
			}
			st.nodes.Insert(node.Name)
		}
	}
	w.imagesGeneration++
	s.info.images = w.imageStates(node)
}

// dropImages takes a node's images out of the counts.
func (w *Cache) dropImages(s *nodeItem) {
	if s.info.node == nil {
		return
	}
	for name := range s.info.images {
		if st := w.images[name]; st != nil {
			st.nodes.Delete(s.info.node.Name)
			if len(st.nodes) == 0 {
				delete(w.images, name)
			}
		}
	}
	s.info.images = nil
	w.imagesGeneration++
}

// refreshImages counts the nodes of each image again if any count may have changed.
func (w *Cache) refreshImages(s *nodeItem) {
	if s.info.node != nil && len(s.info.images) > 0 && s.imagesGeneration != w.imagesGeneration {
		s.info.images, s.imagesGeneration = w.imageStates(s.info.node), w.imagesGeneration
	}
}

// imageStates are the images of a node, by name, each with its size and the number of nodes that
// have it.
func (w *Cache) imageStates(node *v1.Node) map[string]*framework.ImageStateSummary {
	if len(node.Status.Images) == 0 {
		return nil
	}
	out := make(map[string]*framework.ImageStateSummary, len(node.Status.Images))
	for _, im := range node.Status.Images {
		for _, name := range im.Names {
			if st := w.images[name]; st != nil {
				out[name] = &framework.ImageStateSummary{Size: st.size, NumNodes: len(st.nodes)}
			}
		}
	}
	return out
}

func sameImages(a, b []v1.ContainerImage) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if len(a[i].Names) != len(b[i].Names) {
			return false
		}
		for j := range a[i].Names {
			if a[i].Names[j] != b[i].Names[j] {
				return false
			}
		}
	}
	return true
}
