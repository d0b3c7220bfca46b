package certificates

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/mail"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	apitypes "k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
)

const (
	maxUID     = 128       // characters
	maxStubCSR = 10 << 10  // bytes of a request that holds a key and a signature alone
	maxChain   = 100 << 10 // bytes of a chain

	// What a Pod's certificate may live, in seconds: asked of signers of kubernetes.io and of
	// others.
	minLife           = 3600
	maxLifeKubernetes = 86400
	maxLife           = 91 * 86400

	refreshSlack = 10 * time.Minute // that a refresh must lie after the beginning and before the end of a certificate
	clockSlack   = 5 * time.Minute  // that a signer's clock may differ
)

// validatePodRequest checks a new request; its signature proves that who asks has the key.
func validatePodRequest(r *certificatesv1.PodCertificateRequest) field.ErrorList {
	s, at := &r.Spec, field.NewPath("spec")
	errs := resourcedef.ValidateSignerName(s.SignerName, at.Child("signerName"))
	errs = append(errs, resourcedef.ValidateSignerAnnotations(s.UnverifiedUserAnnotations,
		at.Child("unverifiedUserAnnotations"))...)
	named := func(name any, child string, messages []string) {
		for _, msg := range messages {
			errs = append(errs, field.Invalid(at.Child(child), name, msg))
		}
	}
	known := func(uid apitypes.UID, child string) {
		if uid == "" {
			errs = append(errs, field.Invalid(at.Child(child), uid, "must not be empty"))
		}
		if len(uid) > maxUID {
			errs = append(errs, field.TooLong(at.Child(child), uid, maxUID))
		}
	}
	named(s.PodName, "podName", validation.NameIsDNSSubdomain(s.PodName, false))
	known(s.PodUID, "podUID")
	named(s.ServiceAccountName, "serviceAccountName", validation.ValidateServiceAccountName(s.ServiceAccountName,
		false))
	known(s.ServiceAccountUID, "serviceAccountUID")
	named(s.NodeName, "nodeName", validation.NameIsDNSSubdomain(string(s.NodeName), false))
	known(s.NodeUID, "nodeUID")
	life := at.Child("maxExpirationSeconds")
	if s.MaxExpirationSeconds == nil {
		return append(errs, field.Required(life, "must be set"))
	}
	most := int32(maxLife)
	if strings.HasPrefix(s.SignerName, "kubernetes.io/") {
		most = maxLifeKubernetes
	}
	if n := *s.MaxExpirationSeconds; n < minLife || n > most {
		errs = append(errs, field.Invalid(life, n, fmt.Sprintf("must be in the range [%d, %d]", minLife, most)))
	}
	if len(s.StubPKCS10Request) == 0 {
		const one = "exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set"
		return append(errs, field.Invalid(at, field.OmitValueType{}, one))
	}
	if _, err := stubKey(s.StubPKCS10Request, at.Child("stubPKCS10Request")); err != nil {
		errs = append(errs, err)
	}
	return errs
}

// stubKey is the public key of a request whose signature is good and whose key is of a kind that is
// served.
func stubKey(der []byte, at *field.Path) (crypto.PublicKey, *field.Error) {
	if len(der) > maxStubCSR {
		return nil, field.TooLong(at, "" /*unused*/, maxStubCSR)
	}
	omitted := field.OmitValueType{}
	req, err := x509.ParseCertificateRequest(der)
	if err != nil {
		return nil, field.Invalid(at, omitted, "must be a valid PKCS#10 CSR")
	}
	switch key := req.PublicKey.(type) {
	case ed25519.PublicKey:
	case *rsa.PublicKey:
		if n := key.Size() * 8; n != 3072 && n != 4096 {
			return nil, field.Invalid(at, fmt.Sprintf("%d-bit modulus", n),
				"RSA keys must have modulus size 3072 or 4096")
		}
	case *ecdsa.PublicKey:
		if key.Curve != elliptic.P256() && key.Curve != elliptic.P384() && key.Curve != elliptic.P521() {
			return nil, field.Invalid(at, "curve "+key.Curve.Params().Name,
				"elliptic public keys must use curve P256, P384, or P521")
		}
	default:
		return nil, field.Invalid(at, omitted, "unknown public key type; supported types are Ed25519, ECDSA, and RSA")
	}
	if err := req.CheckSignature(); err != nil {
		return nil, field.Invalid(at, omitted, "invalid signature")
	}
	return req.PublicKey, nil
}

