package noderole

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/kubelet/certs"
	"github.com/gantry-project/gantry/internal/kubelet/server"
	"github.com/gantry-project/gantry/internal/options"
	"github.com/gantry-project/gantry/internal/pki"
)

// NodeServing serves the kubelet's port with the instance's certificate and asks the API server who
// may do what.
func NodeServing(p *options.Instance, client kubernetes.Interface, files *pki.Files,
	c *kubeletconfig.KubeletConfiguration) (NodeTLS, error) {
	pair, ca := files.NodeServing, files.CA.Cert
	if c.TLSCertFile != "" {
		pair = pki.Pair{Cert: c.TLSCertFile, Key: c.TLSPrivateKeyFile}
	}
	if c.Authentication.X509.ClientCAFile != "" {
		ca = c.Authentication.X509.ClientCAFile
	}
	return PortIdentity{Instance: p, Client: client, Config: c, Pair: pair, CA: ca}.TLS()
}

// NodeTLS is how the kubelet's own port is served and who may ask it.
type NodeTLS struct {
	Options server.Options              // TLS, Authenticator and Authorizer are set
	Run     []func(context.Context)     // what keeps certificates fresh
	expiry  func() map[string]time.Time // of certificates, by use
}

// PortIdentity is what the kubelet's port stands on.
type PortIdentity struct {
	Instance *options.Instance
	Client   kubernetes.Interface
	Config   *kubeletconfig.KubeletConfiguration
	Pair     pki.Pair // unless the configuration has requests made
	CA       string   // file of the authorities of clients; empty believes no certificate
}

// TLS joins certificates, whom to believe and whom to ask.
func (p PortIdentity) TLS() (NodeTLS, error) {
	out := NodeTLS{}
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if p.Config.ServerTLSBootstrap {
		requested, err := p.requested()
		if err != nil {
			return out, err
		}
		conf.GetCertificate = requested.Certificate
		out.Run = append(out.Run, RunRenewal(requested))
		out.expiry = func() map[string]time.Time { return certificateExpiry("server", requested.Expiry()) }
	} else {
		pair, err := certs.FromFiles(p.Pair.Cert, p.Pair.Key)
		if err != nil {
			return out, cli.WithFix(err,
				"name a PEM certificate with --tls-cert-file and its key with --tls-private-key-file")
		}
		conf.GetCertificate = pair.Certificate
		out.Run = append(out.Run, pair.Run)
		out.expiry = func() map[string]time.Time { return certificateExpiry("server", pair.Expiry()) }
	}
	if err := servingFields(conf, p.Config); err != nil {
		return out, err
	}
	c := p.Config
	d := server.Delegation{
		Client: p.Client, TokenTTL: c.Authentication.Webhook.CacheTTL.Duration,
		AllowTTL:  c.Authorization.Webhook.CacheAuthorizedTTL.Duration,
		DenyTTL:   c.Authorization.Webhook.CacheUnauthorizedTTL.Duration,
		Anonymous: *c.Authentication.Anonymous.Enabled, NoTokens: !*c.Authentication.Webhook.Enabled,
		AllowAll: c.Authorization.Mode == kubeletconfig.KubeletAuthorizationModeAlwaysAllow,
	}
	if p.CA != "" {
		believed, err := certs.AuthorityFile(p.CA)
		if err != nil {
			return out, cli.WithFix(err, "name a PEM file with --client-ca-file or authentication.x509.clientCAFile")
		}
		d.ClientCA = believed.Pool
		out.Run = append(out.Run, believed.Run)
	}
	out.Options = server.Options{TLS: conf}
	out.Options.Authenticator, out.Options.Authorizer = server.Delegated(d)
	return out, nil
}

func certificateExpiry(use string, at time.Time) map[string]time.Time {
	if at.IsZero() {
		return nil
	}
	return map[string]time.Time{use: at}
}

// RunRenewal asks for a certificate and its successors until ctx ends.
func RunRenewal(r *certs.CSRCertificate) func(context.Context) {
	return func(ctx context.Context) {
		r.Start()
		<-ctx.Done()
		r.Stop()
	}
}

// requested is a serving certificate for the node's address and name (serverTLSBootstrap).
func (p PortIdentity) requested() (*certs.CSRCertificate, error) {
	dir := filepath.Join(p.Instance.DataDir, "kubelet-pki")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return certs.Serving(certs.CSROptions{
		NodeName: p.Instance.NodeName, Dir: dir, Client: func(*tls.Certificate) (kubernetes.Interface, error) {
			return p.Client, nil
		},
		Addresses: func() []v1.NodeAddress {
			return append(p.Instance.NodeAddresses(),
				v1.NodeAddress{Type: v1.NodeHostName, Address: p.Instance.NodeName})
		},
	})
}

