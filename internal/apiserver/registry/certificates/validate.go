package certificates

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// usages are all there are.
var usages = []string{
	"any", "cert sign", "client auth", "code signing", "content commitment", "crl sign", "data encipherment", "decipher only", "digital signature",
	"email protection", "encipher only", "ipsec end system", "ipsec tunnel", "ipsec user", "key agreement", "key encipherment", "microsoft sgc",
	"netscape sgc", "ocsp signing", "s/mime", "server auth", "signing", "timestamping",
}

func validate(c *certificatesv1.CertificateSigningRequest) field.ErrorList {
	var errs field.ErrorList
	spec := field.NewPath("spec")
	if err := parse(c.Spec.Request); err != nil {
		errs = append(errs, field.Invalid(spec.Child("request"), c.Spec.Request, err.Error()))
	}
	if len(c.Spec.Usages) == 0 {
		errs = append(errs, field.Required(spec.Child("usages"), ""))
	}
	for i, u := range c.Spec.Usages {
		at := spec.Child("usages").Index(i)
		if !slices.Contains(usages, string(u)) {
			errs = append(errs, field.NotSupported(at, u, usages))
		}
		if slices.Contains(c.Spec.Usages[:i], u) {
			errs = append(errs, field.Duplicate(at, u))
		}
	}
	errs = append(errs, signerName(c.Spec.SignerName, spec.Child("signerName"))...)
	if s := c.Spec.ExpirationSeconds; s != nil && *s < 600 {
		errs = append(errs, field.Invalid(spec.Child("expirationSeconds"), *s, "may not specify a duration less than 600 seconds (10 minutes)"))
	}
	return errs
}

func parse(raw []byte) error {
	block, _ := pem.Decode(raw)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return errors.New("PEM block type must be CERTIFICATE REQUEST")
	}
	_, err := x509.ParseCertificateRequest(block.Bytes)
	return err
}

func signerName(name string, at *field.Path) field.ErrorList {
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

// validateStatus checks what a signer wrote.
func validateStatus(c, old *certificatesv1.CertificateSigningRequest) field.ErrorList {
	var errs field.ErrorList
	at := field.NewPath("status")
	if !slices.Equal(c.Status.Certificate, old.Status.Certificate) {
		if len(old.Status.Certificate) > 0 {
			errs = append(errs, field.Forbidden(at.Child("certificate"), "updates may not set certificate content; it may be set once"))
		} else if err := parseChain(c.Status.Certificate); err != nil {
			errs = append(errs, field.Invalid(at.Child("certificate"), "<certificate data>", err.Error()))
		}
	}
	approved, denied := false, false
	for i, x := range c.Status.Conditions {
		approved = approved || x.Type == certificatesv1.CertificateApproved
		denied = denied || x.Type == certificatesv1.CertificateDenied
		switch {
		case x.Type == "":
			errs = append(errs, field.Required(at.Child("conditions").Index(i).Child("type"), ""))
		case isKnown(x.Type) && x.Status != "" && x.Status != corev1.ConditionTrue:
			errs = append(errs, field.NotSupported(at.Child("conditions").Index(i).Child("status"), x.Status, []string{string(corev1.ConditionTrue)}))
		}
	}
	if approved && denied {
		errs = append(errs, field.Invalid(at.Child("conditions"), "Approved", "Approved and Denied conditions are mutually exclusive"))
	}
	return errs
}

func isKnown(t certificatesv1.RequestConditionType) bool {
	return t == certificatesv1.CertificateApproved || t == certificatesv1.CertificateDenied || t == certificatesv1.CertificateFailed
}

func parseChain(raw []byte) error {
	n := 0
	for block, rest := pem.Decode(raw); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			return fmt.Errorf("only CERTIFICATE PEM blocks are allowed, found %q", block.Type)
		}
		if len(block.Headers) > 0 {
			return errors.New("no PEM block headers are permitted")
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return err
		}
		n++
	}
	if n == 0 {
		return errors.New("must contain at least one CERTIFICATE PEM block")
	}
	return nil
}
