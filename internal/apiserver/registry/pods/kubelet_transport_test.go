package pods

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/util/cert"
)

// A kubelet's certificate that is not believed is refused, for plain requests and for streams, with
// words on what to give; one that is believed, for the address that was asked, is not.
func TestARefusedKubeletCertificateSaysWhatToGive(t *testing.T) {
	serve := func(ip string) (*url.URL, *x509.CertPool) {
		t.Helper()
		certPEM, keyPEM, err := cert.GenerateSelfSignedCertKey("node", []net.IP{net.ParseIP(ip)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		pair, err := tls.X509KeyPair(certPEM, keyPEM)
		if err != nil {
			t.Fatal(err)
		}
		s := httptest.NewUnstartedServer(http.NotFoundHandler())
		s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
		s.StartTLS()
		t.Cleanup(s.Close)
		u, err := url.Parse(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(certPEM)
		return u, pool
	}
	good, believed := serve("127.0.0.1")
	wrong, wrongName := serve("10.1.2.3")
	for name, c := range map[string]struct {
		at    *url.URL
		roots *x509.CertPool
		words string
	}{
		"believed":          {good, believed, ""},
		"another authority": {good, x509.NewCertPool(), "certificate signed by unknown authority"},
		"another address":   {wrong, wrongName, "certificate is valid for 10.1.2.3, not 127.0.0.1"},
	} {
		k := kubeletTransport{
			&http.Transport{TLSClientConfig: &tls.Config{RootCAs: c.roots, MinVersion: tls.VersionTLS12}},
			c.at.Hostname()}
		resp, plain := k.RoundTrip(&http.Request{Method: http.MethodGet, URL: c.at, Header: http.Header{}})
		if plain == nil {
			_ = resp.Body.Close()
		}
		config, err := utilnet.TLSClientConfig(k)
		if err != nil {
			t.Fatal(err)
		}
		conn, stream := tls.Dial("tcp", c.at.Host, config)
		if stream == nil {
			_ = conn.Close()
		}
		for how, err := range map[string]error{"plain": plain, "stream": stream} {
			switch {
			case c.words == "" && err != nil:
				t.Errorf("%s, %s: got error %v, want none", name, how, err)
			case c.words != "" && (err == nil || !strings.Contains(err.Error(), c.words) ||
				!strings.Contains(err.Error(), "--kubelet-certificate-authority")):
				t.Errorf(`%s, %s: got %v, want an error with %v and an error with "--kubelet-certificate-authority"`,
					name, how, err, c.words)
			}
		}
	}
}
