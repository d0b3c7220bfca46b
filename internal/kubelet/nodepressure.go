package kubelet

import (
	"cmp"
	"context"
	"errors"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	nodeutil "github.com/gantry-project/gantry/internal/node"
)

// ActivePods are the Pods that hold something of the node, the youngest first.
func (k *Kubelet) ActivePods() []*v1.Pod {
	if k.workers() == nil {
		return nil
	}
	pods := k.activePods()
	slices.SortFunc(pods, func(a, b *v1.Pod) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Namespace, b.Namespace),
			cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
	return pods
}

// PodCleanedUp tells whether a Pod that was killed has given back what it held: its containers have
// ended, and its volumes and its cgroup are gone.
func (k *Kubelet) PodCleanedUp(uid types.UID) bool {
	pool := k.workers()
	if pool == nil {
		return false
	}
	v, known := pool.View(uid)
	return !known || v.Stage >= podplan.Stopped && v.Released
}

// DeleteAllUnusedContainers removes from the runtime the containers and sandboxes of Pods that have
// ended, also of those that are still in the API. An event of the node tells of a failure.
func (k *Kubelet) DeleteAllUnusedContainers(ctx context.Context) error {
	pool := k.workers()
	if pool == nil {
		return nil
	}
	var errs []error
	for _, v := range pool.Views() {
		if v.Stage < podplan.Stopped || v.Observed.Alive() {
			continue
		}
		for _, c := range v.Observed.Containers {
			if c.Sandbox != "" {
				errs = append(errs, k.opts.Runtime.RemoveContainer(ctx, c.ID))
			}
		}
		for _, s := range v.Observed.Sandboxes {
			if !s.Ready {
				errs = append(errs, k.opts.Runtime.RemovePodSandbox(ctx, s.ID))
			}
		}
	}
	err := errors.Join(errs...)
	k.recordContainerGC(err)
	return err
}

// recordContainerGC says in an event of the node that what containers left cannot be removed.
func (k *Kubelet) recordContainerGC(err error) {
	if err != nil {
		k.events.Event(nodeutil.Reference(k.opts.NodeName),
			v1.EventTypeWarning, "ContainerGCFailed", err.Error())
	}
}

// DeleteUnusedImages removes the images that no Pod of the node uses, whatever their age.
func (k *Kubelet) DeleteUnusedImages(ctx context.Context) error {
	k.mu.Lock()
	collector := k.images.collector
	k.mu.Unlock()
	if collector == nil {
		return nil
	}
	_, err := collector.DeleteUnusedImages(ctx)
	return err
}
