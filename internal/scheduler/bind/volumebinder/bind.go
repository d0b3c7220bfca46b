package volumebinder

import (
	"context"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/scheduler/plugins/volumebinding"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/volumelisters"
)

func keyOf(c *v1.PersistentVolumeClaim) string { return c.Namespace + "/" + c.Name }

// AssumePodVolumes makes the plan's changes on copies of claims and volumes, which later cycles
// see, and puts the copies into the plan.
func (l *VolumeBinder) AssumePodVolumes(p *volumebinding.PodVolumes) error {
	bind, provision := slices.Clone(p.StaticBindings), slices.Clone(p.DynamicProvisions)
	for i, pair := range bind {
		changed, _, err := volume.GetBindVolumeToClaim(pair.Volume, pair.Claim)
		if err != nil {
			return fmt.Errorf("giving volume %s to claim %s: %w", pair.Volume.Name, keyOf(pair.Claim), err)
		}
		bind[i].Volume = changed
	}
	for i, c := range provision {
		provision[i] = c.DeepCopy()
		metav1.SetMetaDataAnnotation(&provision[i].ObjectMeta, volume.AnnSelectedNode, p.Node)
	}
	p.StaticBindings, p.DynamicProvisions = bind, provision
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, pair := range bind {
		l.volumes[pair.Volume.Name] = pair.Volume
	}
	for _, c := range provision {
		l.claims[keyOf(c)] = c
	}
	return nil
}

// RevertAssumedPodVolumes drops the plan's copies: later cycles see what the API server has. What
// was written stays written.
func (l *VolumeBinder) RevertAssumedPodVolumes(p *volumebinding.PodVolumes) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, pair := range p.StaticBindings {
		delete(l.volumes, pair.Volume.Name)
	}
	for _, c := range p.DynamicProvisions {
		delete(l.claims, keyOf(c))
	}
}

// Waiter returns when changed is closed and the caller may go on; the error is that it never may.
type Waiter func(changed <-chan struct{}) error

type waiterKey struct{}

// WithWaiter has BindPodVolumes wait by w, for a scheduler that its caller runs step by step.
func WithWaiter(ctx context.Context, w Waiter) context.Context {
	return context.WithValue(ctx, waiterKey{}, w)
}

// BindPodVolumes writes the plan and blocks until its claims are bound. The error is that the Pod
// is gone, a volume was taken back, provisioning failed, or ctx ended.
func (l *VolumeBinder) BindPodVolumes(ctx context.Context, pod *v1.Pod, p *volumebinding.PodVolumes) error {
	if err := l.writePlan(ctx, p); err != nil {
		return err
	}
	for {
		changed := l.changeSignal()
		if done, err := l.checkBindings(pod, p); done || err != nil {
			return err
		}
		if wait, ok := ctx.Value(waiterKey{}).(Waiter); ok {
			if err := wait(changed); err != nil {
				return fmt.Errorf("binding volumes: %w", err)
			}
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return fmt.Errorf("binding volumes: %w", ctx.Err())
			}
			return fmt.Errorf("binding volumes: %w", context.Cause(ctx))
		}
	}
}

func (l *VolumeBinder) writePlan(ctx context.Context, p *volumebinding.PodVolumes) error {
	for i, pair := range p.StaticBindings {
		klog.FromContext(ctx).V(2).Info("Claim bound to volume", "PVC", klog.KObj(pair.Claim),
			"PV", klog.KObj(pair.Volume))
		is, err := l.client.CoreV1().PersistentVolumes().Update(ctx, pair.Volume, metav1.UpdateOptions{})
		if err != nil {
			return err
		}
		p.StaticBindings[i].Volume = is
		l.mu.Lock()
		l.volumes[is.Name] = is
		l.mu.Unlock()
	}
	for i, c := range p.DynamicProvisions {
		is, err := l.client.CoreV1().PersistentVolumeClaims(c.Namespace).Update(ctx, c, metav1.UpdateOptions{})
		if err != nil {
			return err
		}
		p.DynamicProvisions[i] = is
		l.mu.Lock()
		l.claims[keyOf(is)] = is
		l.mu.Unlock()
	}
	return nil
}

