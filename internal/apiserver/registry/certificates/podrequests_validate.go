package certificates

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/mail"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/kind"
)

const (
	maxUID     = 128       // characters
	maxStubCSR = 10 << 10  // bytes of a request that holds a key and a signature alone
	maxChain   = 100 << 10 // bytes of a chain

	minLife      = time.Hour        // of a Pod's certificate
	refreshSlack = 10 * time.Minute // that a refresh must lie after the beginning and before the end of a certificate
	clockSlack   = 5 * time.Minute  // that a signer's clock may differ
)

// validatePodRequest checks a new request; its signature proves that who asks has the key.
func validatePodRequest(r *certificatesv1.PodCertificateRequest) field.ErrorList {
	s, at := &r.Spec, field.NewPath("spec")
	errs := kind.SignerName(s.SignerName, at.Child("signerName"))
	named := func(name, child string, rule validation.ValidateNameFunc) {
		if name == "" {
			errs = append(errs, field.Required(at.Child(child), ""))
			return
		}
		for _, msg := range rule(name, false) {
			errs = append(errs, field.Invalid(at.Child(child), name, msg))
		}
	}
	known := func(uid, child string) {
		switch {
		case uid == "":
			errs = append(errs, field.Required(at.Child(child), ""))
		case len(uid) > maxUID:
			errs = append(errs, field.TooLong(at.Child(child), "" /*unused*/, maxUID))
		}
	}
	named(s.PodName, "podName", validation.NameIsDNSSubdomain)
	known(string(s.PodUID), "podUID")
	named(s.ServiceAccountName, "serviceAccountName", validation.ValidateServiceAccountName)
	known(string(s.ServiceAccountUID), "serviceAccountUID")
	named(string(s.NodeName), "nodeName", validation.NameIsDNSSubdomain)
	known(string(s.NodeUID), "nodeUID")
	if s.MaxExpirationSeconds == nil {
		errs = append(errs, field.Required(at.Child("maxExpirationSeconds"), ""))
	} else {
		errs = append(errs, kind.PodCertificateLife(*s.MaxExpirationSeconds, s.SignerName, at.Child("maxExpirationSeconds"))...)
	}
	if _, err := stubKey(s.StubPKCS10Request, at.Child("stubPKCS10Request")); err != nil {
		errs = append(errs, err)
	}
	return append(errs, kind.SignerAnnotations(s.UnverifiedUserAnnotations, at.Child("unverifiedUserAnnotations"))...)
}

// stubKey is the public key of a request whose signature is good and whose key is of a kind that is served.
func stubKey(der []byte, at *field.Path) (crypto.PublicKey, *field.Error) {
	bad := func(format string, args ...any) *field.Error {
		return field.Invalid(at, "<value omitted>", fmt.Sprintf(format, args...))
	}
	switch {
	case len(der) == 0:
		return nil, field.Required(at, "")
	case len(der) > maxStubCSR:
		return nil, field.TooLong(at, "" /*unused*/, maxStubCSR)
	}
	req, err := x509.ParseCertificateRequest(der)
	if err != nil {
		return nil, bad("must be a DER-encoded PKCS#10 request: %v", err)
	}
	switch key := req.PublicKey.(type) {
	case ed25519.PublicKey:
	case *rsa.PublicKey:
		if n := key.N.BitLen(); n != 3072 && n != 4096 {
			return nil, bad("RSA keys must have modulus size 3072 or 4096")
		}
	case *ecdsa.PublicKey:
		if key.Curve != elliptic.P256() && key.Curve != elliptic.P384() && key.Curve != elliptic.P521() {
			return nil, bad("ECDSA public keys must be use curve P256, P384, or P521")
		}
	default:
		return nil, bad("unknown public key type; supported types are Ed25519, ECDSA, and RSA")
	}
	if err := req.CheckSignature(); err != nil {
		return nil, bad("could not verify the signature, which must be made by the subject's private key: %v", err)
	}
	return req.PublicKey, nil
}

func validatePodRequestUpdate(r, old *certificatesv1.PodCertificateRequest) field.ErrorList {
	return validation.ValidateImmutableField(r.Spec, old.Spec, field.NewPath("spec"))
}

// validatePodRequestStatus checks a signer's answer: one of Issued, Denied and Failed, of which the first alone brings a certificate, and none of it changes later.
func validatePodRequestStatus(r, old *certificatesv1.PodCertificateRequest, now time.Time) field.ErrorList {
	at := field.NewPath("status")
	conditions := at.Child("conditions")
	errs := metav1validation.ValidateConditions(r.Status.Conditions, conditions)
	last := ""
	for i := range r.Status.Conditions {
		c := &r.Status.Conditions[i]
		switch {
		case !ends(c.Type):
			errs = append(errs, field.NotSupported(conditions.Index(i).Child("type"), c.Type, []string{
				certificatesv1.PodCertificateRequestConditionTypeIssued, certificatesv1.PodCertificateRequestConditionTypeDenied, certificatesv1.PodCertificateRequestConditionTypeFailed,
			}))
			continue
		case last != "":
			errs = append(errs, field.Invalid(conditions.Index(i).Child("type"), c.Type, `There may be at most one condition with type "Issued", "Denied", or "Failed"`))
		case c.Status != metav1.ConditionTrue:
			errs = append(errs, field.NotSupported(conditions.Index(i).Child("status"), c.Status, []metav1.ConditionStatus{metav1.ConditionTrue}))
		}
		last = c.Type
	}
	if podRequestState(old) != "Pending" {
		return append(errs, validation.ValidateImmutableField(r.Status, old.Status, at)...)
	}
	if last != certificatesv1.PodCertificateRequestConditionTypeIssued {
		return append(errs, unissued(r, at)...)
	}
	return append(errs, issued(r, at, now)...)
}

