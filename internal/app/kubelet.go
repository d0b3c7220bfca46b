package app

import (
	"context"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	kubeconfig "github.com/gantry-project/gantry/internal/kubelet/config"
	"github.com/gantry-project/gantry/internal/pki"
)

// nodeServing serves the kubelet's port with the instance's certificate and asks the API server who
// may do what.
func nodeServing(p *instanceOptions, client kubernetes.Interface, files *pki.Files,
	c *kubeletconfig.KubeletConfiguration) (nodeTLS, error) {
	pair, ca := files.NodeServing, files.CA.Cert
	if c.TLSCertFile != "" {
		pair = pki.Pair{Cert: c.TLSCertFile, Key: c.TLSPrivateKeyFile}
	}
	if c.Authentication.X509.ClientCAFile != "" {
		ca = c.Authentication.X509.ClientCAFile
	}
	return portIdentity{instance: p, client: client, config: c, pair: pair, ca: ca}.tls()
}

// kubeletCommand is a node of any cluster.
type kubeletCommand struct {
	instance            instanceOptions
	node                nodeFlags
	role                roleOptions
	clientCA            string
	pair                pki.Pair
	bootstrapKubeconfig string // kubeconfig to get the own one with
	network             string // kubeconfig of who may see other nodes and network policies
	logf                func(string, ...any)
}

func newKubelet(io IO) *cobra.Command {
	k := &kubeletCommand{}
	k.role.without = func(ctx context.Context) error { return k.runStandalone(ctx, newProgress(io.Err)) }
	c := k.role.command(&cobra.Command{
		Use: "kubelet", Aliases: []string{"node"}, Short: "Run a node alone, for any Kubernetes API server",
		Long: "kubelet runs a node. Files that are not named are taken from " + kubeletKubeconfig + " and " +
			kubeletConfigFile + " when they are there.\n" +
			"docs/examples/kubelet.service is a unit file for systemd (--print-unit prints one); " +
			"docs/user/joining.md says which files a machine needs to join.",
		Example: "  sudo gantry kubelet --kubeconfig /etc/kubernetes/kubelet.conf --config " +
			"/var/lib/kubelet/config.yaml\n  sudo gantry kubelet --kubeconfig node.conf --container-runtime-endpoint " +
			"unix:///run/containerd/containerd.sock",
	}, func(ctx context.Context, cfg *rest.Config) error { return k.run(ctx, cfg, newProgress(io.Err)) })
	f := c.Flags()
	k.instance.dataFlag(f)
	k.instance.nodeFlags(f)
	k.node.kubeletFlags(f)
	k.node.dns.nodeFlags(f)
	f.StringVar(&k.network, "network-kubeconfig", "",
		"kubeconfig that may do what docs/examples/network-agent-rbac.yaml says, so that Pods of other nodes are "+
			"reached, policies enforced and names answered here; a file that is not there is written when the request "+
			"for its certificate is approved (default: neither)")
	k.node.configFlags(f, "")
	f.StringVar(&k.instance.nodeName, "hostname-override", "", "name of this node")
	f.StringVar(&k.clientCA, "client-ca-file", "",
		"authorities of client certificates for the kubelet's port (default: tokens only)")
	f.StringVar(&k.pair.Cert, "tls-cert-file", "",
		"serving certificate of the kubelet's port (default: a self-signed one)")
	f.StringVar(&k.pair.Key, "tls-private-key-file", "", "its key")
	f.StringVar(&k.bootstrapKubeconfig, "bootstrap-kubeconfig", "",
		"kubeconfig with which a client certificate is asked for, and the file of --kubeconfig written, when that is "+
			"not there yet")
	c.PreRunE = func(c *cobra.Command, _ []string) error {
		conventionalPaths(k, "", c.Flags())
		if k.bootstrapKubeconfig == "" || k.role.kubeconfig == "" || readable(k.role.kubeconfig) {
			return nil
		}
		if err := k.instance.complete(); err != nil {
			return err
		}
		return bootstrap(c.Context(), &k.instance, k.bootstrapKubeconfig, k.role.kubeconfig)
	}
	k.node.configSources.Flags = &kubeconfig.Flags{}
	k.node.configSources.Flags.Register(f)
	return c
}

