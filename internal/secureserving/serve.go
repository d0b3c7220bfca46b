package secureserving

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"k8s.io/client-go/kubernetes"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/klog/v2"
)

// Options configure Serve.
type Options struct {
	Name     string       // of the component, in errors: scheduler
	Address  string       // host:port
	Listener net.Listener // open already at Address; nil: Serve opens it
	CertFile string       // serving certificate and key; empty: self-signed, new at every start
	KeyFile  string
	// PEM of the CA for client certificates; nil: as the API server publishes it in kube-system
	ClientCA []byte
	Client   kubernetes.Interface // of the API server, for token and access reviews
	Open     []string             // paths without authorization
	Bound    func(address string) // called with the listening address; may be nil
}

// Serve serves handler over HTTPS until ctx ends; the channel is closed when it has stopped. If the
// address is in use the error wraps syscall.EADDRINUSE.
func Serve(ctx context.Context, o Options, handler http.Handler) (<-chan struct{}, error) {
	cert, err := o.certificate()
	if err != nil {
		return nil, err
	}
	guard, err := o.guard(ctx)
	if err != nil {
		return nil, err
	}
	l, err := o.Listener, error(nil)
	if l == nil {
		l, err = net.Listen("tcp", o.Address)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: health and metrics on %s: %w", o.Name, o.Address, err)
	}
	if o.Bound != nil {
		o.Bound(l.Addr().String())
	}
	web := &http.Server{Handler: guard.wrap(handler), ReadHeaderTimeout: 30 * time.Second, TLSConfig: &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}, ClientAuth: tls.RequestClientCert,
		NextProtos: []string{"h2", "http/1.1"},
	}}
	stopped := make(chan struct{})
	go func() {
		<-ctx.Done()
		_ = web.Close()
	}()
	go func() {
		defer close(stopped)
		if err := web.ServeTLS(l, "", ""); err != nil && !errors.Is(err, http.ErrServerClosed) {
			klog.FromContext(ctx).Error(err, "Serving health and metrics ended", "address", o.Address)
		}
	}()
	return stopped, nil
}

func (o Options) certificate() (tls.Certificate, error) {
	if o.CertFile != "" || o.KeyFile != "" {
		cert, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
		if err != nil {
			return cert, fmt.Errorf("%s: serving certificate %s, key %s: %w", o.Name, o.CertFile, o.KeyFile, err)
		}
		return cert, nil
	}
	host, _, err := net.SplitHostPort(o.Address)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("%s: address %q: %w", o.Name, o.Address, err)
	}
	ips := []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	pem, key, err := certutil.GenerateSelfSignedCertKey(host, ips, []string{"localhost"})
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("%s: self-signed serving certificate: %w", o.Name, err)
	}
	return tls.X509KeyPair(pem, key)
}
