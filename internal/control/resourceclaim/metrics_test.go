package resourceclaim

import (
	"errors"
	"fmt"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/component-base/metrics/testutil"
	claimmetrics "k8s.io/dynamic-resource-allocation/resourceclaim/metrics"
)

// Claims count by what they were made from and whether a request has admin access.
func TestClaimsAreCounted(t *testing.T) {
	claim := func(note, value string, admin ...bool) *resourceapi.ResourceClaim {
		c := &resourceapi.ResourceClaim{}
		c.Annotations = map[string]string{note: value}
		c.Spec.Devices.Requests = []resourceapi.DeviceRequest{{}, {Exactly: &resourceapi.ExactDeviceRequest{}}}
		for _, a := range admin {
			c.Spec.Devices.Requests = append(c.Spec.Devices.Requests,
				resourceapi.DeviceRequest{Exactly: &resourceapi.ExactDeviceRequest{AdminAccess: &a}})
		}
		return c
	}
	for want, c := range map[string]*resourceapi.ResourceClaim{
		`"" false`:                        claim("x", "y"),
		`"" true`:                         claim("x", "y", false, true),
		`"resource_claim_template" false`: claim(resourceapi.PodResourceClaimAnnotation, "gpu", false),
		`"extended_resource" false`:       claim(resourceapi.ExtendedResourceClaimAnnotation, "true"),
	} {
		if got := fmt.Sprintf("%q %s", source(c), adminAccess(c)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	claimmetrics.RegisterMetrics()
	countCreation(claim("x", "y", true), nil)
	countCreation(claim("x", "y"), errors.New("no"))
	for _, labels := range [][]string{{"success", "true", "", "Pod"}, {"failure", "false", "", "Pod"}} {
		got, err := testutil.GetCounterMetricValue(claimmetrics.ResourceClaimCreate.WithLabelValues(labels...))
		if err != nil || got != 1 {
			t.Errorf("%q: got %v and %v, want 1", labels, got, err)
		}
	}
}