// SelfSigned is a pair that is kept below the data directory, as upstream's kubelet does without a
// configured one. It is for the node's name and addresses, and made anew when they change.
func SelfSigned(p *options.Instance) (pki.Pair, error) {
	dir := filepath.Join(p.DataDir, "kubelet-pki")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return pki.Pair{}, err
	}
	pair := pki.Pair{Cert: filepath.Join(dir, "kubelet.crt"), Key: filepath.Join(dir, "kubelet.key")}
	var ips []net.IP
	for _, text := range p.NodeIPs() {
		if ip := net.ParseIP(text); ip != nil {
			ips = append(ips, ip)
		}
	}
	if certificateValidFor(pair.Cert, p.NodeName, ips) {
		return pair, nil
	}
	certPEM, keyPEM, err := cert.GenerateSelfSignedCertKey(p.NodeName, ips, nil)
	if err != nil {
		return pair, fmt.Errorf("serving certificate: %w", err)
	}
	if err := cert.WriteCert(pair.Cert, certPEM); err != nil {
		return pair, err
	}
	return pair, os.WriteFile(pair.Key, keyPEM, 0o600)
}

// certificateValidFor tells whether the first certificate of a file is for the name and all the
// addresses.
func certificateValidFor(file, name string, ips []net.IP) bool {
	list, err := cert.CertsFromFile(file)
	if err != nil || list[0].VerifyHostname(name) != nil {
		return false
	}
	return !slices.ContainsFunc(ips, func(ip net.IP) bool { return list[0].VerifyHostname(ip.String()) != nil })
}

// RotatingConfig is the API server's client configuration with a certificate that is renewed before
// it ends (rotateCertificates), and what renews it. A kubeconfig without a certificate stays as it
// is.
func RotatingConfig(p *options.Instance, cfg *rest.Config) (*rest.Config, func(context.Context), error) {
	own := rest.CopyConfig(cfg)
	if err := rest.LoadTLSFiles(own); err != nil {
		return nil, nil, err
	}
	if len(own.CertData) == 0 {
		return cfg, nil, nil
	}
	dir := filepath.Join(p.DataDir, "kubelet-pki")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, err
	}
	fresh := rest.CopyConfig(cfg)
	requested, err := certs.Client(certs.CSROptions{
		NodeName: p.NodeName, Dir: dir, CertPEM: own.CertData, KeyPEM: own.KeyData,
		Client: func(*tls.Certificate) (kubernetes.Interface, error) { return ClientFor(fresh, "kubelet") },
	})
	if err != nil {
		return nil, nil, err
	}
	// client-go reads named files again by itself, and closes connections made with the old
	// certificate.
	fresh.CertData, fresh.KeyData, fresh.CertFile, fresh.KeyFile = nil, nil, requested.Path(), requested.Path()
	return fresh, RunRenewal(requested), nil
}

// Bootstrap makes the kubeconfig of a new node with the credentials of another
// (--bootstrap-kubeconfig): it has a client certificate signed and names it.
func Bootstrap(ctx context.Context, p *options.Instance, from, to string) error {
	cfg, _, err := cli.RestConfig(from)
	if err != nil {
		return err
	}
	dir := filepath.Join(p.DataDir, "kubelet-pki")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	requested, err := certs.Client(certs.CSROptions{
		NodeName: p.NodeName, Dir: dir, Client: func(*tls.Certificate) (kubernetes.Interface, error) {
			return ClientFor(cfg, "kubelet-bootstrap")
		},
	})
	if err != nil {
		return err
	}
	requested.Start()
	defer requested.Stop()
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	for !requested.HasCertificate() {
		select {
		case <-look.C:
		case <-ctx.Done():
			return cli.WithFix(fmt.Errorf("no client certificate was signed for node %s: %w", p.NodeName, ctx.Err()),
				"see kubectl get csr; its user needs the ClusterRoles system:node-bootstrapper and "+
					"system:certificates.k8s.io:certificatesigningrequests:nodeclient")
		}
	}
	return WriteNodeConfig(cfg, requested.Path(), to)
}

// WriteNodeConfig writes a kubeconfig for the same server with the certificate in pem.
func WriteNodeConfig(cfg *rest.Config, pem, to string) error {
	if err := rest.LoadTLSFiles(cfg); err != nil {
		return err
	}
	const name = "default"
	out := clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{name: {Server: cfg.Host, CertificateAuthorityData: cfg.CAData,
			InsecureSkipTLSVerify: cfg.Insecure, TLSServerName: cfg.ServerName}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: {ClientCertificate: pem, ClientKey: pem}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	}
	return clientcmd.WriteToFile(out, to)
}
