package podspec

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
)

// trustBundle validates a projected clusterTrustBundle: one by name, or those of a signer by label
// (KEP-3257).
func (j *validator) trustBundle(b *v1.ClusterTrustBundleProjection, at *field.Path) {
	switch {
	case b.Name != nil && b.SignerName != nil:
		j.Invalid(at, b, "only one of name and signerName may be used")
	case b.Name != nil:
		if *b.Name == "" {
			j.Required(at.Child("name"), "must be a valid object name")
		}
		// The object's name begins with the signer's, with colons for slashes.
		for _, msg := range validation.NameIsDNSSubdomain((*b.Name)[strings.LastIndexByte(*b.Name, ':')+1:], false) {
			j.Invalid(at.Child("name"), *b.Name, fmt.Sprintf("not a valid clustertrustbundlename: %v", msg))
		}
		if b.LabelSelector != nil {
			j.Invalid(at.Child("labelSelector"), b.LabelSelector, "labelSelector must be unset if name is specified")
		}
	case b.SignerName != nil:
		if *b.SignerName == "" {
			j.Required(at.Child("signerName"), "must be a valid signer name")
		}
		j.Add(resourcedef.ValidateSignerName(*b.SignerName, at.Child("signerName"))...)
		j.Add(metav1validation.ValidateLabelSelector(b.LabelSelector, metav1validation.LabelSelectorValidationOptions{},
			at.Child("labelSelector"))...)
	default:
		j.Required(at, "either name or signerName must be specified")
	}
	if b.Path == "" {
		j.Required(at.Child("path"), "")
	}
	j.localNonReservedPath(b.Path, at.Child("path"))
}
