package dramanager

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/scheduler/plugins/dynamicresources"
)

var _ dynamicresources.ClaimWriter = (*Manager)(nil)

// BindClaims writes the plan's claims one after another and blocks until devices that have to
// become ready are. When it fails, what was written stays in the plan.
func (m *Manager) BindClaims(ctx context.Context, p *v1.Pod, plan *dynamicresources.Plan) error {
	for i := range plan.Claims {
		item := &plan.Claims[i]
		if item.Create {
			if err := m.createClaim(ctx, item); err != nil {
				return err
			}
		}
		if !resourceclaim.IsReservedForPod(p, item.Claim, false) {
			is, err := m.bindClaim(ctx, p, *item)
			if err != nil {
				return err
			}
			item.Claim = is
			_ = m.claims.AssumeClaimAfterAPICall(is) // cannot fail: it only keeps the claim
		}
		if item.Create {
			if err := m.patchExtendedResourceClaimStatus(ctx, p, item.Claim.Name, plan.Mapping); err != nil {
				return err
			}
		}
	}
	return m.waitForDevices(ctx, p, plan)
}

// createClaim creates the claim for a Pod's extended resources.
func (m *Manager) createClaim(ctx context.Context, item *dynamicresources.ClaimAllocation) error {
	c := item.Claim.DeepCopy()
	c.Name, c.UID = "", ""
	is, err := m.client.ResourceV1().ResourceClaims(c.Namespace).Create(ctx, c, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create claim for extended resources %s: %w", klog.KObj(c), err)
	}
	item.Claim = is
	_ = m.claims.AssumeClaimAfterAPICall(is)
	return nil
}

// bindClaim writes allocation and reservation of a claim; after a conflict again, on the claim as
// it is then.
func (m *Manager) bindClaim(ctx context.Context, p *v1.Pod,
	item dynamicresources.ClaimAllocation) (*resourceapi.ResourceClaim, error) {
	c := item.Claim.DeepCopy()
	client := m.client.ResourceV1().ResourceClaims(c.Namespace)
	again := false
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if again {
			is, err := client.Get(ctx, c.Name, metav1.GetOptions{})
			if err != nil {
				return fmt.Errorf("get updated claim %s after conflict: %w", klog.KObj(c), err)
			}
			c = is
		}
		again = true
		if c.DeletionTimestamp != nil {
			return fmt.Errorf("claim %s got deleted in the meantime", klog.KObj(c))
		}
		if item.Allocation != nil {
			if c.Status.Allocation != nil {
				return fmt.Errorf("claim %s got allocated elsewhere in the meantime", klog.KObj(c))
			}
			if !slices.Contains(c.Finalizers, resourceapi.Finalizer) {
				c.Finalizers = append(c.Finalizers, resourceapi.Finalizer)
				is, err := m.updateClaim(ctx, c, "")
				if err != nil {
					return fmt.Errorf("add finalizer to claim %s: %w", klog.KObj(c), err)
				}
				c = is
			}
			c.Status.Allocation = item.Allocation.DeepCopy()
			c.Status.Allocation.AllocationTimestamp = &metav1.Time{Time: time.Now()}
		}
		c.Status.ReservedFor = append(c.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods",
			Name: p.Name, UID: p.UID})
		is, err := m.updateClaim(ctx, c, statusSubresource)
		if err != nil {
			what := "reservation"
			if item.Allocation != nil {
				what = "allocation and reservation"
			}
			return fmt.Errorf("add %s to claim %s: %w", what, klog.KObj(c), err)
		}
		c = is
		return nil
	})
	return c, err
}

// patchExtendedResourceClaimStatus writes the claim of a Pod's extended resources into the Pod's
// status.
func (m *Manager) patchExtendedResourceClaimStatus(ctx context.Context, p *v1.Pod, claim string,
	mapping []v1.ContainerExtendedResourceRequest) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": p.UID},
		"status": map[string]any{"extendedResourceClaimStatus": v1.PodExtendedResourceClaimStatus{
			RequestMappings: mapping, ResourceClaimName: claim}},
	})
	if err != nil {
		return err
	}
	_, err = m.client.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, types.StrategicMergePatchType, patch,
		metav1.PatchOptions{}, "status")
	if err != nil {
		return fmt.Errorf("update pod %s/%s ExtendedResourceClaimStatus: %w", p.Namespace, p.Name, err)
	}
	return nil
}

// waitForDevices waits until every device with binding conditions has them (KEP-5007). When one
// fails or takes too long, the claims that were allocated for this Pod are deallocated, so that
// other devices can be tried.
func (m *Manager) waitForDevices(ctx context.Context, p *v1.Pod, plan *dynamicresources.Plan) error {
	if done, err := m.allDevicesReady(plan); done && err == nil {
		return nil
	}
	if m.Recorder != nil {
		m.Recorder(p.Spec.SchedulerName).Eventf(p, nil, v1.EventTypeNormal, "BindingConditionsPending", "Scheduling",
			"waiting for binding conditions for device on node %s", plan.Node)
	}
	wait, cancel := context.WithTimeout(ctx, plan.Wait)
	defer cancel()
	for {
		changed := m.claims.changeSignal()
		done, err := m.allDevicesReady(plan)
		if done && err == nil {
			return nil
		}
		if err == nil {
			select {
			case <-changed:
				continue
			case <-wait.Done():
				err = errors.New("device binding timeout")
			}
		}
		if ctx.Err() == nil {
			err = errors.Join(err, m.unreserveClaims(ctx, plan))
		}
		return err
	}
}

