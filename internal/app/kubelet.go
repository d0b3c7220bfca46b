package app

import (
	"context"
	"sync"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/gantry-project/gantry/internal/app/networkagent"
	"github.com/gantry-project/gantry/internal/app/noderole"
	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/options"
	"github.com/gantry-project/gantry/internal/pki"
)

// Kubelet is a node of any cluster.
type Kubelet struct {
	Instance            options.Instance
	Node                nodeFlags
	Role                cli.Role
	ClientCA            string
	Pair                pki.Pair
	BootstrapKubeconfig string // kubeconfig to get the own one with
	Network             string // kubeconfig of who may see other nodes and network policies
	logf                func(string, ...any)
}

// Run runs the node against the API server of cfg until ctx ends. It checks root, kernel and port
// before it changes anything, and holds the data directory's lock.
func (k *Kubelet) Run(ctx context.Context, cfg *rest.Config, out *cli.Progress) error {
	if err := k.Instance.Complete(); err != nil {
		return err
	}
	if err := k.Node.loadConfig(&k.Instance); err != nil {
		return err
	}
	if err := cli.RequireRoot("gantry kubelet"); err != nil {
		return err
	}
	if err := cli.RequireKernel("/"); err != nil {
		return err
	}
	if err := cli.RequirePort("", k.Instance.KubeletPort, "--kubelet-port"); err != nil {
		return err
	}
	lock, err := options.LockDataDir(k.Instance.DataDir)
	if err != nil {
		return err
	}
	defer lock.Release()
	sink, stop, err := NewRemoteJournal(ctx, cfg, JournalSource{"kubelet", k.Instance.NodeName})
	if err != nil {
		return err
	}
	defer stop()
	var renew func(context.Context)
	if k.Node.Loaded.Config.RotateCertificates {
		if cfg, renew, err = noderole.RotatingConfig(&k.Instance, cfg); err != nil {
			return err
		}
	}
	client, err := noderole.ConfiguredClient(cfg, k.Node.Loaded.Config)
	if err != nil {
		return err
	}
	identity, err := k.identity(client)
	if err != nil {
		return err
	}
	if renew != nil {
		identity.Run = append(identity.Run, renew)
	}
	k.Instance.PodNetwork.Policies = k.Instance.PodNetwork.Policies && k.Network != ""
	k.logf = out.Step
	e, err := noderole.StartContainerRuntime(ctx, &k.Instance, sink, out.Step)
	if err != nil {
		return err
	}
	defer e.Close()
	role, err := k.Node.Role(ctx, &k.Instance, e, client)
	if err != nil {
		return err
	}
	role.Journal, role.TLS = sink, identity
	x, err := role.Build()
	if err != nil {
		return err
	}
	go func() {
		select {
		case <-x.Report.Ready():
			out.Step("node ready: %s (%s)", k.Instance.NodeName, k.Instance.NodeIP)
		case <-ctx.Done():
		}
	}()
	return noderole.RunAll(ctx, x.Run, func(ctx context.Context) error {
		return k.runNetworkAgent(ctx, networkagent.Agent{Instance: &k.Instance, ContainerRuntime: e, Client: client,
			Journal: sink, Logf: out.Step}, cfg)
	})
}

// runNetworkAgent runs the part of the Pod network that needs to see other nodes and policies.
func (k *Kubelet) runNetworkAgent(ctx context.Context, a networkagent.Agent, cfg *rest.Config) error {
	if k.Network != "" {
		c := networkagent.Credentials{Instance: &k.Instance, Node: cfg, Kubeconfig: k.Network, Logf: a.Logf}
		a.ClusterConfig = sync.OnceValues(func() (*rest.Config, error) { return c.ClusterConfig(ctx) })
		a.ServeNames = k.serveNames
	}
	return a.Run(ctx)
}

// identity is what the port is served with: the named pair, or a self-signed one.
func (k *Kubelet) identity(client kubernetes.Interface) (noderole.NodeTLS, error) {
	c := k.Node.Loaded.Config
	id := noderole.PortIdentity{Instance: &k.Instance, Client: client, Config: c, Pair: k.Pair, CA: k.ClientCA}
	if id.Pair.Cert == "" {
		id.Pair = pki.Pair{Cert: c.TLSCertFile, Key: c.TLSPrivateKeyFile}
	}
	if id.CA == "" {
		id.CA = c.Authentication.X509.ClientCAFile
	}
	if id.Pair.Cert == "" && !c.ServerTLSBootstrap {
		var err error
		if id.Pair, err = noderole.SelfSigned(&k.Instance); err != nil {
			return noderole.NodeTLS{}, err
		}
	}
	return id.TLS()
}
