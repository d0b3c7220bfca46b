package podactions

import (
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

// prepareDevices refuses Pods with resource claims, so that none starts without its devices. The
// event is upstream's for devices that cannot be prepared.
func (c *operation) prepareDevices() error {
	if !needsDevices(c.pod) {
		return nil
	}
	c.executor.d.Events.Pod(c.pod, v1.EventTypeWarning, string(reason.FailedPrepareDevices),
		fmt.Sprintf("Failed to prepare dynamic resources: %v", errNoDrivers))
	r := newRefusal(reason.FailedPrepareDevices, errNoDrivers)
	r.Fix = "run the Pod on a node whose kubelet serves device drivers, or take spec.resourceClaims out of it"
	return r
}
