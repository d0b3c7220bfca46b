package kind

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// SignerName judges the name of a signer of certificates: a domain of two segments at least, a slash and a path.
func SignerName(name string, at *field.Path) field.ErrorList {
	if name == "kubernetes.io/legacy-unknown" {
		return field.ErrorList{field.Invalid(at, name, "the legacy signerName is not allowed via this API version")}
	}
	if name == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	domain, rest, ok := strings.Cut(name, "/")
	if !ok || strings.Contains(rest, "/") {
		return field.ErrorList{field.Invalid(at, name, "must be a fully qualified domain and path of the form 'example.com/signer-name'")}
	}
	var errs field.ErrorList
	for _, msg := range validation.IsDNS1123Subdomain(domain) {
		errs = append(errs, field.Invalid(at, domain, fmt.Sprintf("validating label %q: %s", domain, msg)))
	}
	if !strings.Contains(domain, ".") {
		errs = append(errs, field.Invalid(at, domain, "should be a domain with at least two segments separated by dots"))
	}
	for _, label := range strings.Split(rest, ".") {
		for _, msg := range validation.IsDNS1123Label(label) {
			errs = append(errs, field.Invalid(at, rest, fmt.Sprintf("validating label %q: %s", label, msg)))
		}
	}
	return errs
}
