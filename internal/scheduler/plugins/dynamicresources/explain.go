package dynamicresources

import (
	"context"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/reason"
	"github.com/gantry-project/gantry/internal/scheduler/place"
)

// stock is what there was to allocate from.
type stock struct {
	slices []*resourceapi.ResourceSlice
	taken  *structured.AllocatedState
}

// count is how many devices of a node match what is asked, and how many of these are taken.
type count struct {
	offered int // devices the node reaches, of any kind
	match   int
	taken   []structured.DeviceID
}

func (c count) free() int { return c.match - len(c.taken) }

// Explain counts, for each request that is not served yet, the devices that match and those that are taken, and by which claims.
func (pl *Plugin) Explain(ctx context.Context, state framework.CycleState, p *v1.Pod, n framework.NodeInfo) place.Why {
	w, err := workOf(state)
	if err != nil {
		return place.Why{Code: reason.NoDevices}
	}
	if why, yes := w.explainElsewhere(n); yes {
		return why
	}
	at := ofNode{node: n.Node(), stock: pl.stockFor(w, n.Node().Name)}
	var own *resourceapi.ResourceClaim
	if s := w.seats[n.Node().Name]; s != nil {
		own = s.own
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
		fixes = append(fixes, "each request alone could be served, not all together: ask for fewer devices, loosen the claim's constraints, or free devices of this node")
	}
	return place.Why{Code: reason.NoDevices, Detail: strings.Join(details, "; "), Fix: strings.Join(compact(fixes), "; or ")}
}

func compact(list []string) []string { return slices.Compact(list) }

func (w *work) explainElsewhere(n framework.NodeInfo) (place.Why, bool) {
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
		detail := fmt.Sprintf("claim %s has %s, which cannot be reached from this node", keyOf(c), strings.Join(devices, ", "))
		fix := "let the Pod run where the claim's devices are"
		if len(users) > 0 {
			detail += "; it is reserved for " + strings.Join(users, ", ")
			fix += ", or end " + strings.Join(users, ", ") + " so that the claim can be allocated anew"
		}
		return place.Why{Code: reason.DevicesElsewhere, Detail: detail, Fix: fix}, true
	}
	return place.Why{}, false
}

// ofNode is a request seen from a node.
type ofNode struct {
	node    *v1.Node
	stock   *stock
	request *resourceapi.DeviceRequest
}

func (pl *Plugin) explainRequest(ctx context.Context, c *resourceapi.ResourceClaim, at ofNode) (details, fixes []string) {
	served := false
	for _, a := range asksOf(at.request) {
		k, err := pl.count(ctx, at.stock, a, at.node)
		if err != nil {
			details = append(details, fmt.Sprintf("claim %s, request %s: %v", claimName(c), a.name, err))
			continue
		}
		want := max(int(a.count), 1)
		if a.mode == resourceapi.DeviceAllocationModeAll {
			want = max(k.match, 1)
		}
		text := fmt.Sprintf("claim %s, request %s asks for %d of device class %s: ", claimName(c), a.name, want, a.class)
		switch {
		case k.offered == 0:
			text += "no ResourceSlice offers devices on this node"
		case k.match == 0:
			text += fmt.Sprintf("none of the %d devices of this node matches", k.offered)
		default:
			text += fmt.Sprintf("%d of %d devices of this node match, %d taken", k.match, k.offered, len(k.taken))
			if who := pl.holders(k.taken); who != "" {
				text += " (" + who + ")"
			}
		}
		details = append(details, text)
		served = served || k.free() >= want
		fixes = append(fixes, fixOf(a, k, want))
	}
	if served {
		return details, nil
	}
	return details, fixes
}

func claimName(c *resourceapi.ResourceClaim) string {
	if c.Name == inMemory {
		return "for the Pod's extended resources"
	}
	return keyOf(c)
}

func fixOf(a ask, k count, want int) string {
	switch {
	case k.offered == 0:
		return fmt.Sprintf("install a driver that publishes ResourceSlices with devices of class %s for this node, or add a node that has some", a.class)
	case k.match == 0:
		return fmt.Sprintf("change the selectors of request %s or of class %s, or add a node whose devices match", a.name, a.class)
	case k.match < want:
		return fmt.Sprintf("ask for at most %d in request %s, or add a node with %d such devices", k.match, a.name, want)
	}
	return fmt.Sprintf("free %d of the devices that are taken (end a Pod that has the claim, or delete a claim nobody uses), or add a node with devices of class %s", want-k.free(), a.class)
}

// holders names the claims that have the devices, at most five.
func (pl *Plugin) holders(taken []structured.DeviceID) string {
	all, err := pl.draw.ResourceClaims().List()
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

func (pl *Plugin) count(ctx context.Context, s *stock, a ask, node *v1.Node) (count, error) {
	var out count
	if s == nil {
		return out, nil
	}
	selectors := a.selectors
	if class, err := pl.draw.DeviceClasses().Get(a.class); err == nil {
		selectors = slices.Concat(class.Spec.Selectors, selectors)
	}
	for _, slice := range s.slices {
		for i := range slice.Spec.Devices {
			d := &slice.Spec.Devices[i]
			here, err := reaches(slice, d, node)
			if err != nil {
				return out, err
			}
			if !here {
				continue
			}
			out.offered++
			yes, err := pl.matches(ctx, selectors, cel.Device{Driver: slice.Spec.Driver, AllowMultipleAllocations: d.AllowMultipleAllocations, Attributes: d.Attributes, Capacity: d.Capacity})
			if err != nil {
				return out, err
			}
			if !yes {
				continue
			}
			out.match++
			id := structured.MakeDeviceID(slice.Spec.Driver, slice.Spec.Pool.Name, d.Name)
			shared := d.AllowMultipleAllocations != nil && *d.AllowMultipleAllocations
			if !a.admin && !shared && structured.IsDeviceAllocated(id, s.taken) {
				out.taken = append(out.taken, id)
			}
		}
	}
	return out, nil
}

// reaches tells whether a device of the slice can be used on the node.
func reaches(slice *resourceapi.ResourceSlice, d *resourceapi.Device, node *v1.Node) (bool, error) {
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
		program := pl.programs.GetOrCompile(s.CEL.Expression)
		if program.Error != nil {
			return false, program.Error
		}
		if yes, _, err := program.DeviceMatches(ctx, d); err != nil || !yes {
			return false, err
		}
	}
	return true, nil
}
