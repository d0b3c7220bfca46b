package registry

import (
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/api/operation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// declarativeField is a field that upstream validates by +k8s: tags on its type, with the types of
// the errors it gives. [] stands for any index or key.
type declarativeField struct {
	path  string
	types []field.ErrorType
}

const (
	required = field.ErrorTypeRequired
	invalid  = field.ErrorTypeInvalid
)

// declarativeFields are the fields of v1.37.2 whose declarative validation is enforced (beta), in
// the order of the types' fields, of kinds without a ValidateDeclaratively of their own. Those
// kinds check them in Validate; their errors come after all others.
var declarativeFields = map[schema.GroupResource][]declarativeField{
	{Resource: "replicationcontrollers"}: {{"metadata.name", []field.ErrorType{invalid}},
		{"spec.replicas", []field.ErrorType{required, invalid}}, {"spec.minReadySeconds", []field.ErrorType{invalid}}},
	{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicybindings"}: {
		{"spec.policyName", []field.ErrorType{required}}, {"spec.validationActions", []field.ErrorType{required}}},
	{Group: "autoscaling", Resource: "horizontalpodautoscalers"}: {
		{"spec.minReplicas", []field.ErrorType{invalid}}, {"spec.maxReplicas", []field.ErrorType{required, invalid}}},
	{Group: "discovery.k8s.io", Resource: "endpointslices"}: {
		{"addressType", []field.ErrorType{required, invalid, field.ErrorTypeNotSupported}},
		{"endpoints[].addresses", []field.ErrorType{required, field.ErrorTypeTooMany}}},
	{Group: "networking.k8s.io", Resource: "ingressclasses"}: {
		{"spec.parameters.kind", []field.ErrorType{required}}, {"spec.parameters.name", []field.ErrorType{required}}},
	{Group: "networking.k8s.io", Resource: "ipaddresses"}: {{"spec.parentRef.resource", []field.ErrorType{required}},
		{"spec.parentRef.name", []field.ErrorType{required}}, {"spec.parentRef", []field.ErrorType{required, invalid}}},
	{Group: "networking.k8s.io", Resource: "networkpolicies"}: {
		{"spec.ingress[].from[].ipBlock.cidr", []field.ErrorType{required}},
		{"spec.egress[].to[].ipBlock.cidr", []field.ErrorType{required}}},
	{Group: "node.k8s.io", Resource: "runtimeclasses"}:             {{"handler", []field.ErrorType{required, invalid}}},
	{Group: "rbac.authorization.k8s.io", Resource: "clusterroles"}: {{"rules[].verbs", []field.ErrorType{required}}},
	{Group: "rbac.authorization.k8s.io", Resource: "roles"}:        {{"rules[].verbs", []field.ErrorType{required}}},
	{Group: "rbac.authorization.k8s.io", Resource: "clusterrolebindings"}: {
		{"subjects[].name", []field.ErrorType{required}}},
	{Group: "rbac.authorization.k8s.io", Resource: "rolebindings"}: {
		{"subjects[].name", []field.ErrorType{required}}},
}

// declarativeOnCreate are such fields of which updates are not validated declaratively.
var declarativeOnCreate = map[schema.GroupResource][]declarativeField{
	{Group: "rbac.authorization.k8s.io", Resource: "clusterrolebindings"}: {
		{"roleRef.name", []field.ErrorType{required}}},
	{Group: "rbac.authorization.k8s.io", Resource: "rolebindings"}: {{"roleRef.name", []field.ErrorType{required}}},
}

var indexOrKey = regexp.MustCompile(`\[[^\]]*\]`)

// splitDeclarative returns the errors of handwritten validation and those of declarative
// validation, each in upstream's order. Errors marked beta are declarative too.
func splitDeclarative(gr schema.GroupResource, t operation.Type,
	errs field.ErrorList) (handwritten, declared field.ErrorList) {
	list := declarativeFields[gr]
	if t == operation.Create {
		list = slices.Concat(list, declarativeOnCreate[gr])
	}
	rank := func(e *field.Error) int {
		path := indexOrKey.ReplaceAllString(e.Field, "[]")
		return slices.IndexFunc(list, func(d declarativeField) bool {
			return d.path == path && slices.Contains(d.types, e.Type)
		})
	}
	for _, e := range errs {
		if e.IsBeta() || rank(e) >= 0 {
			declared = append(declared, e)
		} else {
			handwritten = append(handwritten, e)
		}
	}
	slices.SortStableFunc(declared, func(a, b *field.Error) int { return rank(a) - rank(b) })
	return handwritten, declared
}
