package dynamicresources

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/reason"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
)

// deviceState is what there was to allocate from.
type deviceState struct {
	slices    []*resourceapi.ResourceSlice
	allocated *structured.AllocatedState
}

// deviceCount is how many devices of a node match what is asked, and how many of these are taken,
// or have a taint that the request does not tolerate.
type deviceCount struct {
	total     int // devices the node reaches, of any kind
	match     int
	allocated []structured.DeviceID
	tainted   int    // of those that match and are not taken
	taint     string // of the first of these: KEY=VALUE:EFFECT
}

func (c deviceCount) free() int { return c.match - len(c.allocated) - c.tainted }

// Explain counts, for each request that is not served yet, the devices that match and those that
// are taken, and by which claims.
func (pl *Plugin) Explain(ctx context.Context, state framework.CycleState, p *v1.Pod,
	n framework.NodeInfo) schedule.Explanation {
	w, err := cycleStateOf(state)
	if err != nil {
		return schedule.Explanation{Code: reason.NoDevices}
	}
	if why, yes := w.explainElsewhere(n); yes {
		return why
	}
	at := nodeRequest{node: n.Node(), devices: pl.devicesFor(w, n.Node().Name)}
	var own *resourceapi.ResourceClaim
	if s := w.allocations[n.Node().Name]; s != nil {
		own = s.specialClaim
	}
	var details, fixes []string
	for _, c := range w.claimsFor(own) {
		for i := range c.Spec.Devices.Requests {
			at.request = &c.Spec.Devices.Requests[i]
			d, f := pl.explainRequest(ctx, c, at)
			details, fixes = append(details, d...), append(fixes, f...)
		}
	}
	if len(fixes) == 0 && len(details) > 0 {
		fixes = append(fixes,
			"each request alone could be served, not all together: ask for fewer devices, loosen the claim's "+
				"constraints, or free devices of this node")
	}
	return schedule.Explanation{Code: reason.NoDevices, Detail: strings.Join(details, "; "),
		Fix: strings.Join(compact(fixes), "; or ")}
}

func compact(list []string) []string { return slices.Compact(list) }

func (w *cycleState) explainElsewhere(n framework.NodeInfo) (schedule.Explanation, bool) {
	for i, selector := range w.selectors {
		if selector == nil || selector.Match(n.Node()) {
			continue
		}
		c := w.claims[i]
		var devices []string
		for _, r := range c.Status.Allocation.Devices.Results {
			devices = append(devices, r.Driver+"/"+r.Pool+"/"+r.Device)
		}
		var users []string
		for _, r := range c.Status.ReservedFor {
			users = append(users, r.Resource+"/"+r.Name)
		}
		detail := fmt.Sprintf("claim %s has %s, which cannot be reached from this node", keyOf(c),
			strings.Join(devices, ", "))
		fix := "let the Pod run where the claim's devices are"
		if len(users) > 0 {
			detail += "; it is reserved for " + strings.Join(users, ", ")
			fix += ", or end " + strings.Join(users, ", ") + " so that the claim can be allocated anew"
		}
		return schedule.Explanation{Code: reason.DevicesElsewhere, Detail: detail, Fix: fix}, true
	}
	return schedule.Explanation{}, false
}

// nodeRequest is a request seen from a node.
type nodeRequest struct {
	node    *v1.Node
	devices *deviceState
	request *resourceapi.DeviceRequest
}

func (pl *Plugin) explainRequest(ctx context.Context, c *resourceapi.ResourceClaim,
	at nodeRequest) (details, fixes []string) {
	served := false
	for _, a := range deviceRequestsOf(at.request) {
		k, err := pl.countDevices(ctx, at.devices, a, at.node)
		if err != nil {
			details = append(details, fmt.Sprintf("claim %s, request %s: %v", claimName(c), a.name, err))
			continue
		}
		want := max(int(a.count), 1)
		if a.mode == resourceapi.DeviceAllocationModeAll {
			want = max(k.match, 1)
		}
		text := fmt.Sprintf("claim %s, request %s asks for %d of device class %s: ", claimName(c), a.name, want,
			a.class)
		switch {
		case k.total == 0:
			text += "no ResourceSlice offers devices on this node"
		case k.match == 0:
			text += fmt.Sprintf("none of the %d devices of this node matches", k.total)
		default:
			text += fmt.Sprintf("%d of %d devices of this node match, %d taken", k.match, k.total, len(k.allocated))
			if who := pl.claimsHolding(k.allocated); who != "" {
				text += " (" + who + ")"
			}
			if k.tainted > 0 {
				text += fmt.Sprintf(", %d with a taint that the request does not tolerate: %s", k.tainted, k.taint)
			}
		}
		details = append(details, text)
		served = served || k.free() >= want
		fixes = append(fixes, fixText(a, k, want))
	}
	if served {
		return details, nil
	}
	return details, fixes
}

func claimName(c *resourceapi.ResourceClaim) string {
	if c.Name == specialClaimUID {
		return "for the Pod's extended resources"
	}
	return keyOf(c)
}