// allDevicesReady tells whether all devices are ready; the error is that one never will be.
func (m *Manager) allDevicesReady(plan *dynamicresources.Plan) (bool, error) {
	for _, item := range plan.Claims {
		c, err := m.claims.Get(item.Claim.Namespace, item.Claim.Name)
		if err != nil {
			return false, err
		}
		if done, err := DevicesReady(c); !done || err != nil {
			return false, err
		}
	}
	return true, nil
}

// DevicesReady tells whether all devices of a claim have their binding conditions; the error is
// that one has failed.
func DevicesReady(c *resourceapi.ResourceClaim) (bool, error) {
	if c.Status.Allocation == nil {
		return false, nil
	}
	for i := range c.Status.Allocation.Devices.Results {
		r := &c.Status.Allocation.Devices.Results[i]
		if len(r.BindingConditions) == 0 {
			continue
		}
		at := slices.IndexFunc(c.Status.Devices, func(d resourceapi.AllocatedDeviceStatus) bool {
			return d.Driver == r.Driver && d.Pool == r.Pool && d.Device == r.Device
		})
		if at < 0 {
			return false, nil
		}
		conditions := c.Status.Devices[at].Conditions
		for _, name := range r.BindingFailureConditions {
			if f := apimeta.FindStatusCondition(conditions, name); f != nil && f.Status == metav1.ConditionTrue {
				return false, fmt.Errorf("claim %s binding failed: reason=%s, message=%q", c.Name, f.Reason, f.Message)
			}
		}
		for _, name := range r.BindingConditions {
			if !apimeta.IsStatusConditionTrue(conditions, name) {
				return false, nil
			}
		}
	}
	return true, nil
}

func (m *Manager) unreserveClaims(ctx context.Context, plan *dynamicresources.Plan) error {
	var errs []error
	for i := range plan.Claims {
		item := &plan.Claims[i]
		if item.Allocation == nil || item.Create {
			continue
		}
		errs = append(errs, m.Deallocate(ctx, item.Claim))
		if c, err := m.client.ResourceV1().ResourceClaims(item.Claim.Namespace).Get(ctx, item.Claim.Name,
			metav1.GetOptions{}); err == nil {
			item.Claim = c
		}
	}
	return errors.Join(errs...)
}

// Deallocate takes devices and reservations from a claim.
func (m *Manager) Deallocate(ctx context.Context, claim *resourceapi.ResourceClaim) error {
	c := claim.DeepCopy()
	client := m.client.ResourceV1().ResourceClaims(c.Namespace)
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		c.Status.ReservedFor, c.Status.Allocation, c.Status.Devices = nil, nil, nil
		is, err := client.UpdateStatus(ctx, c, metav1.UpdateOptions{})
		if apierrors.IsConflict(err) {
			fresh, readErr := client.Get(ctx, c.Name, metav1.GetOptions{})
			if readErr != nil {
				return readErr
			}
			if fresh.UID == claim.UID && len(fresh.Status.ReservedFor) <= len(claim.Status.ReservedFor) {
				c = fresh
			}
			return err
		}
		if err == nil {
			_ = m.claims.AssumeClaimAfterAPICall(is)
		}
		return err
	})
}

// DeleteClaim deletes a claim made for extended resources, with its finalizer.
func (m *Manager) DeleteClaim(ctx context.Context, claim *resourceapi.ResourceClaim) {
	if err := m.deleteClaim(ctx, claim); err != nil {
		klog.FromContext(ctx).Error(err, "Claim for extended resources not deleted", "resourceclaim", klog.KObj(claim))
	}
}

func (m *Manager) deleteClaim(ctx context.Context, claim *resourceapi.ResourceClaim) error {
	client := m.client.ResourceV1().ResourceClaims(claim.Namespace)
	c := claim.DeepCopy()
	again := false
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if again {
			is, err := client.Get(ctx, c.Name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			c = is
		}
		again = true
		c.Finalizers = slices.DeleteFunc(c.Finalizers, func(f string) bool { return f == resourceapi.Finalizer })
		_, err := client.Update(ctx, c, metav1.UpdateOptions{})
		return err
	})
	if err == nil {
		err = client.Delete(ctx, c.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(c.UID))})
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// Unreserve takes one Pod from a claim's reservations.
func (m *Manager) Unreserve(ctx context.Context, p *v1.Pod, claim *resourceapi.ResourceClaim) {
	patch := fmt.Appendf(nil, `{"metadata": {"uid": %q}, "status": {"reservedFor": [{"$patch": "delete", "uid": %q}]}}`,
		claim.UID, p.UID)
	is, err := m.client.ResourceV1().ResourceClaims(claim.Namespace).Patch(ctx, claim.Name,
		types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	switch {
	case err == nil:
		_ = m.claims.AssumeClaimAfterAPICall(is)
	case !apierrors.IsNotFound(err):
		klog.FromContext(ctx).Error(err, "Claim not released", "resourceclaim", klog.KObj(claim), "pod", klog.KObj(p))
	}
}
