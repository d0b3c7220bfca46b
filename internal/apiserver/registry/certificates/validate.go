package certificates

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/operation"
	unions "k8s.io/apimachinery/pkg/api/validate"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
)

// usages are all there are.
var usages = []string{
	"any", "cert sign", "client auth", "code signing", "content commitment", "crl sign", "data encipherment",
	"decipher only", "digital signature",
	"email protection", "encipher only", "ipsec end system", "ipsec tunnel", "ipsec user", "key agreement",
	"key encipherment", "microsoft sgc",
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
	errs = append(errs, resourcedef.ValidateSignerName(c.Spec.SignerName, spec.Child("signerName"))...)
	if s := c.Spec.ExpirationSeconds; s != nil && *s < 600 {
		errs = append(errs, field.Invalid(spec.Child("expirationSeconds"), *s,
			"may not specify a duration less than 600 seconds (10 minutes)"))
	}
	return errs
}

func parse(raw []byte) error {
	block, _ := pem.Decode(raw)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return errors.New("PEM block type must be CERTIFICATE REQUEST")
	}
	r, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return err
	}
	return r.CheckSignature()
}

// validateStatus checks what an approver or a signer wrote: who approves may set the conditions for
// that, who signs the certificate, once.
func validateStatus(c, old *certificatesv1.CertificateSigningRequest, approving bool) field.ErrorList {
	at := field.NewPath("status")
	errs := validateConditions(c.Status.Conditions, at.Child("conditions"))
	changed := !bytes.Equal(c.Status.Certificate, old.Status.Certificate)
	if changed && (len(old.Status.Certificate) == 0 || parseChain(old.Status.Certificate) == nil) {
		if err := parseChain(c.Status.Certificate); err != nil {
			errs = append(errs, field.Invalid(at.Child("certificate"), "<certificate data>", err.Error()))
		}
	}
	errs = append(errs, validateConditionsKept(c, old, approving)...)
	switch {
	case changed && approving:
		errs = append(errs, field.Forbidden(at.Child("certificate"), "updates may not set certificate content"))
	case changed && len(old.Status.Certificate) > 0:
		errs = append(errs,
			field.Forbidden(at.Child("certificate"), "updates may not modify existing certificate content"))
	}
	return append(errs, validateExclusive(c.Status.Conditions, old.Status.Conditions, at.Child("conditions"))...)
}

func validateConditions(list []certificatesv1.CertificateSigningRequestCondition, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := map[certificatesv1.RequestConditionType]bool{}
	for i, x := range list {
		kind, state := at.Index(i).Child("type"), at.Index(i).Child("status")
		if x.Type == "" {
			errs = append(errs, field.Required(kind, ""))
		}
		allowed := []string{string(corev1.ConditionFalse), string(corev1.ConditionTrue),
			string(corev1.ConditionUnknown)}
		if isKnown(x.Type) {
			allowed = []string{string(corev1.ConditionTrue)}
		}
		switch {
		case x.Status == "":
			errs = append(errs, field.Required(state, ""))
		case !slices.Contains(allowed, string(x.Status)):
			errs = append(errs, field.NotSupported(state, x.Status, allowed))
		}
		if seen[x.Type] {
			errs = append(errs, field.Duplicate(kind, x.Type))
		}
		seen[x.Type] = true
	}
	return errs
}

// validateExclusive refuses an approval beside a denial, by the rule that the type declares.
func validateExclusive(list, old []certificatesv1.CertificateSigningRequestCondition, at *field.Path) field.ErrorList {
	type conditions = []certificatesv1.CertificateSigningRequestCondition
	has := func(t certificatesv1.RequestConditionType) unions.ExtractorFn[conditions, bool] {
		return func(list conditions) bool {
			return slices.ContainsFunc(list, func(c certificatesv1.CertificateSigningRequestCondition) bool {
				return c.Type == t
			})
		}
	}
	union := unions.NewUnionMembership(unions.NewUnionMember(`conditions[{"type": "Approved"}]`),
		unions.NewUnionMember(`conditions[{"type": "Denied"}]`))
	return unions.ZeroOrOneOfUnion(context.Background(), operation.Operation{Type: operation.Update}, at, list, old,
		union, has(certificatesv1.CertificateApproved), has(certificatesv1.CertificateDenied))
}

// validateConditionsKept: approval, denial and failure stay once they are there; the first two come
// by the approval endpoint alone.
func validateConditionsKept(c, old *certificatesv1.CertificateSigningRequest, approving bool) field.ErrorList {
	var errs field.ErrorList
	at := field.NewPath("status", "conditions")
	types := []certificatesv1.RequestConditionType{certificatesv1.CertificateApproved, certificatesv1.CertificateDenied,
		certificatesv1.CertificateFailed}
	for _, t := range types {
		if len(conditions(c, t)) < len(conditions(old, t)) {
			errs = append(errs, field.Forbidden(at, fmt.Sprintf("updates may not remove a condition of type %q", t)))
		}
	}
	if approving {
		return errs
	}
	for _, t := range types[:2] {
		switch now, previous := conditions(c, t), conditions(old, t); {
		case len(now) < len(previous):
		case len(now) > len(previous):
			errs = append(errs, field.Forbidden(at, fmt.Sprintf("updates may not add a condition of type %q", t)))
		case !apiequality.Semantic.DeepEqual(previous, now):
			errs = append(errs,
				field.Forbidden(at, fmt.Sprintf("updates may not modify a condition of type %q\n%v", t,
					diff.Diff(previous, now))))
		}
	}
	return errs
}

func conditions(c *certificatesv1.CertificateSigningRequest,
	t certificatesv1.RequestConditionType) []certificatesv1.CertificateSigningRequestCondition {
	var out []certificatesv1.CertificateSigningRequestCondition
	for _, x := range c.Status.Conditions {
		if x.Type == t {
			out = append(out, x)
		}
	}
	return out
}

func isKnown(t certificatesv1.RequestConditionType) bool {
	return t == certificatesv1.CertificateApproved || t == certificatesv1.CertificateDenied ||
		t == certificatesv1.CertificateFailed
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