func validatePodRequestUpdate(r, old *certificatesv1.PodCertificateRequest) field.ErrorList {
	return validation.ValidateImmutableField(r.Spec, old.Spec, field.NewPath("spec"))
}

// validatePodRequestStatus checks a signer's answer: one of Issued, Denied and Failed, of which the
// first alone brings a certificate, and none of it changes later.
func validatePodRequestStatus(r, old *certificatesv1.PodCertificateRequest, now time.Time) field.ErrorList {
	at := field.NewPath("status")
	if errs := podRequestConditions(r); len(errs) > 0 {
		return errs
	}
	same := func(want *certificatesv1.PodCertificateRequestStatus, why string) field.ErrorList {
		if apiequality.Semantic.DeepEqual(&r.Status, want) {
			return nil
		}
		return field.ErrorList{field.Invalid(at, field.OmitValueType{}, why)}
	}
	if podCertificateRequestState(old) != "Pending" {
		return same(&old.Status, "immutable after PodCertificateRequest is issued, denied, or failed")
	}
	switch podCertificateRequestState(r) {
	case certificatesv1.PodCertificateRequestConditionTypeIssued:
		return validateIssued(r, now)
	case "Pending":
		return same(&old.Status, `status is immutable unless transitioning to "Issued", "Denied", or "Failed"`)
	}
	return same(&certificatesv1.PodCertificateRequestStatus{Conditions: r.Status.Conditions},
		"non-condition status fields must be empty when denying or failing the PodCertificateRequest")
}

// podRequestConditions allows one condition, of a known type and true.
func podRequestConditions(r *certificatesv1.PodCertificateRequest) field.ErrorList {
	var errs field.ErrorList
	known := 0
	for i := range r.Status.Conditions {
		c := &r.Status.Conditions[i]
		// v1.37.2 writes the index as a name of its own: status.conditions.[0].type.
		at := field.NewPath("status", "conditions", fmt.Sprintf("[%d]", i))
		if !isFinal(c.Type) {
			errs = append(errs, field.NotSupported(at.Child("type"), c.Type, []string{
				certificatesv1.PodCertificateRequestConditionTypeIssued,
				certificatesv1.PodCertificateRequestConditionTypeDenied,
				certificatesv1.PodCertificateRequestConditionTypeFailed,
			}))
			continue
		}
		if known++; known > 1 {
			const one = `There may be at most one condition with type "Issued", "Denied", or "Failed"`
			errs = append(errs, field.Invalid(at.Child("type"), c.Type, one))
		}
		if c.Status != metav1.ConditionTrue {
			want := []metav1.ConditionStatus{metav1.ConditionTrue}
			errs = append(errs, field.NotSupported(at.Child("status"), c.Status, want))
		}
	}
	return append(errs, metav1validation.ValidateConditions(r.Status.Conditions,
		field.NewPath("status", "conditions"))...)
}

// validateIssued checks a chain against the request and the times that stand beside it; what is
// wrong first is said.
func validateIssued(r *certificatesv1.PodCertificateRequest, now time.Time) field.ErrorList {
	s, at := &r.Status, field.NewPath("status", "certificateChain")
	if len(s.CertificateChain) > maxChain {
		return field.ErrorList{field.TooLong(at, s.CertificateChain, maxChain)}
	}
	block, rest := pem.Decode([]byte(s.CertificateChain))
	if block == nil {
		return refused(at, s.CertificateChain, "issued certificate chain must contain at least one certificate")
	}
	if block.Type != "CERTIFICATE" {
		return refused(at, s.CertificateChain,
			"issued certificate chain must consist entirely of CERTIFICATE PEM blocks")
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return refused(at, s.CertificateChain, "leaf certificate does not parse as valid X.509")
	}
	errs := validateLeafNames(leaf, at)
	csr, err := x509.ParseCertificateRequest(r.Spec.StubPKCS10Request)
	if err != nil {
		return append(errs, field.Invalid(field.NewPath("spec", "stubPKCS10Request"), field.OmitValueType{},
			"must be a valid PKCS#10 CSR"))
	}
	if have, ok := leaf.PublicKey.(interface{ Equal(crypto.PublicKey) bool }); !ok || !have.Equal(csr.PublicKey) {
		const other = "leaf certificate was not issued to the requested public key"
		return append(errs, field.Invalid(at, s.CertificateChain, other))
	}
	if errs = append(errs, timesAreThere(s)...); len(errs) > 0 {
		return errs
	}
	if errs := timesFit(r, leaf, now); len(errs) > 0 {
		return errs
	}
	return intermediates(s.CertificateChain, rest, at)
}

