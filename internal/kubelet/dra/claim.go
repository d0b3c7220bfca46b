package dra

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/gantry-project/gantry/internal/kubelet/dra/state"
)

// Claim is what is known of one claim on this node.
type Claim struct {
	state.ClaimInfoState
	Prepared    bool // by this kubelet: its drivers have answered
	Unpreparing bool // no Pod is added any more, it is forgotten soon
}

// NewClaim is a claim that nothing was done for. Its error is upstream's.
func NewClaim(c *resourceapi.ResourceClaim) (*Claim, error) {
	if c.Status.Allocation == nil {
		return nil, fmt.Errorf("ResourceClaim %s: %w", c.Name, errors.New("not allocated"))
	}
	out := &Claim{ClaimInfoState: state.ClaimInfoState{ClaimUID: c.UID, ClaimName: c.Name, Namespace: c.Namespace,
		PodUIDs: sets.New[string](), DriverState: map[string]state.DriverState{}}}
	results := map[string][]resourceapi.DeviceRequestAllocationResult{}
	for _, r := range c.Status.Allocation.Devices.Results {
		results[r.Driver] = append(results[r.Driver], r)
	}
	for driver, list := range results {
		out.DriverState[driver] = state.DriverState{SkipNodeOperations: skipped(list)}
	}
	return out, nil
}

// skipped are the operations that all devices of a driver can do without.
func skipped(list []resourceapi.DeviceRequestAllocationResult) []resourceapi.SkipNodeOperation {
	all := func(op resourceapi.SkipNodeOperation) bool {
		return !slices.ContainsFunc(list, func(r resourceapi.DeviceRequestAllocationResult) bool {
			return !slices.Contains(r.SkipNodeOperations, op) &&
				!slices.Contains(r.SkipNodeOperations, resourceapi.SkipNodeOperationAll)
		})
	}
	if all(resourceapi.SkipNodeOperationAll) {
		return []resourceapi.SkipNodeOperation{resourceapi.SkipNodeOperationAll}
	}
	var out []resourceapi.SkipNodeOperation
	for _, op := range []resourceapi.SkipNodeOperation{resourceapi.SkipNodeOperationNodePrepareResources,
		resourceapi.SkipNodeOperationNodeUnprepareResources} {
		if all(op) {
			out = append(out, op)
		}
	}
	return out
}

// Drivers are those that have to be called for an operation, in order.
func (c *Claim) Drivers(op resourceapi.SkipNodeOperation) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(c.DriverState)) {
		if !c.DriverState[name].Skips(op) {
			out = append(out, name)
		}
	}
	return out
}

// SetDevices takes what a driver answered instead of what it answered before.
func (c *Claim) SetDevices(driver string, devices []state.Device) {
	s := c.DriverState[driver]
	s.Devices = devices
	c.DriverState[driver] = s
}

// CDIDevices are the names of the CDI devices for a request of the claim, all for "".
func (c *Claim) CDIDevices(request string) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(c.DriverState)) {
		for _, d := range c.DriverState[name].Devices {
			if request == "" || len(d.RequestNames) == 0 || slices.Contains(d.RequestNames, request) {
				out = append(out, d.CDIDeviceIDs...)
			}
		}
	}
	return out
}

// PodClaim is a claim that a Pod has.
type PodClaim struct {
	Name string // of the ResourceClaim
	// whether it was made for the Pod, which has to be checked before it is used
	CheckOwner bool
}

// PodClaims are the claims of a Pod: those of its spec, and the one that the scheduler made for its
// extended resources. A claim that was not needed is left out; one that is not made yet is an error
// with upstream's text.
func PodClaims(p *v1.Pod) ([]PodClaim, error) {
	var out []PodClaim
	for i := range p.Spec.ResourceClaims {
		name, check, err := resourceclaim.Name(p, &p.Spec.ResourceClaims[i])
		if err != nil {
			return nil, err
		}
		if name != nil {
			out = append(out, PodClaim{*name, check})
		}
	}
	if s := p.Status.ExtendedResourceClaimStatus; s != nil {
		out = append(out, PodClaim{Name: s.ResourceClaimName})
	}
	return out, nil
}

// Requests is what a container uses of one claim.
type Requests struct {
	Claim string   // name of the ResourceClaim
	Names []string // of its requests; "": all of them
	As    []string // the resources in allocatedResourcesStatus, one for each of Names; none for extended resources
}

// ContainerRequests are what a container uses of the Pod's claims.
func ContainerRequests(p *v1.Pod, c *v1.Container) ([]Requests, error) {
	var out []Requests
	for i := range p.Spec.ResourceClaims {
		r := Requests{}
		for _, use := range c.Resources.Claims {
			if use.Name == p.Spec.ResourceClaims[i].Name {
				as := "claim:" + use.Name
				if use.Request != "" {
					as += "/" + use.Request
				}
				r.Names, r.As = append(r.Names, use.Request), append(r.As, as)
			}
		}
		if len(r.Names) == 0 {
			continue
		}
		name, _, err := resourceclaim.Name(p, &p.Spec.ResourceClaims[i])
		if err != nil {
			return nil, err
		}
		if name != nil {
			r.Claim = *name
			out = append(out, r)
		}
	}
	if s := p.Status.ExtendedResourceClaimStatus; s != nil {
		r := Requests{Claim: s.ResourceClaimName}
		for _, m := range s.RequestMappings {
			if q, asks := c.Resources.Requests[v1.ResourceName(m.ResourceName)]; m.ContainerName == c.Name && asks &&
				!q.IsZero() {
				r.Names = append(r.Names, m.RequestName)
			}
		}
		if len(r.Names) > 0 {
			out = append(out, r)
		}
	}
	return out, nil
}
