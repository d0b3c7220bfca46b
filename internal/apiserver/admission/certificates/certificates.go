package certificates

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// signerAuthorizer asks the authorizer about verbs on signers.
type signerAuthorizer struct {
	*admission.Handler
	authorizer authorizer.Authorizer
}

// SetAuthorizer implements initializer.WantsAuthorizer.
func (s *signerAuthorizer) SetAuthorizer(a authorizer.Authorizer) { s.authorizer = a }

// ValidateInitialization implements admission.InitializationValidator.
func (s *signerAuthorizer) ValidateInitialization() error {
	if s.authorizer == nil {
		return errors.New("certificates admission: no authorizer")
	}
	return nil
}

// authorizedForSigner tells whether a user holds a verb on a signer, by its name or by DOMAIN/*.
func (s *signerAuthorizer) authorizedForSigner(ctx context.Context, a admission.Attributes, verb, signer string) bool {
	domain, _, _ := strings.Cut(signer, "/")
	for _, name := range []string{signer, domain + "/*"} {
		d, _, err := s.authorizer.Authorize(ctx, authorizer.AttributesRecord{
			User: a.GetUserInfo(), Verb: verb, Name: name,
			APIGroup: certificatesv1.GroupName, APIVersion: "*", Resource: "signers", ResourceRequest: true,
		})
		if err == nil && d == authorizer.DecisionAllow {
			return true
		}
	}
	return false
}

func isSubresourceWrite(a admission.Attributes, subresource string) bool {
	return a.GetResource().GroupResource() == certificatesv1.Resource("certificatesigningrequests") &&
		a.GetSubresource() == subresource
}

// Approval is the validating plugin CertificateApproval.
type Approval struct{ *signerAuthorizer }

// NewApproval makes it.
func NewApproval() *Approval {
	return &Approval{&signerAuthorizer{Handler: admission.NewHandler(admission.Update)}}
}

// Validate implements admission.ValidationInterface.
func (p *Approval) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if !isSubresourceWrite(a, "approval") {
		return nil
	}
	// The signer of the stored object: what was sent is not to be trusted.
	csr, ok := a.GetOldObject().(*certificatesv1.CertificateSigningRequest)
	if !ok {
		return admission.NewForbidden(a, fmt.Errorf("expected type CertificateSigningRequest, got: %T",
			a.GetOldObject()))
	}
	if !p.authorizedForSigner(ctx, a, "approve", csr.Spec.SignerName) {
		return admission.NewForbidden(a, fmt.Errorf("user not permitted to approve requests with signerName %q",
			csr.Spec.SignerName))
	}
	return nil
}

// Signing is the validating plugin CertificateSigning.
type Signing struct{ *signerAuthorizer }

// NewSigning makes it.
func NewSigning() *Signing {
	return &Signing{&signerAuthorizer{Handler: admission.NewHandler(admission.Update)}}
}

// Validate implements admission.ValidationInterface.
func (p *Signing) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if old, ok := a.GetOldObject().(*certificatesv1.PodCertificateRequest); ok && a.GetSubresource() == "status" &&
		!p.authorizedForSigner(ctx, a, "sign", old.Spec.SignerName) {
		return admission.NewForbidden(a, fmt.Errorf("user not permitted to sign requests with signerName %q",
			old.Spec.SignerName))
	}
	if !isSubresourceWrite(a, "status") {
		return nil
	}
	old, ok1 := a.GetOldObject().(*certificatesv1.CertificateSigningRequest)
	csr, ok2 := a.GetObject().(*certificatesv1.CertificateSigningRequest)
	if !ok1 || !ok2 {
		return admission.NewForbidden(a, fmt.Errorf("expected type CertificateSigningRequest, got: %T", a.GetObject()))
	}
	if slices.Equal(old.Status.Certificate, csr.Status.Certificate) && equality.Semantic.DeepEqual(failure(old),
		failure(csr)) {
		return nil
	}
	if !p.authorizedForSigner(ctx, a, "sign", old.Spec.SignerName) {
		return admission.NewForbidden(a, fmt.Errorf("user not permitted to sign requests with signerName %q",
			old.Spec.SignerName))
	}
	return nil
}

func failure(c *certificatesv1.CertificateSigningRequest) *certificatesv1.CertificateSigningRequestCondition {
	for i := range c.Status.Conditions {
		if c.Status.Conditions[i].Type == certificatesv1.CertificateFailed {
			return &c.Status.Conditions[i]
		}
	}
	return nil
}

// SubjectRestriction is the validating plugin CertificateSubjectRestriction.
type SubjectRestriction struct{ *admission.Handler }

// NewSubjectRestriction makes it.
func NewSubjectRestriction() *SubjectRestriction {
	return &SubjectRestriction{admission.NewHandler(admission.Create)}
}

// Validate implements admission.ValidationInterface.
func (*SubjectRestriction) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	csr, ok := a.GetObject().(*certificatesv1.CertificateSigningRequest)
	if !ok || !isSubresourceWrite(a, "") || csr.Spec.SignerName != certificatesv1.KubeAPIServerClientSignerName {
		return nil
	}
	block, _ := pem.Decode(csr.Spec.Request)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return admission.NewForbidden(a, errors.New("failed to parse CSR: PEM block type must be CERTIFICATE REQUEST"))
	}
	req, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return admission.NewForbidden(a, fmt.Errorf("failed to parse CSR: %w", err))
	}
	if slices.Contains(req.Subject.Organization, user.SystemPrivilegedGroup) {
		return admission.NewForbidden(a, fmt.Errorf("use of %s signer with %s group is not allowed",
			certificatesv1.KubeAPIServerClientSignerName, user.SystemPrivilegedGroup))
	}
	return nil
}
