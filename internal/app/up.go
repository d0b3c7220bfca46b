package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/gantry-project/gantry/internal/apiserver"
	"github.com/gantry-project/gantry/internal/journal/ring"
	"github.com/gantry-project/gantry/internal/pki"
)

// upCommand is everything on this machine.
type upCommand struct {
	instance instanceOptions
	log      logging
	node     nodeFlags
	stopPods bool
	clean    bool
	out      *progress
}

func newUpCommand(io IO) *cobra.Command {
	u := &upCommand{}
	c := &cobra.Command{
		Use: "up",
		Short: "Run a whole cluster on this machine: API server with etcd, scheduler, controllers, kubelet, " +
			"container " +
			"runtime",
		Long: "up runs everything in one process, with containerd as a child that outlives it. It writes a " +
			"kubeconfig " +
			"into the data directory and prints each step.\n" +
			"Ctrl-C or SIGTERM stops it; Pods run on unless --stop-pods is given, and the next `gantry up` with the " +
			"same data directory takes them over.",
		Example: "  sudo gantry up\n  sudo gantry up --data-dir /tmp/two --secure-port 7443 --kubelet-port 11250 " +
			"--bridge two0 --pod-cidr 10.73.0.0/16\n" +
			"  sudo gantry up --cluster-cidr 10.72.0.0/14 --node-ip 192.0.2.2    # other machines can join: " +
			"docs/user/joining.md\n  export KUBECONFIG=/var/lib/gantry/kubeconfig; kubectl get nodes",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			u.out = newProgress(io.Out)
			return u.run(c.Context())
		},
	}
	f := c.Flags()
	u.instance.dataFlag(f)
	u.instance.serverFlags(f)
	u.instance.nodeFlags(f)
	u.node.flags(f)
	u.log.flags(f)
	f.BoolVar(&u.clean, "clean", false,
		"take everything but the data away when gantry stops: Pods, container runtime, mounts, network, cgroups")
	f.BoolVar(&u.stopPods, "stop-pods", false,
		"stop all Pods and the container runtime when gantry stops; default: they run on")
	return c
}

func (u *upCommand) run(ctx context.Context) error {
	if err := u.check(); err != nil {
		return err
	}
	lock, err := lockDataDir(u.instance.dataDir)
	if err != nil {
		return err
	}
	defer lock.release()
	closeLog, err := u.log.open(u.instance.dataDir)
	if err != nil {
		return err
	}
	defer closeLog()
	runGCPacer(ctx)
	log, err := ring.Open(ring.Options{Dir: filepath.Join(u.instance.dataDir, "journal")})
	if err != nil {
		return withFix(err, "make it writable, or remove it: it only explains the past")
	}
	defer log.Close()
	files, err := u.instance.certificates()
	if err != nil {
		return err
	}
	if err := u.instance.kubeconfigs(files); err != nil {
		return err
	}
	u.out.step("certificates and kubeconfig %s", kubeconfigIn(u.instance.dataDir))
	return u.serve(ctx, files, log)
}

// check refuses early what would fail late.
func (u *upCommand) check() error {
	if err := u.instance.complete(); err != nil {
		return err
	}
	if err := requireRoot("gantry up"); err != nil {
		return err
	}
	if err := requireKernel("/"); err != nil {
		return err
	}
	if err := requirePort(u.instance.bindAddress, u.instance.securePort, "--secure-port"); err != nil {
		return err
	}
	if err := u.node.loadConfig(&u.instance); err != nil {
		return err
	}
	return requirePort(u.instance.bindAddress, u.instance.kubeletPort, "--kubelet-port")
}

