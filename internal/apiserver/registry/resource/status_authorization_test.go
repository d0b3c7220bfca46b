package resource

import (
	"context"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/gantry-project/gantry/test/expect"
)

// permissions are what somebody may: verb, subresource, namespace and name.
type permissions struct {
	authorizer.Authorizer
	allowed []string
	asked   []string
}

func (p *permissions) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	is := strings.Join([]string{a.GetVerb(), a.GetResource() + "/" + a.GetSubresource(), a.GetNamespace(), a.GetName()},
		" ")
	p.asked = append(p.asked, is)
	if slices.Contains(p.allowed, is) {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "no rule", nil
}

// Who changes what of a claim's status needs a permission of its own: the scheduler's for
// allocation and reservations, a driver's for its devices, on its node or on any.
func TestWritersOfClaimStatusesAreAuthorized(t *testing.T) {
	const bind, here, anywhere = "update resourceclaims/binding  ",
		"associated-node:update resourceclaims/driver n gpu.example.com",
		"arbitrary-node:update resourceclaims/driver n gpu.example.com"
	allocated := func(node string, devices ...resourcev1.AllocatedDeviceStatus) *resourcev1.ResourceClaim {
		c := exact(nil)
		c.Status.Allocation = &resourcev1.AllocationResult{NodeSelector: &v1.NodeSelector{
			NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchFields: []v1.NodeSelectorRequirement{{
				Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{node}}}}}},
			Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{{
				Request: "r", Driver: "gpu.example.com", Pool: "p", Device: "d"}}}}
		c.Status.Devices = devices
		return c
	}
	device := resourcev1.AllocatedDeviceStatus{Driver: "gpu.example.com", Pool: "p", Device: "d"}
	for name, c := range map[string]struct {
		old, is *resourcev1.ResourceClaim
		allowed []string
		asked   []string
		refused string // the field; empty: it is not
	}{
		"nothing changes":    {allocated("n1", device), allocated("n1", device), nil, nil, ""},
		"allocates":          {exact(nil), allocated("n1"), []string{bind}, []string{bind}, ""},
		"may not allocate":   {exact(nil), allocated("n1"), nil, []string{bind}, "status.allocation"},
		"deallocates":        {allocated("n1", device), exact(nil), []string{bind}, []string{bind}, ""},
		"driver on its node": {allocated("n1"), allocated("n1", device), []string{here}, []string{here}, ""},
		"driver of all nodes": {allocated("n2"), allocated("n2", device), []string{anywhere},
			[]string{anywhere}, ""},
		"driver of all nodes, on its own": {allocated("n1"), allocated("n1", device), []string{anywhere},
			[]string{here, anywhere}, ""},
		"driver of another node": {allocated("n2"), allocated("n2", device), []string{here}, []string{anywhere},
			"status.devices"},
		"a status is removed": {allocated("n1", device), allocated("n1"), nil, []string{here, anywhere},
			"status.devices"},
	} {
		p := &permissions{allowed: c.allowed}
		kinds := Kinds(func(context.Context, string) (map[string]string, error) { return nil, nil })
		AuthorizeStatus(kinds, func() authorizer.Authorizer { return p })
		ctx := request.WithUser(t.Context(), &user.DefaultInfo{Name: "system:serviceaccount:dra:driver",
			Extra: map[string][]string{"authentication.kubernetes.io/node-name": {"n1"}}})
		ctx = request.WithRequestInfo(ctx, &request.RequestInfo{IsResourceRequest: true, Verb: "update", Namespace: "n",
			APIGroup: "resource.k8s.io", APIVersion: "v1", Resource: "resourceclaims", Subresource: "status",
			Name: "x"})
		errs := kinds[0].Rules.ValidateStatus(ctx, c.is, c.old)
		if !slices.Equal(p.asked, c.asked) {
			t.Errorf("%s: asked for %q, want %q", name, p.asked, c.asked)
		}
		errs = slices.DeleteFunc(errs, func(e *field.Error) bool { return e.Type != field.ErrorTypeForbidden })
		if got := expect.ErrorTexts(errs); (c.refused == "") != (got == "") || !strings.HasPrefix(got, c.refused) {
			t.Errorf("%s: got %q, want %q refused", name, got, c.refused)
		}
	}
}