// unissued refuses parts of a certificate that was not issued.
func unissued(r *certificatesv1.PodCertificateRequest, at *field.Path) (errs field.ErrorList) {
	s := &r.Status
	const why = "may only be set together with the condition Issued"
	if s.CertificateChain != "" {
		errs = append(errs, field.Forbidden(at.Child("certificateChain"), why))
	}
	for _, t := range []struct {
		name string
		at   *metav1.Time
	}{{"notBefore", s.NotBefore}, {"beginRefreshAt", s.BeginRefreshAt}, {"notAfter", s.NotAfter}} {
		if t.at != nil {
			errs = append(errs, field.Forbidden(at.Child(t.name), why))
		}
	}
	return errs
}

// issued checks a chain against the request and the times that stand beside it.
func issued(r *certificatesv1.PodCertificateRequest, at *field.Path, now time.Time) field.ErrorList {
	s := &r.Status
	chain := at.Child("certificateChain")
	if len(s.CertificateChain) > maxChain {
		return field.ErrorList{field.TooLong(chain, "" /*unused*/, maxChain)}
	}
	leaf, err := leafOf(s.CertificateChain)
	if err != nil {
		return field.ErrorList{field.Invalid(chain, "<value omitted>", err.Error())}
	}
	errs := namesOf(leaf, chain)
	key, _ := stubKey(r.Spec.StubPKCS10Request, nil)
	if have, ok := leaf.PublicKey.(interface{ Equal(crypto.PublicKey) bool }); !ok || !have.Equal(key) {
		errs = append(errs, field.Invalid(chain, "<value omitted>", "leaf certificate was not issued to the requested public key"))
	}
	for _, t := range []struct {
		name  string
		have  *metav1.Time
		wants time.Time
	}{{"notBefore", s.NotBefore, leaf.NotBefore}, {"notAfter", s.NotAfter, leaf.NotAfter}} {
		switch {
		case t.have == nil:
			errs = append(errs, field.Required(at.Child(t.name), "must be present and consistent with the issued certificate"))
		case !t.have.Time.Equal(t.wants):
			errs = append(errs, field.Invalid(at.Child(t.name), t.have, "must be set to the same value as in the leaf certificate"))
		}
	}
	if skew := leaf.NotBefore.Sub(now); skew > clockSlack || skew < -clockSlack {
		errs = append(errs, field.Invalid(at.Child("notBefore"), s.NotBefore, "must be within five minutes of the API server's time"))
	}
	life := leaf.NotAfter.Sub(leaf.NotBefore)
	if most := time.Duration(*r.Spec.MaxExpirationSeconds) * time.Second; life < minLife || life > most {
		errs = append(errs, field.Invalid(chain, "<value omitted>", fmt.Sprintf("leaf certificate lifetime is %s; it must be in the range [%s, %s]", life, minLife, most)))
	}
	switch refresh := s.BeginRefreshAt; {
	case refresh == nil:
		errs = append(errs, field.Required(at.Child("beginRefreshAt"), "must be present and consistent with the issued certificate"))
	case refresh.Time.Before(leaf.NotBefore.Add(refreshSlack)) || refresh.Time.After(leaf.NotAfter.Add(-refreshSlack)):
		errs = append(errs, field.Invalid(at.Child("beginRefreshAt"), refresh, "must be at least ten minutes after status.notBefore and at least ten minutes before status.notAfter"))
	}
	return errs
}

// namesOf refuses names in a leaf that no client would take.
func namesOf(leaf *x509.Certificate, at *field.Path) (errs field.ErrorList) {
	for _, name := range leaf.DNSNames {
		if name == "" || strings.Contains(name, "..") || strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".") {
			errs = append(errs, field.Invalid(at, name, "leaf certificate has a DNS name that is empty or has an empty part"))
		}
	}
	for _, address := range leaf.EmailAddresses {
		if _, err := mail.ParseAddress(address); err != nil {
			errs = append(errs, field.Invalid(at, address, "leaf certificate has an email address that is none"))
		}
	}
	return errs
}

// leafOf is the first certificate of a chain in which nothing but certificates stands.
func leafOf(chain string) (*x509.Certificate, error) {
	var leaf *x509.Certificate
	rest := []byte(chain)
	for i := 0; len(bytes.TrimSpace(rest)) > 0; i++ {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("block %d has type %q, must be CERTIFICATE", i, block.Type)
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("block %d: %w", i, err)
		}
		if leaf == nil {
			leaf = c
		}
	}
	if leaf == nil {
		return nil, errors.New("must hold at least one PEM-encoded certificate")
	}
	return leaf, nil
}
