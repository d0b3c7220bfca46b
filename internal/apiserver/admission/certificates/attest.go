package certificates

import (
	"context"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apiserver/pkg/admission"
)

// Attest is the validating plugin ClusterTrustBundleAttest: only who may attest for a signer says which authorities are its own (KEP-3257).
type Attest struct{ *signers }

// NewAttest makes it.
func NewAttest() *Attest {
	return &Attest{&signers{Handler: admission.NewHandler(admission.Create, admission.Update)}}
}

// Validate implements admission.ValidationInterface.
func (p *Attest) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() != certificatesv1.Resource("clustertrustbundles") {
		return nil
	}
	b, ok := a.GetObject().(*certificatesv1.ClusterTrustBundle)
	if !ok {
		return admission.NewForbidden(a, fmt.Errorf("expected type ClusterTrustBundle, got: %T", a.GetObject()))
	}
	if old, ok := a.GetOldObject().(*certificatesv1.ClusterTrustBundle); ok && old.Spec == b.Spec || b.Spec.SignerName == "" {
		return nil
	}
	if !p.may(ctx, a, "attest", b.Spec.SignerName) {
		return admission.NewForbidden(a, fmt.Errorf("user not permitted to attest for signerName %q", b.Spec.SignerName))
	}
	return nil
}
