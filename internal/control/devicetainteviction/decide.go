package devicetainteviction

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/gantry-project/gantry/internal/pod"
)

// State is the input of Decide.
type State struct {
	Rules  []*resourceapi.DeviceTaintRule
	Slices func(Pool) []*resourceapi.ResourceSlice // of all generations
	Claim  func(namespace, name string) *resourceapi.ResourceClaim
}

// Pool is a driver's pool of devices.
type Pool struct{ Driver, Name string }

// Decision says whether and when a Pod is evicted because of its devices.
type Decision struct {
	Evict  bool
	At     time.Time
	Causes []Cause // every taint that evicts, those of rules first
}

// Cause is a taint that is not tolerated, or only for a time.
type Cause struct {
	Rule   types.UID // UID of the DeviceTaintRule; empty if the driver put the taint into its slice
	Device string    // the rule, or slice, device and index of the taint
}

// Decide compares the taints of a Pod's devices with the tolerations of the claims that allocated
// them. An untolerated taint evicts from its timeAdded on; one tolerated for a time that long
// after. A taint without timeAdded counts from its object's creation. An empty effect of a
// toleration matches all effects, as the API documents.
func Decide(p *corev1.Pod, k State) Decision {
	var v Decision
	if p.Spec.NodeName == "" || pod.IsTerminal(p) {
		return v
	}
	for name, ours := range resourceclaim.PodClaims(p) {
		c := k.Claim(p.Namespace, name)
		if c == nil || c.Status.Allocation == nil || ours && resourceclaim.IsForPod(p, c, false) != nil ||
			!resourceclaim.IsReservedForPod(p, c, false) {
			continue
		}
		for i := range c.Status.Allocation.Devices.Results {
			v.add(&c.Status.Allocation.Devices.Results[i], k)
		}
	}
	slices.SortFunc(v.Causes, func(a, b Cause) int {
		return cmp.Or(cmp.Compare(order(a), order(b)), cmp.Compare(a.Device, b.Device))
	})
	v.Causes = slices.Compact(v.Causes)
	return v
}

func order(c Cause) int {
	if c.Rule != "" {
		return 0
	}
	return 1
}

// add adds the taints of one device.
func (v *Decision) add(r *resourceapi.DeviceRequestAllocationResult, k State) {
	consider := func(t *resourceapi.DeviceTaint, created metav1.Time, c Cause) {
		at, leaves := evictionTime(r.Tolerations, t, created.Time)
		if !leaves {
			return
		}
		v.Causes = append(v.Causes, c)
		if !v.Evict || at.Before(v.At) {
			v.Evict, v.At = true, at
		}
	}
	if s, d := device(k.Slices(Pool{r.Driver, r.Pool}), r.Device); d != nil {
		for i := range d.Taints {
			consider(&d.Taints[i], s.CreationTimestamp,
				Cause{Device: fmt.Sprintf("ResourceSlice %s %s/%s/%s taint #%d", s.Name, r.Driver, r.Pool, r.Device,
					i)})
		}
	}
	for _, rule := range k.Rules {
		if Selects(rule, r.Driver, r.Pool, r.Device) {
			consider(&rule.Spec.Taint, rule.CreationTimestamp,
				Cause{Rule: rule.UID, Device: "DeviceTaintRule " + rule.Name})
		}
	}
}

// maxToleration is the most seconds of toleration that a time.Duration can hold, 292 years.
const maxToleration = int64(math.MaxInt64 / time.Second)

// evictionTime returns when one taint evicts the device's users; false if a toleration without
// limit covers it, otherwise the shortest limit counts.
func evictionTime(tolerations []resourceapi.DeviceToleration, t *resourceapi.DeviceTaint,
	created time.Time) (time.Time, bool) {
	if t.Effect != resourceapi.DeviceTaintEffectNoExecute {
		return time.Time{}, false
	}
	since := created
	if t.TimeAdded != nil {
		since = t.TimeAdded.Time
	}
	limit := time.Duration(-1)
	for _, tol := range tolerations {
		if !resourceclaim.ToleratesTaint(tol, *t) {
			continue
		}
		if tol.TolerationSeconds == nil {
			return time.Time{}, false
		}
		if d := time.Duration(min(max(*tol.TolerationSeconds, 0), maxToleration)) * time.Second; limit < 0 ||
			d < limit {
			limit = d
		}
	}
	return since.Add(max(limit, 0)), true
}

// device returns a device from the slices of its pool's newest generation.
func device(all []*resourceapi.ResourceSlice, name string) (*resourceapi.ResourceSlice, *resourceapi.Device) {
	for _, s := range newest(all) {
		for i := range s.Spec.Devices {
			if s.Spec.Devices[i].Name == name {
				return s, &s.Spec.Devices[i]
			}
		}
	}
	return nil, nil
}

// newest returns the slices of the newest generation; older ones are void.
func newest(all []*resourceapi.ResourceSlice) []*resourceapi.ResourceSlice {
	var out []*resourceapi.ResourceSlice
	for _, s := range all {
		switch {
		case len(out) == 0 || s.Spec.Pool.Generation > out[0].Spec.Pool.Generation:
			out = append(out[:0:0], s)
		case s.Spec.Pool.Generation == out[0].Spec.Pool.Generation:
			out = append(out, s)
		}
	}
	return out
}

// Selects reports whether a rule selects a device. Without a selector it selects none.
func Selects(rule *resourceapi.DeviceTaintRule, driver, pool, device string) bool {
	s := rule.Spec.DeviceSelector
	if s == nil {
		return false
	}
	same := func(want *string, is string) bool { return want == nil || *want == is }
	return same(s.Driver, driver) && same(s.Pool, pool) && same(s.Device, device)
}
