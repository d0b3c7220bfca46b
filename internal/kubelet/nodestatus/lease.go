package nodestatus

import (
	"context"
	"time"

	coordination "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

// renewLeaseLoop renews the node's Lease at a quarter of its duration; its absence is what makes
// others call the node unknown.
func (r *Reporter) renewLeaseLoop(ctx context.Context) {
	var lease *coordination.Lease
	every := r.opts.Timing.LeaseDuration / 4
	for ctx.Err() == nil {
		pause := every
		next, err := r.renew(ctx, lease)
		switch {
		case err == nil && next == nil: // the node is not known yet
			pause = r.opts.Timing.StartEvery
		case err == nil:
			lease = next
		default:
			lease = nil // read it again
			pause = min(every, time.Second)
			if ctx.Err() == nil {
				klog.FromContext(ctx).Error(err, "Failed to renew node lease, will retry", "node", r.opts.Identity.Name,
					"interval", pause)
			}
		}
		t := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			t.Stop()
		case <-t.C:
		}
	}
}

// renew writes the Lease once (upstream: ensureLease and retryUpdateLease of the lease controller).
// Without an earlier one it reads or makes it; nil without error means that there is no Node to own
// it yet.
func (r *Reporter) renew(ctx context.Context, last *coordination.Lease) (*coordination.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, r.opts.Timing.LeaseDuration/4)
	defer cancel()
	node := r.Node()
	if node == nil {
		return nil, nil
	}
	leases := r.opts.Client.CoordinationV1().Leases(v1.NamespaceNodeLease)
	if last == nil {
		found, err := leases.Get(ctx, r.opts.Identity.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return leases.Create(ctx, r.leaseNow(&coordination.Lease{}, node), metav1.CreateOptions{})
		case err != nil:
			return nil, err
		}
		last = found
	}
	return leases.Update(ctx, r.leaseNow(last, node), metav1.UpdateOptions{})
}

func (r *Reporter) leaseNow(last *coordination.Lease, node *v1.Node) *coordination.Lease {
	l := last.DeepCopy()
	l.Name, l.Namespace = r.opts.Identity.Name, v1.NamespaceNodeLease
	l.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}}
	seconds := int32(r.opts.Timing.LeaseDuration.Seconds())
	now := metav1.NewMicroTime(time.Now())
	l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds, l.Spec.RenewTime = &r.opts.Identity.Name, &seconds, &now
	return l
}
