package certs

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/certificate"
)

// CSRCertificate is a certificate the API server's signers make, renewed before it ends.
type CSRCertificate struct {
	manager certificate.Manager
	store   certificate.FileStore
}

// CSROptions is what a CSRCertificate stands on.
type CSROptions struct {
	NodeName string
	Dir      string // where certificates are kept over restarts
	Client   func(current *tls.Certificate) (kubernetes.Interface, error)

	// Addresses of the node, asked before each request for a serving certificate; without any
	// nothing is asked for.
	Addresses func() []v1.NodeAddress

	// CertPEM and KeyPEM are the client certificate to begin with; nil when there is none yet.
	CertPEM, KeyPEM []byte

	rotated certificate.Histogram
	failed  certificate.Counter
}

// Serving asks the signer kubernetes.io/kubelet-serving; somebody must approve the request.
func Serving(q CSROptions) (*CSRCertificate, error) {
	q.rotated, q.failed = servingMetrics()
	return q.manager("kubelet-server", certificatesv1.KubeletServingSignerName, certificatesv1.UsageServerAuth,
		func() *x509.CertificateRequest {
			return servingTemplate(q.NodeName, q.Addresses())
		})
}

// Client asks the signer kubernetes.io/kube-apiserver-client-kubelet, whose requests are approved
// unseen for the node itself and for bootstrappers.
func Client(q CSROptions) (*CSRCertificate, error) {
	q.failed = clientMetrics()
	return q.manager("kubelet-client", certificatesv1.KubeAPIServerClientKubeletSignerName,
		certificatesv1.UsageClientAuth, func() *x509.CertificateRequest {
			return &x509.CertificateRequest{Subject: subject(q.NodeName)}
		})
}

// agentGroup is how the files of an agent's certificate are called.
const agentGroup = "network-client"

// Agent asks the signer kubernetes.io/kube-apiserver-client for a certificate of a user who is no
// node: somebody must approve each request. It begins with what SaveAgent kept.
func Agent(q CSROptions, user string) (*CSRCertificate, error) {
	return q.manager(agentGroup, certificatesv1.KubeAPIServerClientSignerName, certificatesv1.UsageClientAuth,
		func() *x509.CertificateRequest {
			return &x509.CertificateRequest{Subject: pkix.Name{CommonName: user}}
		})
}

// AgentFile is the file in dir that always holds an agent's newest certificate with its key.
func AgentFile(dir string) string { return filepath.Join(dir, agentGroup+"-current.pem") }

// SaveAgent makes a certificate with its key an agent's newest.
func SaveAgent(dir string, certPEM, keyPEM []byte) error {
	store, err := certificate.NewFileStore(agentGroup, dir, dir, "", "")
	if err == nil {
		_, err = store.Update(certPEM, keyPEM)
	}
	if err != nil {
		return fmt.Errorf("certificate in %s: %w", dir, err)
	}
	return nil
}

func subject(node string) pkix.Name {
	return pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}}
}

// servingTemplate has every address and name of the node; nil when it has none.
func servingTemplate(node string, addresses []v1.NodeAddress) *x509.CertificateRequest {
	t := &x509.CertificateRequest{Subject: subject(node)}
	for _, a := range addresses {
		if ip := net.ParseIP(a.Address); ip != nil {
			if !slices.ContainsFunc(t.IPAddresses, ip.Equal) {
				t.IPAddresses = append(t.IPAddresses, ip)
			}
		} else if a.Address != "" && !slices.Contains(t.DNSNames, a.Address) {
			t.DNSNames = append(t.DNSNames, a.Address)
		}
	}
	if len(t.IPAddresses)+len(t.DNSNames) == 0 {
		return nil
	}
	slices.SortFunc(t.IPAddresses, func(a, b net.IP) int { return strings.Compare(a.String(), b.String()) })
	slices.Sort(t.DNSNames)
	return t
}

func (q CSROptions) manager(name, signer string, usage certificatesv1.KeyUsage,
	template func() *x509.CertificateRequest) (*CSRCertificate, error) {
	if q.NodeName == "" || q.Dir == "" || q.Client == nil {
		return nil, errors.New("certificate request: NodeName, Dir or Client is missing")
	}
	store, err := certificate.NewFileStore(name, q.Dir, q.Dir, "", "")
	if err != nil {
		return nil, fmt.Errorf("certificates in %s: %w", q.Dir, err)
	}
	m, err := certificate.NewManager(&certificate.Config{
		ClientsetFn: q.Client, GetTemplate: template, SignerName: signer,
		Usages:           []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, usage},
		CertificateStore: store, BootstrapCertificatePEM: q.CertPEM, BootstrapKeyPEM: q.KeyPEM, Name: name,
		CertificateRotation: q.rotated, CertificateRenewFailure: q.failed,
	})
	if err != nil {
		return nil, fmt.Errorf("certificate request %s: %w", name, err)
	}
	return &CSRCertificate{m, store}, nil
}

// Start begins asking and renewing; Stop ends it.
func (r *CSRCertificate) Start() { r.manager.Start() }

// Stop ends renewing.
func (r *CSRCertificate) Stop() { r.manager.Stop() }

// Path is the file that always holds the newest certificate with its key.
func (r *CSRCertificate) Path() string { return r.store.CurrentPath() }

// HasCertificate tells whether there is a certificate.
func (r *CSRCertificate) HasCertificate() bool { return r.manager.Current() != nil }

// Certificate is tls.Config.GetCertificate; until the request is approved there is none.
func (r *CSRCertificate) Certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if c := r.manager.Current(); c != nil {
		return c, nil
	}
	return nil, errors.New("no serving certificate available for the kubelet: approve its request: kubectl " +
		"certificate approve, see kubectl get csr")
}

// Expiry is when the certificate ends; zero when there is none.
func (r *CSRCertificate) Expiry() time.Time { return expiry(r.manager.Current()) }