// Where kubeadm and the documents put a kubelet's files.
const (
	kubeletKubeconfig = "/etc/kubernetes/kubelet.conf"
	kubeletConfigFile = "/var/lib/kubelet/config.yaml"
)

// conventionalPaths takes the files of the conventional places when they are there and no others
// are named. root is put before them; empty but in tests.
func conventionalPaths(k *kubeletCommand, root string, f *pflag.FlagSet) {
	take := func(flag string, to *string, file string) {
		if !f.Changed(flag) && *to == "" && readable(root+file) {
			*to = root + file
		}
	}
	take("kubeconfig", &k.role.kubeconfig, kubeletKubeconfig)
	take("config", &k.node.configSources.File, kubeletConfigFile)
}

func (k *kubeletCommand) run(ctx context.Context, cfg *rest.Config, out *progress) error {
	if err := k.instance.complete(); err != nil {
		return err
	}
	if err := k.node.loadConfig(&k.instance); err != nil {
		return err
	}
	if err := requireRoot("gantry kubelet"); err != nil {
		return err
	}
	if err := requireKernel("/"); err != nil {
		return err
	}
	if err := requirePort("", k.instance.kubeletPort, "--kubelet-port"); err != nil {
		return err
	}
	lock, err := lockDataDir(k.instance.dataDir)
	if err != nil {
		return err
	}
	defer lock.release()
	sink, stop, err := newRemoteJournal(ctx, cfg, journalSource{"kubelet", k.instance.nodeName})
	if err != nil {
		return err
	}
	defer stop()
	var renew func(context.Context)
	if k.node.loaded.Config.RotateCertificates {
		if cfg, renew, err = rotatingConfig(&k.instance, cfg); err != nil {
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
	k.instance.podNetwork.policies = k.instance.podNetwork.policies && k.network != ""
	k.logf = out.step
	e, err := startEngine(ctx, &k.instance, sink, out.step)
	if err != nil {
		return err
	}
	defer e.close()
	role, err := k.node.role(ctx, &k.instance, e, client)
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
			out.step("node ready: %s (%s)", k.instance.nodeName, k.instance.nodeIP)
		case <-ctx.Done():
		}
	}()
	return runAll(ctx, x.run, func(ctx context.Context) error {
		return k.podNetwork(ctx, networkAgent{instance: &k.instance, engine: e, own: client, facts: sink,
			logf: out.step}, cfg)
	})
}

// podNetwork runs the part of the Pod network that needs to see other nodes and policies.
func (k *kubeletCommand) podNetwork(ctx context.Context, a networkAgent, cfg *rest.Config) error {
	if k.network != "" {
		logf := skipRepeated(a.logf)
		a.clusterClient = sync.OnceValues(func() (*rest.Config, error) {
			wide, err := waitForCredentials(ctx, credentialsRetryPeriod,
				func(ctx context.Context) (*rest.Config, error) {
					if k.lacksCredentials(time.Now()) {
						if err := networkCredentials(ctx, cfg, k, logf); err != nil {
							return nil, err
						}
					}
					wide, _, err := restConfig(k.network)
					return wide, err
				})
			if err != nil {
				return nil, err
			}
			again, err := k.renewal(cfg, logf)
			if again != nil {
				go runRenewal(again)(ctx)
			}
			return wide, err
		})
		a.serveNames = k.serveNames
	}
	return a.run(ctx)
}

// identity is what the port is served with: the named pair, or a self-signed one.
func (k *kubeletCommand) identity(client kubernetes.Interface) (nodeTLS, error) {
	c := k.node.loaded.Config
	id := portIdentity{instance: &k.instance, client: client, config: c, pair: k.pair, ca: k.clientCA}
	if id.pair.Cert == "" {
		id.pair = pki.Pair{Cert: c.TLSCertFile, Key: c.TLSPrivateKeyFile}
	}
	if id.ca == "" {
		id.ca = c.Authentication.X509.ClientCAFile
	}
	if id.pair.Cert == "" && !c.ServerTLSBootstrap {
		var err error
		if id.pair, err = selfSigned(&k.instance); err != nil {
			return nodeTLS{}, err
		}
	}
	return id.tls()
}
