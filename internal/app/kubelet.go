package app

import (
	"context"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	kubeconfig "github.com/gantry-project/gantry/internal/kubelet/config"
	"github.com/gantry-project/gantry/internal/pki"
)

// nodeServing serves the kubelet's port with the instance's certificate and asks the API server who may do what.
func nodeServing(p *place, client kubernetes.Interface, files *pki.Files, c *kubeletconfig.KubeletConfiguration) (nodeTLS, error) {
	pair, ca := files.NodeServing, files.CA.Cert
	if c.TLSCertFile != "" {
		pair = pki.Pair{Cert: c.TLSCertFile, Key: c.TLSPrivateKeyFile}
	}
	if c.Authentication.X509.ClientCAFile != "" {
		ca = c.Authentication.X509.ClientCAFile
	}
	return portIdentity{place: p, client: client, config: c, pair: pair, ca: ca}.tls()
}

// kubeletCommand is a node of any cluster.
type kubeletCommand struct {
	place
	node     nodeFlags
	role     role
	clientCA string
	pair     pki.Pair
	first    string // kubeconfig to get the own one with
}

func newKubelet(io IO) *cobra.Command {
	k := &kubeletCommand{}
	k.role.without = func(ctx context.Context) error { return k.runAlone(ctx, newProgress(io.Err)) }
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
	f.StringVar(&k.first, "bootstrap-kubeconfig", "", "kubeconfig with which a client certificate is asked for, and the file of --kubeconfig written, when that is not there yet")
	c.PreRunE = func(c *cobra.Command, _ []string) error {
		if k.first == "" || k.role.kubeconfig == "" || readable(k.role.kubeconfig) {
			return nil
		}
		if err := k.complete(); err != nil {
			return err
		}
		return k.bootstrap(c.Context(), k.first, k.role.kubeconfig)
	}
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
	var renew func(context.Context)
	if k.node.loaded.Config.RotateCertificates {
		if cfg, renew, err = k.rotated(cfg); err != nil {
			return err
		}
	}
	client, err := configuredClient(cfg, k.node.loaded.Config)
	if err != nil {
		return err
	}
	identity, err := k.identity(client)
	if err != nil {
		return err
	}
	if renew != nil {
		identity.run = append(identity.run, renew)
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
	role.journal, role.tls = sink, identity
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

// identity is what the port is served with: the named pair, or a self-signed one.
func (k *kubeletCommand) identity(client kubernetes.Interface) (nodeTLS, error) {
	c := k.node.loaded.Config
	id := portIdentity{place: &k.place, client: client, config: c, pair: k.pair, ca: k.clientCA}
	if id.pair.Cert == "" {
		id.pair = pki.Pair{Cert: c.TLSCertFile, Key: c.TLSPrivateKeyFile}
	}
	if id.ca == "" {
		id.ca = c.Authentication.X509.ClientCAFile
	}
	if id.pair.Cert == "" && !c.ServerTLSBootstrap {
		var err error
		if id.pair, err = k.selfSigned(); err != nil {
			return nodeTLS{}, err
		}
	}
	return id.tls()
}
