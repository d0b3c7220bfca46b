package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	x509request "k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/util/cert"
)

// Standalone is how a kubelet without an API server is served: by a certificate that it signs
// itself for name and ip, to who has a certificate of clientCAs (nil: nobody) and to root over
// ServeSocket; they may do all. The error is that of making the certificate.
func Standalone(name string, ip net.IP, clientCAs *x509.CertPool) (Options, error) {
	certPEM, keyPEM, err := cert.GenerateSelfSignedCertKey(name, []net.IP{ip}, nil)
	if err != nil {
		return Options{}, fmt.Errorf("serving certificate: %w", err)
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return Options{}, fmt.Errorf("serving certificate: %w", err)
	}
	o := Options{TLS: &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}}
	who := standaloneAuthenticator{}
	if clientCAs != nil {
		o.TLS.ClientCAs = clientCAs
		verify := x509request.DefaultVerifyOptions()
		verify.Roots = clientCAs
		who.certificates = x509request.New(verify, x509request.CommonNameUserConversion)
	}
	o.Authenticator, o.Authorizer = who, alwaysAllow{}
	return o, nil
}

// socketContextKey marks requests that came over the socket, which only root can open.
type socketContextKey struct{}

// standaloneAuthenticator knows root by the socket and others by their client certificates; nil
// certificates: nobody else.
type standaloneAuthenticator struct{ certificates authenticator.Request }

// AuthenticateRequest returns root for requests over the socket, else the user of the client's
// certificate; false without an error where there is neither.
func (a standaloneAuthenticator) AuthenticateRequest(r *http.Request) (*authenticator.Response, bool, error) {
	if r.Context().Value(socketContextKey{}) != nil {
		return &authenticator.Response{User: &user.DefaultInfo{Name: "root",
			Groups: []string{user.SystemPrivilegedGroup, user.AllAuthenticated}}}, true, nil
	}
	if a.certificates == nil {
		return nil, false, nil
	}
	return a.certificates.AuthenticateRequest(r)
}

// alwaysAllow allows all requests.
type alwaysAllow struct{}

// Authorize allows every request; the reason is empty and the error nil.
func (alwaysAllow) Authorize(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
	return authorizer.DecisionAllow, "", nil
}

// ServeSocket serves h on a unix socket at path, which only root can open, until ctx ends or
// serving fails; then the connections are closed. A file at path is removed. What comes over the
// socket is root's for the authenticator of Standalone.
func ServeSocket(ctx context.Context, path string, h http.Handler) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return fmt.Errorf("kubelet's socket: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		_ = l.Close()
		return err
	}
	srv := &http.Server{
		Handler: h, ReadHeaderTimeout: 30 * time.Second,
		BaseContext: func(net.Listener) context.Context { return context.WithValue(ctx, socketContextKey{}, true) },
	}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(l) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	err = srv.Close()
	_ = <-failed
	return err
}