// serve brings the parts up side by side, runs them, and takes them down in order: node, scheduler
// and controllers, API server, etcd.
func (u *upCommand) serve(ctx context.Context, files *pki.Files, log *ring.Ring) error {
	engines, engineErr := make(chan *engine, 1), make(chan error, 1)
	go func() {
		e, err := startEngine(ctx, &u.instance, log.SinkFor("kubelet", u.instance.nodeName), u.out.step)
		engines <- e
		engineErr <- err
	}()
	server, err := newAPIServer(ctx, &u.instance, files, log)
	if err != nil {
		if e := <-engines; e != nil {
			e.close()
		}
		return err
	}
	// The server outlives the parts that use it: it gets its own context.
	serverCtx, stopServer := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServer()
	served := make(chan error, 1)
	go func() { served <- server.Run(serverCtx) }()
	go maintain(serverCtx, &u.instance, server, u.out)
	select {
	case <-server.Ready():
		u.out.step("API server ready at %s", u.instance.serverURL())
	case err := <-served:
		return errors.Join(err, closeEngine(<-engines))
	case <-ctx.Done():
		stopServer()
		return errors.Join(<-served, closeEngine(<-engines))
	}
	e, err := <-engines, <-engineErr
	if err == nil {
		err = u.runComponents(ctx, runningCluster{server, files, e, log, served})
		err = errors.Join(err, u.stopAllPods(ctx, e))
	}
	u.out.step("stopping")
	stopServer()
	err = errors.Join(err, <-served)
	if u.clean {
		err = errors.Join(err, clean(context.WithoutCancel(ctx), &u.instance, u.out))
	}
	u.out.step("stopped")
	return err
}

func closeEngine(e *engine) error {
	if e != nil {
		e.close()
	}
	return nil
}

// runningCluster is what has come up: the API server with its files, the container engine, the
// journal. served tells when the server has ended.
type runningCluster struct {
	server *apiserver.Server
	files  *pki.Files
	engine *engine
	log    *ring.Ring
	served chan error
}

// runComponents runs what stands on the API server until ctx ends or one of them fails.
func (u *upCommand) runComponents(ctx context.Context, c runningCluster) error {
	server, files, log, served := c.server, c.files, c.log, c.served
	nodeClient, err := clientFor(server.InProcess(nodeUser(u.instance.nodeName)), "kubelet")
	if err != nil {
		return err
	}
	role, err := u.node.role(ctx, &u.instance, c.engine, nodeClient)
	if err != nil {
		return err
	}
	role.journal = log.SinkFor("kubelet", u.instance.nodeName)
	if role.tls, err = nodeServing(&u.instance, nodeClient, files, u.node.loaded.Config); err != nil {
		return err
	}
	x, err := role.build()
	if err != nil {
		return err
	}
	return runAll(ctx,
		func(ctx context.Context) error { return x.run(ctx) },
		func(ctx context.Context) error {

			return u.schedule(ctx, c)

		},
		func(ctx context.Context) error {

			return runControllers(ctx, controllersOptions{config: server.InProcess(controllersUser()),
				configFor: inProcessConfig(server), caFile: files.CA.Cert, signer: files.CA,
				ranges: u.instance.podNetwork.ranges(u.instance.serviceCIDR), journal: log.SinkFor("controllers", ""),
				without: u.node.proxy.balancers.without(), pods: server.ListerWatcher("", "pods")})

		},
		func(ctx context.Context) error { return u.proxy(ctx, c) },
		func(ctx context.Context) error { return u.runNetworkAgent(ctx, c, nodeClient) },
		func(ctx context.Context) error { return u.dns(ctx, c) },
		func(ctx context.Context) error { return u.reportReady(ctx, x) },
		func(ctx context.Context) error {
			select {
			case err := <-served:
				served <- nil // what serve waits for
				if err == nil {
					err = errors.New("the API server stopped")
				}
				return err
			case <-ctx.Done():
				return nil
			}
		},
	)
}

func (u *upCommand) reportReady(ctx context.Context, x *nodeComponents) error {
	select {
	case <-x.report.Ready():
		u.out.step("node ready: %s (%s)", u.instance.nodeName, u.instance.nodeIP)
		u.out.step("use it: export KUBECONFIG=%s; kubectl get pods -A", kubeconfigIn(u.instance.dataDir))
	case <-ctx.Done():
	}
	return nil
}

// stopAllPods lets Pods run on, or stops them when that was asked for.
func (u *upCommand) stopAllPods(ctx context.Context, e *engine) error {
	if !u.stopPods && !u.clean {
		e.close()
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM) // a second Ctrl-C does not wait for Pods
	defer stop()
	n, err := stopSandboxes(ctx, e.client.Runtime())
	u.out.step("%d Pods stopped", n)
	if e.child != nil {
		err = errors.Join(err, e.child.Stop(ctx))
	}
	return errors.Join(err, e.client.Close())
}

// kubeVersion is the API level.
var kubeVersion = version.MustParseGeneric("1.37.2")

// readCA reads the certificate authority that Pods get.
func readCA(path string) ([]byte, error) {
	pem, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("cluster CA: %w", err)
	}
	return pem, nil
}
