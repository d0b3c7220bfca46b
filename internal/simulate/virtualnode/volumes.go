package virtualnode

import (
	"context"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Attachable tells which volumes of a Pod are attached to nodes, as nodes' statuses call them, and
// how long attaching usually takes, which the time of a Pod's start has in it.
type Attachable func(p *v1.Pod) (names []v1.UniqueVolumeName, usual time.Duration)

// attachments are what nodes' statuses say of volumes.
type attachments struct {
	attached map[string]map[v1.UniqueVolumeName]bool // in volumesAttached, by node
	inUse    map[string][]v1.UniqueVolumeName        // in volumesInUse, by node, sorted
	dirty    map[string]bool                         // nodes on which Pods began or ceased to use volumes
}

// NodeChanged takes in a version of a node; nil: it is gone.
func (k *Kubelets) NodeChanged(name string, n *v1.Node) {
	a := &k.attachments
	if n == nil {
		delete(a.attached, name)
		delete(a.inUse, name)
		return
	}
	now := map[v1.UniqueVolumeName]bool{}
	for i := range n.Status.VolumesAttached {
		now[n.Status.VolumesAttached[i].Name] = true
	}
	inUse := slices.Sorted(slices.Values(n.Status.VolumesInUse))
	if maps.Equal(now, a.attached[name]) && slices.Equal(inUse, a.inUse[name]) {
		return
	}
	a.attached[name], a.inUse[name] = now, inUse
	var wait []*podWorker
	for _, w := range k.pods {
		if w.pod.Spec.NodeName == name && w.facts.VolumesReady.IsZero() {
			wait = append(wait, w)
		}
	}
	sortWorkers(wait)
	for _, w := range wait {
		k.mark(w)
	}
}

// waitsForVolumes tells whether a Pod that would go on has to wait for a volume that its node's
// status has not as attached. Its volumes are in use from now on.
func (k *Kubelets) waitsForVolumes(w *podWorker) bool {
	if !w.facts.VolumesReady.IsZero() || k.attachable == nil || len(w.pod.Spec.Volumes) == 0 {
		return false
	}
	names, usual := k.attachable(w.pod)
	if !slices.Equal(names, w.volumes) {
		w.volumes = names
		k.attachments.dirty[w.pod.Spec.NodeName] = true
	}
	w.attaching = min(usual, k.now().Sub(w.facts.Accepted))
	node := w.pod.Spec.NodeName
	return slices.ContainsFunc(names, func(name v1.UniqueVolumeName) bool {
		return !k.attachments.attached[node][name] || !slices.Contains(k.attachments.inUse[node], name)
	})
}

// released notes that a Pod uses its volumes no longer.
func (k *Kubelets) released(w *podWorker) {
	if len(w.volumes) > 0 {
		w.volumes = nil
		k.attachments.dirty[w.pod.Spec.NodeName] = true
	}
}

// reportInUse writes which volumes are in use on one node where that is other than its status says;
// false: on none. A node that is silent reports nothing.
func (k *Kubelets) reportInUse(ctx context.Context) (bool, error) {
	for _, node := range slices.Sorted(maps.Keys(k.attachments.dirty)) {
		delete(k.attachments.dirty, node)
		if k.lost[node] {
			continue
		}
		inUse := map[v1.UniqueVolumeName]bool{}
		for _, w := range k.pods {
			if w.pod.Spec.NodeName == node {
				for _, name := range w.volumes {
					inUse[name] = true
				}
			}
		}
		names := slices.Sorted(maps.Keys(inUse))
		if slices.Equal(names, k.attachments.inUse[node]) {
			continue
		}
		n, err := k.client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			return true, ignoreGone(err)
		}
		n.Status.VolumesInUse = names
		_, err = k.client.CoreV1().Nodes().UpdateStatus(ctx, n, metav1.UpdateOptions{})
		return true, ignoreGone(err)
	}
	return false, nil
}
