package app

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	kubeconfig "github.com/gantry-project/gantry/internal/kubelet/config"
	"github.com/gantry-project/gantry/internal/kubelet/serve"
	"github.com/gantry-project/gantry/internal/pki"
)

// nodeServing serves the kubelet's port with the instance's certificate and asks the API server who may do what.
func nodeServing(client kubernetes.Interface, files *pki.Files, c *kubeletconfig.KubeletConfiguration) (nodeTLS, error) {
	pair, ca := files.NodeServing, files.CA.Cert
	if c.TLSCertFile != "" {
		pair = pki.Pair{Cert: c.TLSCertFile, Key: c.TLSPrivateKeyFile}
	}
	if c.Authentication.X509.ClientCAFile != "" {
		ca = c.Authentication.X509.ClientCAFile
	}
	conf, err := serving(pair, ca)
	if err != nil {
		return nodeTLS{}, err
	}
	if err := servingFields(conf, c); err != nil {
		return nodeTLS{}, err
	}
	return delegated(client, conf, c), nil
}

func delegated(client kubernetes.Interface, conf *tls.Config, c *kubeletconfig.KubeletConfiguration) nodeTLS {
	o := serve.Options{TLS: conf}
	d := serve.Delegation{
		Client: client, TokenTTL: c.Authentication.Webhook.CacheTTL.Duration,
		AllowTTL: c.Authorization.Webhook.CacheAuthorizedTTL.Duration, DenyTTL: c.Authorization.Webhook.CacheUnauthorizedTTL.Duration,
	}
	if conf.ClientCAs != nil {
		d.ClientCA = func() (*x509.CertPool, bool) { return conf.ClientCAs, true }
	}
	o.Authenticator, o.Authorizer = serve.Delegated(d)
	return nodeTLS{options: o}
}

// kubeletCommand is a node of any cluster.
type kubeletCommand struct {
	place
	node     nodeFlags
	role     role
	clientCA string
	pair     pki.Pair
}

func newKubelet(io IO) *cobra.Command {
	k := &kubeletCommand{}
	c := k.role.command(&cobra.Command{
		Use: "kubelet", Aliases: []string{"node"}, Short: "Run a node alone, for any Kubernetes API server",
		Example: "  sudo gantry kubelet --kubeconfig /etc/kubernetes/kubelet.conf --config /var/lib/kubelet/config.yaml\n  sudo gantry kubelet --kubeconfig node.conf --container-runtime-endpoint unix:///run/containerd/containerd.sock",
	}, func(ctx context.Context, cfg *rest.Config) error { return k.run(ctx, cfg, newProgress(io.Err)) })
	f := c.Flags()
	k.dataFlag(f)
	k.place.nodeFlags(f)
	k.node.kubeletFlags(f)
	k.node.configFlags(f, "")
	f.StringVar(&k.nodeName, "hostname-override", "", "name of this node")
	f.StringVar(&k.clientCA, "client-ca-file", "", "authorities of client certificates for the kubelet's port (default: tokens only)")
	f.StringVar(&k.pair.Cert, "tls-cert-file", "", "serving certificate of the kubelet's port (default: a self-signed one)")
	f.StringVar(&k.pair.Key, "tls-private-key-file", "", "its key")
	k.node.from.Flags = &kubeconfig.Flags{}
	k.node.from.Flags.Register(f)
	return c
}

func (k *kubeletCommand) run(ctx context.Context, cfg *rest.Config, out *progress) error {
	if err := k.complete(); err != nil {
		return err
	}
	if err := k.node.load(&k.place); err != nil {
		return err
	}
	if err := requireRoot("gantry kubelet"); err != nil {
		return err
	}
	if err := requireKernel("/"); err != nil {
		return err
	}
	if err := requirePort("", k.kubeletPort, "--kubelet-port"); err != nil {
		return err
	}
	lock, err := lockDataDir(k.dataDir)
	if err != nil {
		return err
	}
	defer lock.release()
	sink, stop, err := shippedJournal(ctx, cfg, speaker{"kubelet", k.nodeName})
	if err != nil {
		return err
	}
	defer stop()
	client, err := configuredClient(cfg, k.node.loaded.Config)
	if err != nil {
		return err
	}
	conf, err := k.servingTLS(k.node.loaded.Config)
	if err != nil {
		return err
	}
	e, err := k.startEngine(ctx, sink, out.step)
	if err != nil {
		return err
	}
	defer e.close()
	role, err := k.node.role(&k.place, e, client)
	if err != nil {
		return err
	}
	role.journal, role.tls = sink, delegated(client, conf, k.node.loaded.Config)
	x, err := role.build()
	if err != nil {
		return err
	}
	go func() {
		select {
		case <-x.report.Ready():
			out.step("node ready: %s (%s)", k.nodeName, k.nodeIP)
		case <-ctx.Done():
		}
	}()
	return x.run(ctx)
}

// servingTLS loads the named pair, or makes a self-signed one that is kept below the data directory, as upstream's kubelet does.
func (k *kubeletCommand) servingTLS(c *kubeletconfig.KubeletConfiguration) (*tls.Config, error) {
	conf, err := k.certificate(c)
	if err != nil {
		return nil, err
	}
	return conf, servingFields(conf, c)
}

func (k *kubeletCommand) certificate(conf *kubeletconfig.KubeletConfiguration) (*tls.Config, error) {
	pair := k.pair
	if pair.Cert == "" {
		pair = pki.Pair{Cert: conf.TLSCertFile, Key: conf.TLSPrivateKeyFile}
	}
	ca := k.clientCA
	if ca == "" {
		ca = conf.Authentication.X509.ClientCAFile
	}
	if pair.Cert == "" {
		dir := filepath.Join(k.dataDir, "kubelet-pki")
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
		pair = pki.Pair{Cert: filepath.Join(dir, "kubelet.crt"), Key: filepath.Join(dir, "kubelet.key")}
		if !readable(pair.Cert) {
			certPEM, keyPEM, err := cert.GenerateSelfSignedCertKey(k.nodeName, nil, []string{k.nodeIP})
			if err != nil {
				return nil, fmt.Errorf("serving certificate: %w", err)
			}
			if err := cert.WriteCert(pair.Cert, certPEM); err != nil {
				return nil, err
			}
			if err := os.WriteFile(pair.Key, keyPEM, 0o600); err != nil {
				return nil, err
			}
		}
	}
	if ca != "" {
		return serving(pair, ca)
	}
	c, err := tls.LoadX509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		return nil, withFix(fmt.Errorf("serving certificate %s: %w", pair.Cert, err), "name a PEM certificate with --tls-cert-file and its key with --tls-private-key-file")
	}
	return &tls.Config{Certificates: []tls.Certificate{c}, MinVersion: tls.VersionTLS12}, nil
}
