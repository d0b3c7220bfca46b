package registry

import (
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/api/operation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// declarativeField is a field that upstream validates by +k8s: tags on its type, with the types of
// the errors it gives. [] stands for any index or key. detail is the one text of an invalid value
// that is declared, where handwritten validation finds such values invalid too; empty: any.
type declarativeField struct {
	path   string
	types  []field.ErrorType
	detail string
}

const (
	required = field.ErrorTypeRequired
	invalid  = field.ErrorTypeInvalid
)

// declarativeFields are the fields of v1.37.2 whose declarative validation is enforced (beta), in
// the order of the types' fields, of kinds without a ValidateDeclaratively of their own. Those
// kinds check them in Validate; their errors come after all others.
var declarativeFields = map[schema.GroupResource][]declarativeField{
	{Resource: "replicationcontrollers"}: {{path: "metadata.name", types: []field.ErrorType{invalid}},
		{path: "spec.replicas", types: []field.ErrorType{required, invalid}},
		{path: "spec.minReadySeconds", types: []field.ErrorType{invalid}}},
	{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicybindings"}: {
		{path: "spec.policyName", types: []field.ErrorType{required}},
		{path: "spec.validationActions", types: []field.ErrorType{required}}},
	{Group: "autoscaling", Resource: "horizontalpodautoscalers"}: {
		{path: "spec.minReplicas", types: []field.ErrorType{invalid}},
		{path: "spec.maxReplicas", types: []field.ErrorType{required, invalid},
			detail: "must be greater than or equal to 1"}},
	{Group: "batch", Resource: "cronjobs"}: {{path: "spec.schedule", types: []field.ErrorType{required}}},
	{Group: "discovery.k8s.io", Resource: "endpointslices"}: {
		{path: "addressType", types: []field.ErrorType{required, invalid, field.ErrorTypeNotSupported}},
		{path: "endpoints[].addresses", types: []field.ErrorType{required, field.ErrorTypeTooMany}}},
	{Group: "networking.k8s.io", Resource: "ingressclasses"}: {
		{path: "spec.parameters.kind", types: []field.ErrorType{required}},
		{path: "spec.parameters.name", types: []field.ErrorType{required}}},
	{Group: "networking.k8s.io", Resource: "ipaddresses"}: {{path: "spec.parentRef.resource",
		types: []field.ErrorType{required}},
		{path: "spec.parentRef.name", types: []field.ErrorType{required}},
		{path: "spec.parentRef", types: []field.ErrorType{required, invalid}}},
	{Group: "networking.k8s.io", Resource: "networkpolicies"}: {
		{path: "spec.ingress[].from[].ipBlock.cidr", types: []field.ErrorType{required}},
		{path: "spec.egress[].to[].ipBlock.cidr", types: []field.ErrorType{required}}},
	{Group: "node.k8s.io", Resource: "runtimeclasses"}: {
		{path: "handler", types: []field.ErrorType{required, invalid}}},
	{Group: "rbac.authorization.k8s.io", Resource: "clusterroles"}: {
		{path: "rules[].verbs", types: []field.ErrorType{required}}},
	{Group: "rbac.authorization.k8s.io", Resource: "roles"}: {
		{path: "rules[].verbs", types: []field.ErrorType{required}}},
	{Group: "rbac.authorization.k8s.io", Resource: "clusterrolebindings"}: {
		{path: "subjects[].name", types: []field.ErrorType{required}}},
	{Group: "rbac.authorization.k8s.io", Resource: "rolebindings"}: {
		{path: "subjects[].name", types: []field.ErrorType{required}}},
}

// declarativeOnCreate are such fields of which updates are not validated declaratively.
var declarativeOnCreate = map[schema.GroupResource][]declarativeField{
	{Group: "rbac.authorization.k8s.io", Resource: "clusterrolebindings"}: {
		{path: "roleRef.name", types: []field.ErrorType{required}}},
	{Group: "rbac.authorization.k8s.io", Resource: "rolebindings"}: {
		{path: "roleRef.name", types: []field.ErrorType{required}}},
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
			return d.path == path && slices.Contains(d.types, e.Type) &&
				(d.detail == "" || e.Type != invalid || e.Detail == d.detail)
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
