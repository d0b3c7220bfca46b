package kind

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// How long a Pod's certificate may be good, in seconds (KEP-4317): an hour at least, 91 days at most, of signers of kubernetes.io a day at most.
const (
	minPodCertificate        = 3600
	maxPodCertificate        = 91 * 24 * 3600
	maxPodCertificateBuiltIn = 24 * 3600
)

// PodCertificateLife judges the longest life that may be asked of a signer.
func PodCertificateLife(seconds int32, signer string, at *field.Path) field.ErrorList {
	most := int32(maxPodCertificate)
	if strings.HasPrefix(signer, "kubernetes.io/") {
		most = maxPodCertificateBuiltIn
	}
	if seconds < minPodCertificate || seconds > most {
		return field.ErrorList{field.Invalid(at, seconds, fmt.Sprintf("must be in the range [%d, %d]", minPodCertificate, most))}
	}
	return nil
}

// SignerAnnotations judges what the author of a Pod says to a signer: annotations whose keys have a domain in front.
func SignerAnnotations(m map[string]string, at *field.Path) field.ErrorList {
	errs := validation.ValidateAnnotations(m, at)
	for k := range m {
		if !strings.Contains(k, "/") {
			errs = append(errs, field.Invalid(at.Key(k), k, "key must be domain-prefixed"))
		}
	}
	return errs
}