func fixText(a deviceRequest, k deviceCount, want int) string {
	switch {
	case k.total == 0:
		return fmt.Sprintf("install a driver that publishes ResourceSlices with devices of class %s for this node, "+
			"or add a node that has some", a.class)
	case k.match == 0:
		return fmt.Sprintf("change the selectors of request %s or of class %s, or add a node whose devices match",
			a.name, a.class)
	case k.tainted > 0 && k.free()+k.tainted >= want:
		return fmt.Sprintf("give request %s a toleration of the devices' taint %s, or have that taken off them",
			a.name, k.taint)
	case k.match < want:
		return fmt.Sprintf("ask for at most %d in request %s, or add a node with %d such devices", k.match, a.name,
			want)
	}
	return fmt.Sprintf("free %d of the devices that are taken (end a Pod that has the claim, or delete a claim "+
		"nobody uses), or add a node with devices of class %s", want-k.free(), a.class)
}

// claimsHolding names the claims that have the devices, at most five.
func (pl *Plugin) claimsHolding(taken []structured.DeviceID) string {
	all, err := pl.draManager.ResourceClaims().List()
	if err != nil || len(taken) == 0 {
		return ""
	}
	var out []string
	for _, c := range all {
		if c.Status.Allocation == nil {
			continue
		}
		for _, r := range c.Status.Allocation.Devices.Results {
			if slices.Contains(taken, structured.MakeDeviceID(r.Driver, r.Pool, r.Device)) {
				out = append(out, "claim "+keyOf(c))
				break
			}
		}
	}
	slices.Sort(out)
	const most = 5
	if len(out) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(out[:most], ", "), len(out)-most)
	}
	return strings.Join(out, ", ")
}

func (pl *Plugin) countDevices(ctx context.Context, s *deviceState, a deviceRequest,
	node *v1.Node) (deviceCount, error) {
	var out deviceCount
	if s == nil {
		return out, nil
	}
	selectors := a.selectors
	if class, err := pl.draManager.DeviceClasses().Get(a.class); err == nil {
		selectors = slices.Concat(class.Spec.Selectors, selectors)
	}
	for _, slice := range s.slices {
		for i := range slice.Spec.Devices {
			d := &slice.Spec.Devices[i]
			here, err := isAccessible(slice, d, node)
			if err != nil {
				return out, err
			}
			if !here {
				continue
			}
			out.total++
			yes, err := pl.matches(ctx, selectors,
				cel.Device{Driver: slice.Spec.Driver, AllowMultipleAllocations: d.AllowMultipleAllocations,
					Attributes: d.Attributes, Capacity: d.Capacity})
			if err != nil {
				return out, err
			}
			if !yes {
				continue
			}
			out.match++
			id := structured.MakeDeviceID(slice.Spec.Driver, slice.Spec.Pool.Name, d.Name)
			shared := d.AllowMultipleAllocations != nil && *d.AllowMultipleAllocations
			if !a.admin && !shared && structured.IsDeviceAllocated(id, s.allocated) {
				out.allocated = append(out.allocated, id)
			} else if t := untolerated(d, a); t != "" {
				out.tainted++
				out.taint = cmp.Or(out.taint, t)
			}
		}
	}
	return out, nil
}

// untolerated is the first taint of a device that keeps a request from it, KEY=VALUE:EFFECT; empty
// when there is none.
func untolerated(d *resourceapi.Device, a deviceRequest) string {
	for _, t := range d.Taints {
		if t.Effect == resourceapi.DeviceTaintEffectNone || slices.ContainsFunc(a.tolerations,
			func(x resourceapi.DeviceToleration) bool { return resourceclaim.ToleratesTaint(x, t) }) {
			continue
		}
		return fmt.Sprintf("%s=%s:%s", t.Key, t.Value, t.Effect)
	}
	return ""
}

// isAccessible tells whether a device of the slice can be used on the node.
func isAccessible(slice *resourceapi.ResourceSlice, d *resourceapi.Device, node *v1.Node) (bool, error) {
	name, all, selector := slice.Spec.NodeName, slice.Spec.AllNodes, slice.Spec.NodeSelector
	if slice.Spec.PerDeviceNodeSelection != nil && *slice.Spec.PerDeviceNodeSelection {
		name, all, selector = d.NodeName, d.AllNodes, d.NodeSelector
	}
	return structured.NodeMatches(allocatorFeatures, node, deref(name), deref(all), selector)
}

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

func (pl *Plugin) matches(ctx context.Context, selectors []resourceapi.DeviceSelector, d cel.Device) (bool, error) {
	for _, s := range selectors {
		if s.CEL == nil {
			continue
		}
		program := pl.celCache.GetOrCompile(s.CEL.Expression)
		if program.Error != nil {
			return false, program.Error
		}
		if yes, _, err := program.DeviceMatches(ctx, d); err != nil || !yes {
			return false, err
		}
	}
	return true, nil
}
