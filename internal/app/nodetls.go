package app

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

// nodeTLS is how the kubelet's own port is served and who may ask it.
type nodeTLS struct {
	options server.Options              // TLS, Authenticator and Authorizer are set
	run     []func(context.Context)     // what keeps certificates fresh
	expiry  func() map[string]time.Time // of certificates, by use
}

// portIdentity is what the kubelet's port stands on.
type portIdentity struct {
	instance *options.Instance
	client   kubernetes.Interface
	config   *kubeletconfig.KubeletConfiguration
	pair     pki.Pair // unless the configuration has requests made
	ca       string   // file of the authorities of clients; empty believes no certificate
}

// tls joins certificates, whom to believe and whom to ask.
func (p portIdentity) tls() (nodeTLS, error) {
	out := nodeTLS{}
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if p.config.ServerTLSBootstrap {
		requested, err := p.requested()
		if err != nil {
			return out, err
		}
		conf.GetCertificate = requested.Certificate
		out.run = append(out.run, runRenewal(requested))
		out.expiry = func() map[string]time.Time { return certificateExpiry("server", requested.Expiry()) }
	} else {
		pair, err := certs.FromFiles(p.pair.Cert, p.pair.Key)
		if err != nil {
			return out, cli.WithFix(err,
				"name a PEM certificate with --tls-cert-file and its key with --tls-private-key-file")
		}
		conf.GetCertificate = pair.Certificate
		out.run = append(out.run, pair.Run)
		out.expiry = func() map[string]time.Time { return certificateExpiry("server", pair.Expiry()) }
	}
	if err := servingFields(conf, p.config); err != nil {
		return out, err
	}
	c := p.config
	d := server.Delegation{
		Client: p.client, TokenTTL: c.Authentication.Webhook.CacheTTL.Duration,
		AllowTTL:  c.Authorization.Webhook.CacheAuthorizedTTL.Duration,
		DenyTTL:   c.Authorization.Webhook.CacheUnauthorizedTTL.Duration,
		Anonymous: *c.Authentication.Anonymous.Enabled, NoTokens: !*c.Authentication.Webhook.Enabled,
		AllowAll: c.Authorization.Mode == kubeletconfig.KubeletAuthorizationModeAlwaysAllow,
	}
	if p.ca != "" {
		believed, err := certs.AuthorityFile(p.ca)
		if err != nil {
			return out, cli.WithFix(err, "name a PEM file with --client-ca-file or authentication.x509.clientCAFile")
		}
		d.ClientCA = believed.Pool
		out.run = append(out.run, believed.Run)
	}
	out.options = server.Options{TLS: conf}
	out.options.Authenticator, out.options.Authorizer = server.Delegated(d)
	return out, nil
}

func certificateExpiry(use string, at time.Time) map[string]time.Time {
	if at.IsZero() {
		return nil
	}
	return map[string]time.Time{use: at}
}

// runRenewal asks for a certificate and its successors until ctx ends.
func runRenewal(r *certs.CSRCertificate) func(context.Context) {
	return func(ctx context.Context) {
		r.Start()
		<-ctx.Done()
		r.Stop()
	}
}

// requested is a serving certificate for the node's address and name (serverTLSBootstrap).
func (p portIdentity) requested() (*certs.CSRCertificate, error) {
	dir := filepath.Join(p.instance.DataDir, "kubelet-pki")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return certs.Serving(certs.CSROptions{
		NodeName: p.instance.NodeName, Dir: dir, Client: func(*tls.Certificate) (kubernetes.Interface, error) {
			return p.client, nil
		},
		Addresses: func() []v1.NodeAddress {
			return append(p.instance.NodeAddresses(),
				v1.NodeAddress{Type: v1.NodeHostName, Address: p.instance.NodeName})
		},
	})
}

// selfSigned is a pair that is kept below the data directory, as upstream's kubelet does without a
// configured one. It is for the node's name and addresses, and made anew when they change.
func selfSigned(p *options.Instance) (pki.Pair, error) {
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

// rotatingConfig is the API server's client configuration with a certificate that is renewed before
// it ends (rotateCertificates), and what renews it. A kubeconfig without a certificate stays as it
// is.
func rotatingConfig(p *options.Instance, cfg *rest.Config) (*rest.Config, func(context.Context), error) {
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
		Client: func(*tls.Certificate) (kubernetes.Interface, error) { return clientFor(fresh, "kubelet") },
	})
	if err != nil {
		return nil, nil, err
	}
	// client-go reads named files again by itself, and closes connections made with the old
	// certificate.
	fresh.CertData, fresh.KeyData, fresh.CertFile, fresh.KeyFile = nil, nil, requested.Path(), requested.Path()
	return fresh, runRenewal(requested), nil
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
			return clientFor(cfg, "kubelet-bootstrap")
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
	return writeNodeConfig(cfg, requested.Path(), to)
}

// writeNodeConfig writes a kubeconfig for the same server with the certificate in pem.
func writeNodeConfig(cfg *rest.Config, pem, to string) error {
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
