package certificates

import (
	"context"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apiserver/pkg/admission"
)

// ClusterTrustBundleAttest is the validating plugin ClusterTrustBundleAttest: only who may attest
// for a signer says which authorities are its own (KEP-3257).
type ClusterTrustBundleAttest struct{ *signerAuthorizer }

// NewClusterTrustBundleAttest makes it.
func NewClusterTrustBundleAttest() *ClusterTrustBundleAttest {
	return &ClusterTrustBundleAttest{
		&signerAuthorizer{Handler: admission.NewHandler(admission.Create, admission.Update)}}
}

// Validate implements admission.ValidationInterface.
func (p *ClusterTrustBundleAttest) Validate(ctx context.Context, a admission.Attributes,
	_ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() != certificatesv1.Resource("clustertrustbundles") {
		return nil
	}
	b, ok := a.GetObject().(*certificatesv1.ClusterTrustBundle)
	if !ok {
		return admission.NewForbidden(a, fmt.Errorf("expected type ClusterTrustBundle, got: %T", a.GetObject()))
	}
	if old, ok := a.GetOldObject().(*certificatesv1.ClusterTrustBundle); ok && old.Spec == b.Spec ||
		b.Spec.SignerName == "" {
		return nil
	}
	if !p.authorizedForSigner(ctx, a, "attest", b.Spec.SignerName) {
		return admission.NewForbidden(a, fmt.Errorf("user not permitted to attest for signerName %q",
			b.Spec.SignerName))
	}
	return nil
}
