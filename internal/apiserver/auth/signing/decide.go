package signing

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

// Lives of what is signed. A request may ask for less than the longest, not for less than the shortest.
const (
	longest  = 365 * 24 * time.Hour
	shortest = 10 * time.Minute
	backdate = 5 * time.Minute // clocks differ
)

// Ruling is what to do about one request. At most one field is set; none means leave it alone.
type Ruling struct {
	Sign    *Order // make this certificate
	Fail    string // the request can never be signed: the message of its condition Failed
	Approve string // subresource (selfnodeclient, nodeclient) whose creation its user must be allowed, to be approved unseen
}

// Order is a certificate to make.
type Order struct {
	Request *x509.CertificateRequest
	Usages  []certificatesv1.KeyUsage
	Begin   time.Time
	End     time.Time
}

// signer is what one signer accepts.
type signer struct {
	usages [][]certificatesv1.KeyUsage // allowed sets; nil: any subset of the first that has the purpose
	check  func(*certificatesv1.CertificateSigningRequest, *x509.CertificateRequest) error
}

// signers are the names this package signs for. Rules are upstream's.
var signers = map[string]signer{
	certificatesv1.KubeAPIServerClientSignerName: {check: anyClient},
	certificatesv1.KubeAPIServerClientKubeletSignerName: {
		usages: [][]certificatesv1.KeyUsage{
			{certificatesv1.UsageClientAuth, certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment},
			{certificatesv1.UsageClientAuth, certificatesv1.UsageDigitalSignature},
		},
		check: nodeClient,
	},
	certificatesv1.KubeletServingSignerName: {
		usages: [][]certificatesv1.KeyUsage{
			{certificatesv1.UsageServerAuth, certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment},
			{certificatesv1.UsageServerAuth, certificatesv1.UsageDigitalSignature},
		},
		check: nodeServing,
	},
}

// Decide rules over a request.
func Decide(r *certificatesv1.CertificateSigningRequest, now time.Time) Ruling {
	s, ours := signers[r.Spec.SignerName]
	if !ours || len(r.Status.Certificate) > 0 || has(r, certificatesv1.CertificateDenied) || has(r, certificatesv1.CertificateFailed) {
		return Ruling{}
	}
	req, err := parse(r.Spec.Request)
	if !has(r, certificatesv1.CertificateApproved) {
		if err == nil && r.Spec.SignerName == certificatesv1.KubeAPIServerClientKubeletSignerName && s.accepts(r, req) == nil {
			return Ruling{Approve: purpose(r, req)}
		}
		return Ruling{}
	}
	if err == nil {
		err = s.accepts(r, req)
	}
	if err != nil {
		return Ruling{Fail: err.Error()}
	}
	life := longest
	if asked := r.Spec.ExpirationSeconds; asked != nil {
		life = min(max(time.Duration(*asked)*time.Second, shortest), longest)
	}
	return Ruling{Sign: &Order{Request: req, Usages: r.Spec.Usages, Begin: now.Add(-backdate), End: now.Add(life)}}
}

func has(r *certificatesv1.CertificateSigningRequest, t certificatesv1.RequestConditionType) bool {
	for _, c := range r.Status.Conditions {
		if c.Type == t {
			return true
		}
	}
	return false
}

func parse(raw []byte) (*x509.CertificateRequest, error) {
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

func (s signer) accepts(r *certificatesv1.CertificateSigningRequest, req *x509.CertificateRequest) error {
	if err := s.check(r, req); err != nil {
		return err
	}
	if s.usages == nil {
		return clientUsages(r.Spec.Usages)
	}
	have := sorted(r.Spec.Usages)
	for _, set := range s.usages {
		if slices.Equal(have, sorted(set)) {
			return nil
		}
	}
	return fmt.Errorf("usages did not match %v", s.usages[0])
}

func sorted(u []certificatesv1.KeyUsage) []certificatesv1.KeyUsage {
	u = slices.Compact(slices.Sorted(slices.Values(u)))
	return u
}

func clientUsages(usages []certificatesv1.KeyUsage) error {
	allowed := []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth, certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment}
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

func anyClient(*certificatesv1.CertificateSigningRequest, *x509.CertificateRequest) error { return nil }

func nodeClient(_ *certificatesv1.CertificateSigningRequest, req *x509.CertificateRequest) error {
	if err := nodeSubject(req); err != nil {
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

func nodeServing(r *certificatesv1.CertificateSigningRequest, req *x509.CertificateRequest) error {
	if err := nodeSubject(req); err != nil {
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

func nodeSubject(req *x509.CertificateRequest) error {
	if !slices.Equal(req.Subject.Organization, []string{user.NodesGroup}) {
		return errors.New("subject organization is not system:nodes")
	}
	if !strings.HasPrefix(req.Subject.CommonName, "system:node:") {
		return errors.New("subject common name does not begin with system:node:")
	}
	return nil
}

// purpose names what a user must be allowed to create for a node's client certificate to be approved unseen.
func purpose(r *certificatesv1.CertificateSigningRequest, req *x509.CertificateRequest) string {
	if r.Spec.Username == req.Subject.CommonName {
		return "selfnodeclient"
	}
	return "nodeclient"
}

// names are the signers, for logs.
func names() []string {
	var out []string
	for n := range signers {
		out = append(out, n)
	}
	sort.Strings(out)
	return out
}
