package admissionregistration

import (
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/util/webhook"

	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

// maxTimeoutSeconds is the most seconds a webhook may take.
const maxTimeoutSeconds = 30

func checkWebhooks(x celCompilers, list, previous []webhookFields) field.ErrorList {
	var f typed.Errors
	stored := sets.New[string]()
	for i := range previous {
		for _, c := range previous[i].MatchConditions {
			stored.Insert(c.Expression)
		}
	}
	e := &expressionValidator{Errors: &f, stored: stored,
		declared: plugincel.OptionalVariableDeclarations{HasAuthorizer: true}}
	path, seen := field.NewPath("webhooks"), sets.New[string]()
	for i := range list {
		h, at := &list[i], path.Index(i)
		checkWebhook(&f, h, at)
		if len(h.MatchConditions) > 0 {
			e.compiler = x.simple()
			e.conditions(h.MatchConditions, at.Child("matchConditions"))
		}
		checkVersions(&f, h.AdmissionReviewVersions, at.Child("admissionReviewVersions"), !hasUnknownVersions(previous))
		if seen.Has(h.Name) && !duplicates(previous) {
			f.Add(field.Duplicate(at.Child("name"), h.Name))
		}
		seen.Insert(h.Name)
	}
	return f.List()
}

// hasUnknownVersions says that a stored configuration gets by without a version of reviews we know.
func hasUnknownVersions(previous []webhookFields) bool {
	return slices.ContainsFunc(previous,
		func(h webhookFields) bool { return !slices.ContainsFunc(h.AdmissionReviewVersions, isKnownVersion) })
}

func duplicates(previous []webhookFields) bool {
	seen := sets.New[string]()
	for _, h := range previous {
		seen.Insert(h.Name)
	}
	return seen.Len() < len(previous)
}

func isKnownVersion(version string) bool { return version == "v1" || version == "v1beta1" }

func checkWebhook(f *typed.Errors, h *webhookFields, at *field.Path) {
	f.Add(validation.IsFullyQualifiedName(at.Child("name"), h.Name)...)
	for i := range h.Rules {
		checkRule(f, &h.Rules[i], at.Child("rules").Index(i))
	}
	if p := h.FailurePolicy; p != nil {
		typed.Supported(f, at.Child("failurePolicy"), *p, admissionv1.Fail, admissionv1.Ignore)
	}
	if p := h.MatchPolicy; p != nil {
		typed.Supported(f, at.Child("matchPolicy"), *p, admissionv1.Equivalent, admissionv1.Exact)
	}
	if p := h.SideEffects; p == nil {
		f.Required(at.Child("sideEffects"), "must specify one of None, NoneOnDryRun")
	} else {
		typed.Supported(f, at.Child("sideEffects"), *p, admissionv1.SideEffectClassNone,
			admissionv1.SideEffectClassNoneOnDryRun)
	}
	if n := h.TimeoutSeconds; n != nil && (*n < 1 || *n > maxTimeoutSeconds) {
		f.Invalid(at.Child("timeoutSeconds"), *n, "the timeout value must be between 1 and 30 seconds")
	}
	f.LabelSelector(at.Child("namespaceSelector"), h.NamespaceSelector)
	f.LabelSelector(at.Child("objectSelector"), h.ObjectSelector)
	if p := h.reinvocationPolicy; p != nil {
		typed.Supported(f, at.Child("reinvocationPolicy"), *p, admissionv1.IfNeededReinvocationPolicy,
			admissionv1.NeverReinvocationPolicy)
	}
	switch c, path := &h.ClientConfig, at.Child("clientConfig"); {
	case (c.URL == nil) == (c.Service == nil):
		f.Required(path, "exactly one of url or service is required")
	case c.URL != nil:
		f.Add(webhook.ValidateWebhookURL(path.Child("url"), *c.URL, true)...)
	default:
		// upstream gives name and namespace in this order: what is said of one names the other
		f.Add(webhook.ValidateWebhookService(path.Child("service"), c.Service.Name, c.Service.Namespace, c.Service.Path,
			typed.Deref(c.Service.Port))...)
	}
}

func checkVersions(f *typed.Errors, list []string, path *field.Path, wantKnown bool) {
	if len(list) == 0 {
		f.Required(path, "must specify one of v1, v1beta1")
		return
	}
	seen := sets.New[string]()
	for i, v := range list {
		if seen.Has(v) {
			f.Invalid(path.Index(i), v, "duplicate version")
			continue
		}
		seen.Insert(v)
		f.InvalidEach(path.Index(i), v, validation.IsDNS1035Label(v))
	}
	if wantKnown && !slices.ContainsFunc(list, isKnownVersion) {
		f.Invalid(path, list, "must include at least one of v1, v1beta1")
	}
}
