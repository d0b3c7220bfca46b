package resource

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"

	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
)

// AuthorizeStatus holds writers of claims' statuses to permissions of their own beside that for the
// status: resourceclaims/binding for allocation and reservedFor, and resourceclaims/driver, by the
// driver's name, for what a driver says of its devices. KEP-4817, the gate
// DRAResourceClaimGranularStatusAuthorization. from is asked when somebody writes.
func AuthorizeStatus(kinds []resourcedef.Kind, from func() authorizer.Authorizer) {
	for i := range kinds {
		k := &kinds[i]
		if k.Group != resourcev1.GroupName || k.Resource != "resourceclaims" {
			continue
		}
		check := k.Rules.ValidateStatus
		k.Rules.ValidateStatus = func(ctx context.Context, o, old runtime.Object) field.ErrorList {
			c, previous := o.(*resourcev1.ResourceClaim), old.(*resourcev1.ResourceClaim)
			errs := bindingAllowed(ctx, from(), &c.Status, &previous.Status)
			if c.Status.Allocation != nil {
				errs = append(errs, deviceStatusAllowed(ctx, from(), &c.Status, &previous.Status)...)
			}
			return append(errs, check(ctx, o, old)...)
		}
	}
}

// bindingAllowed asks for the permission that upstream's scheduler has: in the whole cluster.
func bindingAllowed(ctx context.Context, a authorizer.Authorizer,
	s, previous *resourcev1.ResourceClaimStatus) field.ErrorList {
	if apiequality.Semantic.DeepEqual(s.Allocation, previous.Allocation) &&
		apiequality.Semantic.DeepEqual(s.ReservedFor, previous.ReservedFor) {
		return nil
	}
	at := field.NewPath("status", "allocation")
	request, err := filters.GetAuthorizerAttributes(ctx)
	if err != nil {
		return field.ErrorList{field.InternalError(at, fmt.Errorf("cannot build authorizer attributes: %w", err))}
	}
	asked := subresource(request, resourcev1.SubresourceBinding)
	asked.Namespace, asked.Name = "", ""
	if err := authorize(ctx, a, asked); err != nil {
		return field.ErrorList{field.Forbidden(at, fmt.Sprintf("changing status.allocation or status.reservedFor "+
			"requires resource=\"resourceclaims/binding\", verb=%q permission: %s", asked.Verb, err))}
	}
	return nil
}

// deviceStatusAllowed asks for the permission of each driver whose devices' statuses change: on the
// writer's own node, if the claim is allocated there, or on any.
func deviceStatusAllowed(ctx context.Context, a authorizer.Authorizer,
	s, previous *resourcev1.ResourceClaimStatus) field.ErrorList {
	drivers := changedDrivers(s, previous)
	if len(drivers) == 0 {
		return nil
	}
	at := field.NewPath("status", "devices")
	request, err := filters.GetAuthorizerAttributes(ctx)
	if err != nil {
		return field.ErrorList{field.InternalError(at, fmt.Errorf("cannot build authorizer attributes: %w", err))}
	}
	verbs := []string{resourcev1.VerbPrefixArbitraryNode + request.GetVerb()}
	if isOnNode(request.GetUser(), allocatedNode(s.Allocation)) {
		verbs = append([]string{resourcev1.VerbPrefixAssociatedNode + request.GetVerb()}, verbs...)
	}
	var errs field.ErrorList
	for _, driver := range sets.List(drivers) {
		var first error
		for _, verb := range verbs {
			asked := subresource(request, resourcev1.SubresourceDriver)
			asked.Verb, asked.Name = verb, driver
			err := authorize(ctx, a, asked)
			if err == nil {
				first = nil
				break
			}
			if first == nil {
				first = err
			}
		}
		if first != nil {
			errs = append(errs, field.Forbidden(at, fmt.Sprintf("changing status.devices requires "+
				"resource=\"resourceclaims/driver\", verb=%q permission: %s", verbs, first)))
		}
	}
	return errs
}

// changedDrivers are the drivers of devices whose status is new, another, or gone.
func changedDrivers(s, previous *resourcev1.ResourceClaimStatus) sets.Set[string] {
	old := map[deviceShare]*resourcev1.AllocatedDeviceStatus{}
	for i := range previous.Devices {
		old[deviceShareOf(&previous.Devices[i])] = &previous.Devices[i]
	}
	out := sets.New[string]()
	for i := range s.Devices {
		d := &s.Devices[i]
		id := deviceShareOf(d)
		if was := old[id]; was == nil || !apiequality.Semantic.DeepEqual(was, d) {
			out.Insert(d.Driver)
		}
		delete(old, id)
	}
	for _, d := range old {
		out.Insert(d.Driver)
	}
	return out
}

// allocatedNode is the one node of an allocation; empty when it is of others too.
func allocatedNode(a *resourcev1.AllocationResult) string {
	if a == nil || a.NodeSelector == nil || len(a.NodeSelector.NodeSelectorTerms) != 1 {
		return ""
	}
	term := a.NodeSelector.NodeSelectorTerms[0]
	if len(term.MatchExpressions) != 0 || len(term.MatchFields) != 1 {
		return ""
	}
	f := term.MatchFields[0]
	if f.Key != "metadata.name" || f.Operator != v1.NodeSelectorOpIn || len(f.Values) != 1 {
		return ""
	}
	return f.Values[0]
}

// isOnNode tells of a service account whose token is of a Pod on the node.
func isOnNode(u user.Info, node string) bool {
	if node == "" || len(content.IsDNS1123Subdomain(node)) > 0 {
		return false
	}
	if _, _, err := serviceaccount.SplitUsername(u.GetName()); err != nil {
		return false
	}
	names := u.GetExtra()[serviceaccount.NodeNameKey]
	return len(names) == 1 && names[0] == node
}

// subresource is the request asked for a part of the claim that is no endpoint.
func subresource(r authorizer.Attributes, name string) authorizer.AttributesRecord {
	return authorizer.AttributesRecord{User: r.GetUser(), Verb: r.GetVerb(), Namespace: r.GetNamespace(),
		APIGroup: r.GetAPIGroup(), APIVersion: r.GetAPIVersion(), Resource: r.GetResource(), Subresource: name,
		Name: r.GetName(), ResourceRequest: true, Path: r.GetPath()}
}

func authorize(ctx context.Context, a authorizer.Authorizer, asked authorizer.AttributesRecord) error {
	decision, why, err := a.Authorize(ctx, asked)
	switch {
	case decision == authorizer.DecisionAllow: // RBAC may allow beside an error
		return nil
	case err != nil && why != "":
		why = fmt.Sprintf("%v: %s", err, why)
	case err != nil:
		why = err.Error()
	}
	return responsewriters.ForbiddenStatusError(asked, why)
}
