package pods

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// certificateAdvice is what helps when a kubelet's serving certificate is not believed.
const certificateAdvice = "have that kubelet ask for a certificate (serverTLSBootstrap: true in its " +
	"KubeletConfiguration, then `kubectl certificate approve`), or give the API server the authority of its own with " +
	"--kubelet-certificate-authority (that of a self-signed one is kubelet-pki/kubelet.crt in the kubelet's data " +
	"directory)"

// withCertificateAdvice adds to a refusal of a kubelet's serving certificate what to give; other
// errors stay as they are.
func withCertificateAdvice(err error) error {
	var refused *tls.CertificateVerificationError
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	if errors.As(err, &refused) || errors.As(err, &unknown) || errors.As(err, &name) {
		return fmt.Errorf("%w; %s", err, certificateAdvice)
	}
	return err
}

// kubeletTransport carries requests to one kubelet and says what helps when its certificate is not
// believed, for plain requests and for those that become streams, whose connections others make
// with its TLS configuration.
type kubeletTransport struct {
	base http.RoundTripper
	host string // of the kubelet's address, without port
}

// RoundTrip is http.RoundTripper's.
func (k kubeletTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := k.base.RoundTrip(req)
	return resp, withCertificateAdvice(err)
}

// WrappedRoundTripper is where the dialer is found.
func (k kubeletTransport) WrappedRoundTripper() http.RoundTripper { return k.base }

// TLSClientConfig checks as that of the base does; nil where that has none.
func (k kubeletTransport) TLSClientConfig() *tls.Config {
	c, err := utilnet.TLSClientConfig(k.base)
	if err != nil || c == nil || c.InsecureSkipVerify {
		return c
	}
	c = c.Clone()
	roots := c.RootCAs
	c.InsecureSkipVerify = true // VerifyConnection does all of it
	c.VerifyConnection = func(s tls.ConnectionState) error {
		if len(s.PeerCertificates) == 0 {
			return errors.New("the kubelet shows no certificate")
		}
		o := x509.VerifyOptions{Roots: roots, DNSName: k.host, Intermediates: x509.NewCertPool()}
		for _, between := range s.PeerCertificates[1:] {
			o.Intermediates.AddCert(between)
		}
		if _, err := s.PeerCertificates[0].Verify(o); err != nil {
			return withCertificateAdvice(&tls.CertificateVerificationError{UnverifiedCertificates: s.PeerCertificates,
				Err: err})
		}
		return nil
	}
	return c
}
