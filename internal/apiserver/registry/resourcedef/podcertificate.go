package resourcedef

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The bounds of a Pod certificate's lifetime, in seconds (KEP-4317): at least an hour, at most 91
// days, from signers of kubernetes.io at most a day.
const (
	minPodCertificate        = 3600
	maxPodCertificate        = 91 * 24 * 3600
	maxPodCertificateBuiltIn = 24 * 3600
)

// ValidatePodCertificateLifetime checks maxExpirationSeconds for a signer.
func ValidatePodCertificateLifetime(seconds int32, signer string, at *field.Path) field.ErrorList {
	most, wrong := int32(maxPodCertificate), ""
	if strings.HasPrefix(signer, "kubernetes.io/") {
		most = maxPodCertificateBuiltIn
	}
	switch {
	case seconds < minPodCertificate:
		wrong = fmt.Sprintf("if provided, maxExpirationSeconds must be >= %d", minPodCertificate)
	case seconds > most:
		wrong = fmt.Sprintf("if provided, maxExpirationSeconds must be <= %d", most)
	default:
		return nil
	}
	return field.ErrorList{field.Invalid(at, seconds, wrong)}
}

// ValidateSignerAnnotations checks the annotations that a Pod's author passes to a signer: their
// keys need a domain prefix.
func ValidateSignerAnnotations(m map[string]string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, k := range slices.Sorted(maps.Keys(m)) {
		errs = append(errs, validation.IsDomainPrefixedKey(at, strings.ToLower(k))...)
	}
	if apivalidation.ValidateAnnotationsSize(m) != nil {
		errs = append(errs, field.TooLong(at, "", apivalidation.TotalAnnotationSizeLimitB))
	}
	return errs
}
