package finding

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// poolID names a pool of devices.
type poolID struct{ driver, pool string }

// incompletePools finds pools of devices of which ResourceSlices are missing: the scheduler gives
// out nothing of a pool before it has all slices of its newest generation. Of a Pod without a node,
// and of a claim without devices, it finds those of drivers that could serve them.
func incompletePools(c *Cluster, o metav1.Object, self Object) []Finding {
	var concerns func(poolID) bool
	switch x := o.(type) {
	case *resourcev1.ResourceSlice:
		concerns = func(id poolID) bool { return id == poolID{x.Spec.Driver, x.Spec.Pool.Name} }
	case *resourcev1.ResourceClaim:
		concerns = c.mayServe(x)
	case *corev1.Pod:
		if x.Spec.NodeName != "" {
			return nil
		}
		var of []func(poolID) bool
		for _, claim := range c.waitingClaims(x) {
			of = append(of, c.mayServe(claim))
		}
		concerns = func(id poolID) bool {
			return slices.ContainsFunc(of, func(f func(poolID) bool) bool { return f(id) })
		}
	default:
		return nil
	}
	newest := map[poolID][]*resourcev1.ResourceSlice{}
	for _, s := range list[*resourcev1.ResourceSlice](c, "ResourceSlice") {
		id := poolID{s.Spec.Driver, s.Spec.Pool.Name}
		have := newest[id]
		switch {
		case len(have) > 0 && have[0].Spec.Pool.Generation > s.Spec.Pool.Generation:
			continue
		case len(have) > 0 && have[0].Spec.Pool.Generation < s.Spec.Pool.Generation:
			have = nil
		}
		newest[id] = append(have, s)
	}
	var out []Finding
	for _, s := range list[*resourcev1.ResourceSlice](c, "ResourceSlice") {
		id := poolID{s.Spec.Driver, s.Spec.Pool.Name}
		have := newest[id]
		if have[0] != s || int64(len(have)) >= s.Spec.Pool.ResourceSliceCount || !concerns(id) {
			continue
		}
		f := Finding{Code: "PoolIncomplete", Severity: Threat, Stage: StagePlacement,
			Object: objectOf("ResourceSlice", s), Field: "spec.pool.resourceSliceCount",
			Value: fmt.Sprint(s.Spec.Pool.ResourceSliceCount),
			Want:  fmt.Sprint(len(have)), Numbers: map[string]string{"slices": fmt.Sprint(len(have)),
				"resourceSliceCount": fmt.Sprint(s.Spec.Pool.ResourceSliceCount),
				"generation":         fmt.Sprint(s.Spec.Pool.Generation)},
			Message: fmt.Sprintf("Pool %s of driver %s says that it has %d ResourceSlices of generation %d, and %d "+
				"of them are there: nothing of it is given out before all "+
				"are.", id.pool, id.driver, s.Spec.Pool.ResourceSliceCount,
				s.Spec.Pool.Generation, len(have)),
			Remedies: []Remedy{{Say: fmt.Sprintf("let driver %s publish all its slices: see whether its plugin runs "+
				"on the node, and what it says", id.driver), Run: []string{"kubectl get resourceslices"}}}}
		if f.Object != self {
			f.Related = []Object{self}
		}
		out = append(out, f)
	}
	return out
}

// waitingClaims are the claims of a Pod that have no devices yet.
func (c *Cluster) waitingClaims(p *corev1.Pod) []*resourcev1.ResourceClaim {
	var out []*resourcev1.ResourceClaim
	for _, x := range p.Spec.ResourceClaims {
		name := ""
		if x.ResourceClaimName != nil {
			name = *x.ResourceClaimName
		}
		for _, s := range p.Status.ResourceClaimStatuses {
			if s.Name == x.Name && s.ResourceClaimName != nil {
				name = *s.ResourceClaimName
			}
		}
		if claim, ok := get[*resourcev1.ResourceClaim](c, "ResourceClaim", p.Namespace, name); ok {
			out = append(out, claim)
		}
	}
	return out
}

// mayServe tells which pools may serve a claim without devices: those of drivers that its
// expressions, or its classes', name; of expressions that name no driver all.
func (c *Cluster) mayServe(claim *resourcev1.ResourceClaim) func(poolID) bool {
	if claim.Status.Allocation != nil {
		return func(poolID) bool { return false }
	}
	var text strings.Builder
	add := func(list []resourcev1.DeviceSelector) {
		for _, s := range list {
			if s.CEL != nil {
				text.WriteString(s.CEL.Expression + "\n")
			}
		}
	}
	for _, r := range claim.Spec.Devices.Requests {
		asked := []resourcev1.DeviceSubRequest{}
		if r.Exactly != nil {
			asked = append(asked, resourcev1.DeviceSubRequest{DeviceClassName: r.Exactly.DeviceClassName,
				Selectors: r.Exactly.Selectors})
		}
		for _, a := range append(asked, r.FirstAvailable...) {
			add(a.Selectors)
			if class, ok := get[*resourcev1.DeviceClass](c, "DeviceClass", "", a.DeviceClassName); ok {
				add(class.Spec.Selectors)
			}
		}
	}
	said := text.String()
	return func(id poolID) bool {
		return strings.Contains(said, id.driver) || !strings.Contains(said, "device.driver")
	}
}
