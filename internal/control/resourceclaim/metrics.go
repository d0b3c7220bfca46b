package resourceclaim

import (
	"strconv"
	"sync/atomic"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/labels"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	claimmetrics "k8s.io/dynamic-resource-allocation/resourceclaim/metrics"
	"k8s.io/utils/ptr"
)

var (
	claimsNow = metrics.NewDesc("dynamic_resource_allocation_resource_claims",
		"Number of ResourceClaims, categorized by allocation status, admin access, and source. Source can be "+
			"'resource_claim_template' (created from a template), 'extended_resource' (extended resources), or empty "+
			"(manually created by a user).", []string{"allocated", "admin_access", "source"}, nil, metrics.ALPHA, "")
	counted = &collector{}
)

func init() { legacyregistry.CustomMustRegister(counted) }

// collector counts the claims that the controller that was made last knows, when somebody asks.
type collector struct {
	metrics.BaseStableCollector
	from atomic.Pointer[resourcelisters.ResourceClaimLister] // nil before a controller is made
}

// DescribeWithStability sends what there may be.
func (c *collector) DescribeWithStability(to chan<- *metrics.Desc) { to <- claimsNow }

// CollectWithStability counts.
func (c *collector) CollectWithStability(to chan<- metrics.Metric) {
	from := c.from.Load()
	if from == nil {
		return
	}
	all, err := (*from).List(labels.Everything())
	if err != nil {
		return
	}
	out := map[[3]string]int{}
	for _, claim := range all {
		out[[3]string{strconv.FormatBool(claim.Status.Allocation != nil), adminAccess(claim), source(claim)}]++
	}
	for l, n := range out {
		to <- metrics.NewLazyConstMetric(claimsNow, metrics.GaugeValue, float64(n), l[:]...)
	}
}

// adminAccess is the label's value: whether a request of the claim has admin access.
func adminAccess(claim *resourceapi.ResourceClaim) string {
	for _, r := range claim.Spec.Devices.Requests {
		if r.Exactly != nil && ptr.Deref(r.Exactly.AdminAccess, false) {
			return "true"
		}
	}
	return "false"
}

// source is the label's value: what a claim was made from.
func source(claim *resourceapi.ResourceClaim) string {
	switch {
	case claim.Annotations[resourceapi.ExtendedResourceClaimAnnotation] == "true":
		return "extended_resource"
	case claim.Annotations[resourceapi.PodResourceClaimAnnotation] != "":
		return "resource_claim_template"
	}
	return ""
}

// countCreation counts the creation of a Pod's claim.
func countCreation(claim *resourceapi.ResourceClaim, err error) {
	result := "success"
	if err != nil {
		result = "failure"
	}
	claimmetrics.ResourceClaimCreate.WithLabelValues(result, adminAccess(claim), "", "Pod").Inc()
}