// refused is one finding about a value.
func refused(at *field.Path, value any, why string) field.ErrorList {
	return field.ErrorList{field.Invalid(at, value, why)}
}

// timesAreThere misses times beside an issued certificate.
func timesAreThere(s *certificatesv1.PodCertificateRequestStatus) (errs field.ErrorList) {
	const present = "must be present and consistent with the issued certificate"
	for _, t := range []struct {
		child string
		have  *metav1.Time
		why   string
	}{
		{"notBefore", s.NotBefore, present}, {"notAfter", s.NotAfter, present},
		{"beginRefreshAt", s.BeginRefreshAt, "must be present and in the range [notbefore+10min, notafter-10min]"},
	} {
		if t.have == nil {
			errs = append(errs, field.Required(field.NewPath("status", t.child), t.why))
		}
	}
	return errs
}

// timesFit says the first thing that is wrong about the times, all of which are there.
func timesFit(r *certificatesv1.PodCertificateRequest, leaf *x509.Certificate, now time.Time) field.ErrorList {
	at := field.NewPath("status")
	from, to, refresh := r.Status.NotBefore.Time, r.Status.NotAfter.Time, r.Status.BeginRefreshAt.Time
	life, most := leaf.NotAfter.Sub(leaf.NotBefore), *r.Spec.MaxExpirationSeconds
	switch {
	case !from.Equal(leaf.NotBefore):
		return refused(at.Child("notBefore"), from, "must be set to the NotBefore time encoded in the leaf certificate")
	case from.Sub(now).Abs() >= clockSlack:
		return refused(at.Child("notBefore"), from, "must be set to within 5 minutes of kube-apiserver's current time")
	case !to.Equal(leaf.NotAfter):
		return refused(at.Child("notAfter"), to, "must be set to the NotAfter time encoded in the leaf certificate")
	case life < minLife*time.Second:
		return refused(at.Child("certificateChain"), life, "leaf certificate lifetime must be >= 1 hour")
	case life > time.Duration(most)*time.Second:
		return refused(at.Child("certificateChain"), life,
			fmt.Sprintf("leaf certificate lifetime must be <= spec.maxExpirationSeconds (%v)", most))
	case refresh.Before(from.Add(refreshSlack)):
		return refused(at.Child("beginRefreshAt"), refresh, "must be at least 10 minutes after status.notBefore")
	case refresh.After(to.Add(-refreshSlack)):
		return refused(at.Child("beginRefreshAt"), refresh, "must be at least 10 minutes before status.notAfter")
	}
	return nil
}

// intermediates checks what follows the leaf in a chain: nothing but certificates.
func intermediates(chain string, rest []byte, at *field.Path) field.ErrorList {
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return nil
		}
		if block.Type != "CERTIFICATE" {
			// The word is spelled as v1.37.2 spells it.
			return refused(at, chain, "issued certificate chain must consist entirely of CERTFICATE PEM blocks")
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return refused(at, chain, "intermediate certificate does not parse as valid X.509")
		}
	}
}

// validateLeafNames refuses names in a leaf that no client would take.
func validateLeafNames(leaf *x509.Certificate, at *field.Path) (errs field.ErrorList) {
	for _, name := range leaf.DNSNames {
		if name == "" {
			errs = append(errs, field.Invalid(at, name, "leaf certificate should not contain empty DNSName"))
		}
		if strings.Contains(name, "..") {
			errs = append(errs, field.Invalid(at, name, "leaf certificate's DNSName should not contain '..'"))
		}
		if strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".") {
			errs = append(errs, field.Invalid(at, name, "leaf certificate's DNSName should not start or end with '.'"))
		}
	}
	for _, address := range leaf.EmailAddresses {
		if _, err := mail.ParseAddress(address); err != nil {
			errs = append(errs, field.Invalid(at, address, "leaf certificate should not contain invalid EmailAddress"))
		}
	}
	return errs
}
