package app

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/gantry-project/gantry/internal/journal/ring"
	"github.com/gantry-project/gantry/internal/pki"
)

// newServer is the API server alone.
func newServer(io IO) *cobra.Command {
	p, l := &instanceOptions{}, &logging{}
	c := &cobra.Command{
		Use: "server", Short: "Run the API server alone, with etcd inside or outside; needs no privileges",
		Example: "  gantry server --data-dir ~/gantry\n  gantry server --etcd-servers https://10.0.0.5:2379",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := p.complete(); err != nil {
				return err
			}
			return runServer(c.Context(), p, l, newProgress(io.Out))
		},
	}
	p.dataFlag(c.Flags())
	p.serverFlags(c.Flags())
	c.Flags().StringVar(&p.nodeName, "node-name", "",
		"name for the certificates of a first node (default: the host's name)")
	c.Flags().StringVar(&p.nodeIP, "advertise-address", "",
		"address under which Pods and nodes reach the server (default: that of the default route)")
	l.flags(c.Flags())
	return c
}

func runServer(ctx context.Context, p *instanceOptions, l *logging, out *progress) error {
	if err := requirePort(p.bindAddress, p.securePort, "--secure-port"); err != nil {
		return err
	}
	lock, err := lockDataDir(p.dataDir)
	if err != nil {
		return err
	}
	defer lock.release()
	closeLog, err := l.open(p.dataDir)
	if err != nil {
		return err
	}
	defer closeLog()
	runGCPacer(ctx)
	log, err := ring.Open(ring.Options{Dir: filepath.Join(p.dataDir, "journal")})
	if err != nil {
		return err
	}
	defer log.Close()
	files, err := p.certificates()
	if err != nil {
		return err
	}
	if err := p.kubeconfigs(files); err != nil {
		return err
	}
	server, err := newAPIServer(ctx, p, files, log)
	if err != nil {
		return err
	}
	go func() {
		select {
		case <-server.Ready():
			out.step("API server ready at %s", p.serverURL())
			out.step("kubeconfigs for administrator, scheduler, controllers and node in %s", p.dataDir)
		case <-ctx.Done():
		}
	}()
	go maintain(ctx, p, server, out)
	return server.Run(ctx)
}

// roleOptions is a component that runs against an API server it reaches by kubeconfig.
type roleOptions struct {
	kubeconfig  string
	leaderElect bool
	electable   bool                           // has an election of its own
	without     func(context.Context) error    // what it does without an API server; nil: nothing
	health      *leaderelection.HealthzAdaptor // is told of the lease; may be nil
	log         logging
}

func (r *roleOptions) command(c *cobra.Command, run func(ctx context.Context, cfg *rest.Config) error) *cobra.Command {
	c.Args = cobra.NoArgs
	f := c.Flags()
	f.StringVar(&r.kubeconfig, "kubeconfig", "", "kubeconfig of the API server (required)")
	if !r.electable {
		f.BoolVar(&r.leaderElect, "leader-elect", true, "work only while holding the lease, so that several may run")
	}
	r.log.flags(f)
	c.RunE = func(c *cobra.Command, _ []string) error {
		if r.kubeconfig == "" && r.without != nil {
			r.log.toStderr = true
			if _, err := r.log.open(""); err != nil {
				return err
			}
			return r.without(c.Context())
		}
		if r.kubeconfig == "" {
			return usageError(fmt.Errorf("%s wants --kubeconfig; see %q", c.CommandPath(), c.CommandPath()+" --help"))
		}
		r.log.toStderr = true
		if _, err := r.log.open(""); err != nil {
			return err
		}
		cfg, _, err := restConfig(r.kubeconfig)
		if err != nil {
			return err
		}
		return run(c.Context(), cfg)
	}
	return c
}

// runElected runs work while this process holds the lease of that name in kube-system; it returns
// when the lease is lost or ctx ends.
func (r *roleOptions) runElected(ctx context.Context, cfg *rest.Config, name string,
	work func(context.Context) error) error {
	if !r.leaderElect {
		return work(ctx)
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{LeaseMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: name},
			Client:     client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity()}},
		LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
		ReleaseOnCancel: true, Name: name, WatchDog: r.health,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) { done <- work(ctx); cancel() },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return err
	}
	elector.Run(ctx)
	select {
	case err := <-done:
		return err
	default:
		return nil // never led
	}
}

func newControllers(io IO) *cobra.Command {
	r := &roleOptions{}
	ca, signer, net, services := "", pki.Pair{}, podNetworkOptions{}, ""
	balancers, port := loadBalancerFlag{}, controllersPort{}
	c := r.command(&cobra.Command{
		Use: "controllers", Short: "Run the controllers alone, against a Kubernetes API server",
		Example: "  gantry controllers --kubeconfig /var/lib/gantry/controllers.kubeconfig --root-ca-file " +
			"/var/lib/gantry/pki/ca.crt",
	}, func(ctx context.Context, cfg *rest.Config) error {
		if err := net.check(); err != nil {
			return err
		}
		if r.leaderElect {
			r.health = leaderelection.NewLeaderHealthzAdaptor(leaseTimeout)
			port.lease = r.health
		}
		ctx, cancel := context.WithCancel(ctx)
		stopped, err := port.serve(ctx, cfg)
		if err != nil {
			cancel()
			return err
		}
		defer func() { cancel(); <-stopped }()
		return r.runElected(ctx, cfg, "kube-controller-manager", func(ctx context.Context) error {
			sink, stop, err := newRemoteJournal(ctx, cfg, journalSource{component: "controllers"})
			if err != nil {
				return err
			}
			defer stop()
			return runControllers(ctx, controllersOptions{config: cfg, configFor: tokenConfig(cfg), caFile: ca,
				signer: signer, ranges: net.ranges(services), journal: sink, without: balancers.without()})
		})
	})
	balancers.flags(c.Flags())
	port.flags(c.Flags())
	net.clusterFlags(c.Flags())
	c.Flags().StringVar(&services, "service-cluster-ip-range", "", "addresses of Services, which no node's Pods get")
	c.Flags().StringVar(&signer.Cert, "cluster-signing-cert-file", "",
		"certificate authority that signs certificate requests (default: none is signed)")
	c.Flags().StringVar(&signer.Key, "cluster-signing-key-file", "", "its key")
	c.Flags().StringVar(&ca, "root-ca-file", "",
		"certificate authority of the API server, published to every namespace (default: the kubeconfig's)")
	return c
}

func unthrottled(cfg *rest.Config, agent string) *rest.Config {
	own := rest.CopyConfig(cfg)
	own.QPS, own.UserAgent = -1, agent
	return own
}
