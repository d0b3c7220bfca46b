package resourcedef

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateSignerName checks spec.signerName: a domain of two segments or more, a slash and a path.
func ValidateSignerName(name string, at *field.Path) field.ErrorList {
	if name == "kubernetes.io/legacy-unknown" {
		return field.ErrorList{field.Invalid(at, name, "the legacy signerName is not allowed via this API version")}
	}
	if name == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	domain, rest, ok := strings.Cut(name, "/")
	if !ok || strings.Contains(rest, "/") {
		return field.ErrorList{
			field.Invalid(at, name, "must be a fully qualified domain and path of the form 'example.com/signer-name'")}
	}
	var errs field.ErrorList
	segment := func(value string, rule func(string) []string) {
		for part := range strings.SplitSeq(value, ".") {
			messages := rule(part)
			for _, msg := range messages {
				errs = append(errs, field.Invalid(at, value, fmt.Sprintf("validating label %q: %s", part, msg)))
			}
			if len(messages) > 0 {
				return // one segment's errors are enough, as upstream
			}
		}
	}
	const longestDomain = validation.DNS1123SubdomainMaxLength
	const longest = longestDomain + 1 + validation.DNS1123SubdomainMaxLength + validation.DNS1123LabelMaxLength + 1
	if len(domain) > longestDomain {
		errs = append(errs, field.TooLong(at, "", longestDomain))
	}
	segment(domain, validation.IsDNS1123Label)
	if !strings.Contains(domain, ".") {
		errs = append(errs,
			field.Invalid(at, domain, "should be a domain with at least two segments separated by dots"))
	}
	segment(rest, validation.IsDNS1123Subdomain)
	if len(name) > longest {
		errs = append(errs, field.TooLong(at, "", longest))
	}
	return errs
}