// checkBindings reads what the API server has, not what is assumed: another cycle may have assumed
// the same claims again.
func (l *VolumeBinder) checkBindings(pod *v1.Pod, p *volumebinding.PodVolumes) (bool, error) {
	node, err := l.nodes.Get(p.Node)
	if err != nil {
		return false, fmt.Errorf("failed to get node %q: %w", p.Node, err)
	}
	if _, err := l.pods.Pods(pod.Namespace).Get(pod.Name); apierrors.IsNotFound(err) {
		return false, fmt.Errorf("pod does not exist any more: %w", err)
	}
	for _, pair := range p.StaticBindings {
		if done, err := l.isVolumeBound(pair, node); !done || err != nil {
			return false, err
		}
	}
	for _, c := range p.DynamicProvisions {
		if done, err := l.isClaimProvisioned(c, node); !done || err != nil {
			return false, err
		}
	}
	return true, nil
}

func (l *VolumeBinder) isVolumeBound(pair volumebinding.BindingInfo, node *v1.Node) (bool, error) {
	v, err := l.volumeLister.Get(pair.Volume.Name)
	if err != nil {
		return false, fmt.Errorf("failed to check binding: %w", err)
	}
	c, err := l.claimLister.PersistentVolumeClaims(pair.Claim.Namespace).Get(pair.Claim.Name)
	if err != nil {
		return false, fmt.Errorf("failed to check binding: %w", err)
	}
	if isNewer(pair.Volume.ResourceVersion, v.ResourceVersion) {
		return false, nil // the informer has not seen the write yet
	}
	if err := l.checkNodeAffinity(v, node); err != nil {
		return false, err
	}
	if v.Spec.ClaimRef == nil || v.Spec.ClaimRef.UID == "" {
		return false, fmt.Errorf("ClaimRef got reset for pv %q", v.Name)
	}
	return volumelisters.FullyBound(c), nil
}

func (l *VolumeBinder) isClaimProvisioned(want *v1.PersistentVolumeClaim, node *v1.Node) (bool, error) {
	c, err := l.claimLister.PersistentVolumeClaims(want.Namespace).Get(want.Name)
	if err != nil {
		return false, fmt.Errorf("failed to check provisioning pvc: %w", err)
	}
	if isNewer(want.ResourceVersion, c.ResourceVersion) {
		return false, nil
	}
	if c.Annotations == nil {
		return false, fmt.Errorf("selectedNode annotation reset for PVC %q", c.Name)
	}
	// a provisioner that fails removes it, so that another node is chosen
	if c.Annotations[volume.AnnSelectedNode] != node.Name {
		return false, fmt.Errorf("provisioning failed for PVC %q", c.Name)
	}
	if c.Spec.VolumeName != "" {
		v, err := l.volumeLister.Get(c.Spec.VolumeName)
		if apierrors.IsNotFound(err) {
			return false, nil // the informer has not seen it yet, or the claim will be unbound
		}
		if err != nil {
			return false, fmt.Errorf("failed to get pv %q from cache: %w", c.Spec.VolumeName, err)
		}
		if err := l.checkNodeAffinity(v, node); err != nil {
			return false, err
		}
	}
	return volumelisters.FullyBound(c), nil
}

func (l *VolumeBinder) checkNodeAffinity(v *v1.PersistentVolume, node *v1.Node) error {
	v, err := volumelisters.TranslateInTree(v, l.CSINode(node.Name))
	if err != nil {
		return fmt.Errorf("failed to translate pv to csi: %w", err)
	}
	if err := volume.CheckNodeAffinity(v, node.Labels); err != nil {
		return fmt.Errorf("pv %q node affinity doesn't match node %q: %w", v.Name, node.Name, err)
	}
	return nil
}
