package podactions

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/reason"
)

var errNoDrivers = errors.New("this kubelet does not prepare devices of resource claims: no driver can register with " +
	"it")

// needsDevices tells whether the Pod has claims whose devices must be prepared before it starts.
func needsDevices(p *v1.Pod) bool {
	return len(p.Spec.ResourceClaims) > 0 || p.Status.ExtendedResourceClaimStatus != nil
}

// prepareDevices has drivers prepare the Pod's claims, so that it does not start without its
// devices. A Pod that has a sandbox of an earlier kubelet has them. The event is upstream's.
func (c *operation) prepareDevices(ctx context.Context) error {
	if !needsDevices(c.pod) {
		return nil
	}
	claims := c.executor.d.Claims
	err := errNoDrivers
	if claims != nil {
		if s := c.observed.Sandbox(); s != nil && s.Ready && claims.Holds(c.pod.UID) {
			return nil
		}
		defer c.step("preparing the devices of claims")()
		err = claims.Prepare(ctx, c.pod)
	}
	if err == nil {
		return nil
	}
	if ctx.Err() == nil {
		c.executor.d.Events.Pod(c.pod, v1.EventTypeWarning, string(reason.FailedPrepareDevices),
			fmt.Sprintf("Failed to prepare dynamic resources: %v", err))
	}
	r := newRefusal(reason.FailedPrepareDevices, err)
	r.Fix = "see that the driver of the claim's devices runs on this node, and what it says"
	return r
}

// unprepareResources has drivers undo what they prepared for the Pod's claims.
func (c *operation) unprepareResources(ctx context.Context) error {
	if c.executor.d.Claims == nil {
		return nil
	}
	defer c.step("undoing the devices of claims")()
	if err := c.executor.d.Claims.Unprepare(ctx, c.pod.UID); err != nil {
		return newRefusal(reason.FailedRelease, err)
	}
	return nil
}
