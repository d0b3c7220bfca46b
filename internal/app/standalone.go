package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	x509request "k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"

	"github.com/gantry-project/gantry/internal/app/noderole"
	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/journal/ring"
	"github.com/gantry-project/gantry/internal/kubelet/server"
	"github.com/gantry-project/gantry/internal/options"
)

// errStandalone answers whoever asks for an API server where there is none.
var errStandalone = errors.New("this node runs without an API server; name one with --kubeconfig")

// noAPIServer is a transport that fails each request with errStandalone.
type noAPIServer struct{}

// RoundTrip returns errStandalone and sends nothing.
func (noAPIServer) RoundTrip(*http.Request) (*http.Response, error) { return nil, errStandalone }

// RunStandalone is a node without an API server: it runs static Pods and answers on its port and on
// a socket in its data directory.
func (k *Kubelet) RunStandalone(ctx context.Context, out *cli.Progress) error {
	if err := k.Instance.Complete(); err != nil {
		return err
	}
	if err := k.Node.loadConfig(&k.Instance); err != nil {
		return err
	}
	c := k.Node.Loaded.Config
	if c.StaticPodPath == "" && c.StaticPodURL == "" {
		return cli.UsageError(
			errors.New("gantry kubelet wants --kubeconfig, or static Pods to run without an API server: " +
				"staticPodPath or staticPodURL in the file of --config"))

	}
	if err := errors.Join(cli.RequireRoot("gantry kubelet"), cli.RequireKernel("/"),
		cli.RequirePort("", k.Instance.KubeletPort, "--kubelet-port")); err != nil {
		return err
	}
	lock, err := options.LockDataDir(k.Instance.DataDir)
	if err != nil {
		return err
	}
	defer lock.Release()
	log, err := ring.Open(ring.Options{Dir: filepath.Join(k.Instance.DataDir, "journal")})
	if err != nil {
		return err
	}
	defer log.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: "https://no-api-server.invalid",
		Transport: noAPIServer{}})
	if err != nil {
		return err
	}
	sink := log.SinkFor("kubelet", k.Instance.NodeName)
	e, err := noderole.StartContainerRuntime(ctx, &k.Instance, sink, out.Step)
	if err != nil {
		return err
	}
	defer e.Close()
	role, err := k.Node.Role(ctx, &k.Instance, e, client)
	if err != nil {
		return err
	}
	role.Journal, role.Standalone = sink, true
	if role.TLS.Options, err = standaloneServing(k.Instance.NodeName, k.Instance.NodeIP, k.standaloneCA()); err != nil {
		return err
	}
	x, err := role.Build()
	if err != nil {
		return err
	}
	socket := filepath.Join(k.Instance.DataDir, "kubelet.sock")
	out.Step("node %s runs without an API server; ask it: curl --unix-socket %s http://kubelet/pods",
		k.Instance.NodeName,
		socket)
	return noderole.RunAll(ctx, x.Run,
		func(ctx context.Context) error { return serveSocket(ctx, socket, x.Server.Handler()) })
}

func (k *Kubelet) standaloneCA() string {
	if k.ClientCA != "" {
		return k.ClientCA
	}
	return k.Node.Loaded.Config.Authentication.X509.ClientCAFile
}

// standaloneServing lets in who has a certificate of the authority, and root over the socket; they
// may do all. There is nobody to ask about tokens and rights.
func standaloneServing(name, ip, ca string) (server.Options, error) {
	certPEM, keyPEM, err := cert.GenerateSelfSignedCertKey(name, []net.IP{net.ParseIP(ip)}, nil)
	if err != nil {
		return server.Options{}, fmt.Errorf("serving certificate: %w", err)
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return server.Options{}, fmt.Errorf("serving certificate: %w", err)
	}
	o := server.Options{TLS: &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}}
	who := standaloneAuthenticator{}
	if ca != "" {
		pool, err := cert.NewPool(ca)
		if err != nil {
			return server.Options{}, cli.WithFix(fmt.Errorf("authorities of client certificates: %w", err),
				"name a PEM file with --client-ca-file")
		}
		o.TLS.ClientCAs = pool
		verify := x509request.DefaultVerifyOptions()
		verify.Roots = pool
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

// alwaysAllow lets everybody in who was authenticated.
type alwaysAllow struct{}

// Authorize allows every request; the reason is empty and the error nil.
func (alwaysAllow) Authorize(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
	return authorizer.DecisionAllow, "", nil
}

// serveSocket serves on a unix socket of root's.
func serveSocket(ctx context.Context, path string, h http.Handler) error {
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
