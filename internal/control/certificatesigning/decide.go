package certificatesigning

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apiserver/pkg/authentication/user"
)

// Lifetimes of certificates. A request may ask for one in between.
const (
	maxDuration = 365 * 24 * time.Hour
	minDuration = 10 * time.Minute
	backdate    = 5 * time.Minute // clocks differ
)

// Decision is what to do about one request. At most one field is set; none: nothing.
type Decision struct {
	Sign *CertificateTemplate // sign this certificate
	Fail string               // the request can never be signed: message of its condition Failed
	// subresource (selfnodeclient, nodeclient) whose creation the user must be allowed for
	// automatic approval
	Approve string
}

// CertificateTemplate is a certificate to sign.
type CertificateTemplate struct {
	Request   *x509.CertificateRequest
	Usages    []certificatesv1.KeyUsage
	NotBefore time.Time
	NotAfter  time.Time
}

// signerRules is what one signer accepts.
type signerRules struct {
	usages [][]certificatesv1.KeyUsage // allowed sets; nil: any subset of the first that has the purpose
	check  func(*certificatesv1.CertificateSigningRequest, *x509.CertificateRequest) error
}

// signers are the signers of this package, with upstream's rules.
var signers = map[string]signerRules{
	certificatesv1.KubeAPIServerClientSignerName: {check: validateClient},
	certificatesv1.KubeAPIServerClientKubeletSignerName: {
		usages: [][]certificatesv1.KeyUsage{
			{certificatesv1.UsageClientAuth, certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment},
			{certificatesv1.UsageClientAuth, certificatesv1.UsageDigitalSignature},
		},
		check: validateKubeletClient,
	},
	certificatesv1.KubeletServingSignerName: {
		usages: [][]certificatesv1.KeyUsage{
			{certificatesv1.UsageServerAuth, certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment},
			{certificatesv1.UsageServerAuth, certificatesv1.UsageDigitalSignature},
		},
		check: validateKubeletServing,
	},
}

// Decide returns what to do about a request.
func Decide(r *certificatesv1.CertificateSigningRequest, now time.Time) Decision {
	s, ours := signers[r.Spec.SignerName]
	if !ours || len(r.Status.Certificate) > 0 || hasCondition(r, certificatesv1.CertificateDenied) || hasCondition(r,
		certificatesv1.CertificateFailed) {
		return Decision{}
	}
	req, err := parseCSR(r.Spec.Request)
	if !hasCondition(r, certificatesv1.CertificateApproved) {
		if err == nil && r.Spec.SignerName == certificatesv1.KubeAPIServerClientKubeletSignerName &&
			s.validate(r, req) == nil {
			return Decision{Approve: approvalSubresource(r, req)}
		}
		return Decision{}
	}
	if err == nil {
		err = s.validate(r, req)
	}
	if err != nil {
		return Decision{Fail: err.Error()}
	}
	life := maxDuration
	if requested := r.Spec.ExpirationSeconds; requested != nil {
		life = min(max(time.Duration(*requested)*time.Second, minDuration), maxDuration)
	}
	return Decision{Sign: &CertificateTemplate{Request: req, Usages: r.Spec.Usages, NotBefore: now.Add(-backdate),
		NotAfter: now.Add(life)}}
}

func hasCondition(r *certificatesv1.CertificateSigningRequest, t certificatesv1.RequestConditionType) bool {
	for _, c := range r.Status.Conditions {
		if c.Type == t {
			return true
		}
	}
	return false
}

func parseCSR(raw []byte) (*x509.CertificateRequest, error) {
	block, _ := pem.Decode(raw)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return nil, errors.New("PEM block type must be CERTIFICATE REQUEST")
	}
	req, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("unable to parse csr %w", err)
	}
	if err := req.CheckSignature(); err != nil {
		return nil, fmt.Errorf("the request is not signed by its own key: %w", err)
	}
	return req, nil
}

func (s signerRules) validate(r *certificatesv1.CertificateSigningRequest, req *x509.CertificateRequest) error {
	if err := s.check(r, req); err != nil {
		return err
	}
	if s.usages == nil {
		return validateClientUsages(r.Spec.Usages)
	}
	have := sortedUsages(r.Spec.Usages)
	for _, set := range s.usages {
		if slices.Equal(have, sortedUsages(set)) {
			return nil
		}
	}
	return fmt.Errorf("usages did not match %v", s.usages[0])
}

func sortedUsages(u []certificatesv1.KeyUsage) []certificatesv1.KeyUsage {
	u = slices.Compact(slices.Sorted(slices.Values(u)))
	return u
}

func validateClientUsages(usages []certificatesv1.KeyUsage) error {
	allowed := []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth, certificatesv1.UsageDigitalSignature,
		certificatesv1.UsageKeyEncipherment}
	for _, u := range usages {
		if !slices.Contains(allowed, u) {
			return fmt.Errorf("invalid usage for client certificate: %s", u)
		}
	}
	if !slices.Contains(usages, certificatesv1.UsageClientAuth) {
		return fmt.Errorf("missing required usage for client certificate: %s", certificatesv1.UsageClientAuth)
	}
	return nil
}

func validateClient(*certificatesv1.CertificateSigningRequest, *x509.CertificateRequest) error {
	return nil
}

func validateKubeletClient(_ *certificatesv1.CertificateSigningRequest, req *x509.CertificateRequest) error {
	if err := validateNodeSubject(req); err != nil {
		return err
	}
	switch {
	case len(req.DNSNames) > 0:
		return errors.New("DNS subjectAltNames are not allowed")
	case len(req.EmailAddresses) > 0:
		return errors.New("email subjectAltNames are not allowed")
	case len(req.IPAddresses) > 0:
		return errors.New("IP subjectAltNames are not allowed")
	case len(req.URIs) > 0:
		return errors.New("URI subjectAltNames are not allowed")
	}
	return nil
}

func validateKubeletServing(r *certificatesv1.CertificateSigningRequest, req *x509.CertificateRequest) error {
	if err := validateNodeSubject(req); err != nil {
		return err
	}
	switch {
	case req.Subject.CommonName != r.Spec.Username:
		return errors.New("subject common name does not match the requesting user")
	case len(req.DNSNames)+len(req.IPAddresses) == 0:
		return errors.New("DNS or IP subjectAltName is required")
	case len(req.EmailAddresses) > 0:
		return errors.New("email subjectAltNames are not allowed")
	case len(req.URIs) > 0:
		return errors.New("URI subjectAltNames are not allowed")
	}
	return nil
}

func validateNodeSubject(req *x509.CertificateRequest) error {
	if !slices.Equal(req.Subject.Organization, []string{user.NodesGroup}) {
		return errors.New("subject organization is not system:nodes")
	}
	if !strings.HasPrefix(req.Subject.CommonName, "system:node:") {
		return errors.New("subject common name does not begin with system:node:")
	}
	return nil
}

// approvalSubresource returns what a user must be allowed to create so that a node's client
// certificate is approved automatically; "" if it never is.
func approvalSubresource(r *certificatesv1.CertificateSigningRequest, req *x509.CertificateRequest) string {
	if r.Spec.Username == req.Subject.CommonName {
		return "selfnodeclient"
	}
	return "nodeclient"
}

// signerNames returns the signers, for logs.
func signerNames() []string {
	var out []string
	for n := range signers {
		out = append(out, n)
	}
	sort.Strings(out)
	return out
}
