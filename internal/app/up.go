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

	"github.com/gantry-project/gantry/internal/apiserver"
	"github.com/gantry-project/gantry/internal/app/networkagent"
	"github.com/gantry-project/gantry/internal/app/noderole"
	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/gcpacer"
	"github.com/gantry-project/gantry/internal/journal/ring"
	"github.com/gantry-project/gantry/internal/options"
	"github.com/gantry-project/gantry/internal/pki"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Up is everything on this machine.
type Up struct {
	Instance options.Instance
	Log      cli.Logging
	Node     nodeFlags
	HPA      options.HorizontalPodAutoscaling
	Nodes    options.NodeLifecycle
	Volumes  options.Volumes
	Tokens   options.ServiceAccountTokens
	Page     Dashboard
	StopPods bool
	Clean    bool
	Out      *cli.Progress
}

// Run is `gantry up`: API server, scheduler, controllers and a node in this process, until ctx ends
// or a part fails. It holds the lock of the data directory meanwhile. Pods go on running when it
// returns, but with StopPods.
func (u *Up) Run(ctx context.Context) error {
	if err := u.check(); err != nil {
		return err
	}
	lock, err := options.LockDataDir(u.Instance.DataDir)
	if err != nil {
		return err
	}
	defer lock.Release()
	closeLog, err := u.Log.Open(u.Instance.DataDir)
	if err != nil {
		return err
	}
	defer closeLog()
	gcpacer.Run(ctx)
	log, err := ring.Open(ring.Options{Dir: filepath.Join(u.Instance.DataDir, "journal")})
	if err != nil {
		return cli.WithFix(err, "make it writable, or remove it: it only explains the past")
	}
	defer log.Close()
	files, err := u.Instance.EnsureCertificates()
	if err != nil {
		return err
	}
	if err := u.Instance.WriteKubeconfigs(files); err != nil {
		return err
	}
	u.Out.Step("certificates and kubeconfig %s", cli.KubeconfigIn(u.Instance.DataDir))
	return u.serve(ctx, files, log)
}

// check refuses early what would fail late.
func (u *Up) check() error {
	if err := errors.Join(u.Instance.Complete(), u.HPA.Check(), u.Nodes.Check(), u.Tokens.Check(),
		u.Page.Check()); err != nil {
		return err
	}
	if err := cli.RequireRoot("gantry up"); err != nil {
		return err
	}
	if err := cli.RequireKernel("/"); err != nil {
		return err
	}
	if err := cli.RequirePort(u.Instance.BindAddress, u.Instance.SecurePort, "--secure-port"); err != nil {
		return err
	}
	if err := u.Node.loadConfig(&u.Instance); err != nil {
		return err
	}
	return cli.RequirePort(u.Instance.BindAddress, u.Instance.KubeletPort, "--kubelet-port")
}

// serve brings the parts up side by side, runs them, and takes them down in order: node, scheduler
// and controllers, API server, etcd.
func (u *Up) serve(ctx context.Context, files *pki.Files, log *ring.Ring) error {
	engines, engineErr := make(chan *noderole.ContainerRuntime, 1), make(chan error, 1)
	go func() {
		e, err := noderole.StartContainerRuntime(ctx, &u.Instance, log.SinkFor("kubelet", u.Instance.NodeName),
			u.Out.Step)
		engines <- e
		engineErr <- err
	}()
	server, err := newAPIServer(ctx, &u.Instance, files, log)
	if err != nil {
		if e := <-engines; e != nil {
			e.Close()
		}
		return err
	}
	// The server outlives the parts that use it: it gets its own context.
	serverCtx, stopServer := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServer()
	served := make(chan error, 1)
	go func() { served <- server.Run(serverCtx) }()
	go maintain(serverCtx, &u.Instance, server, u.Out)
	select {
	case <-server.Ready():
		u.Out.Step("API server ready at %s", u.Instance.ServerURL())
	case err := <-served:
		return errors.Join(err, closeContainerRuntime(<-engines))
	case <-ctx.Done():
		stopServer()
		return errors.Join(<-served, closeContainerRuntime(<-engines))
	}
	e, err := <-engines, <-engineErr
	if err == nil {
		err = u.runComponents(ctx, runningCluster{server, files, e, log, served})
		err = errors.Join(err, u.stopAllPods(ctx, e))
	}
	u.Out.Step("stopping")
	stopServer()
	err = errors.Join(err, <-served)
	if u.Clean {
		err = errors.Join(err, Clean(context.WithoutCancel(ctx), &u.Instance, u.Out))
	}
	u.Out.Step("stopped")
	return err
}

func closeContainerRuntime(e *noderole.ContainerRuntime) error {
	if e != nil {
		e.Close()
	}
	return nil
}

// runningCluster is what has come up: the API server with its files, the container engine, the
// journal. served tells when the server has ended.
type runningCluster struct {
	server           *apiserver.Server
	files            *pki.Files
	containerRuntime *noderole.ContainerRuntime
	log              *ring.Ring
	served           chan error
}

// runComponents runs what stands on the API server until ctx ends or one of them fails.
func (u *Up) runComponents(ctx context.Context, c runningCluster) error {
	server, files, log, served := c.server, c.files, c.log, c.served
	nodeClient, err := noderole.ClientFor(server.InProcess(nodeUser(u.Instance.NodeName)), "kubelet")
	if err != nil {
		return err
	}
	if u.Instance.APIServer.Gates.CSIVolumeHealth {
		u.Node.Loaded.SwitchOn("CSIVolumeHealth")
	}
	role, err := u.Node.Role(ctx, &u.Instance, c.containerRuntime, nodeClient)
	if err != nil {
		return err
	}
	role.Journal = log.SinkFor("kubelet", u.Instance.NodeName)
	if role.TLS, err = noderole.NodeServing(&u.Instance, nodeClient, files, u.Node.Loaded.Config); err != nil {
		return err
	}
	x, err := role.Build()
	if err != nil {
		return err
	}
	return noderole.RunAll(ctx,
		func(ctx context.Context) error { return x.Run(ctx) },
		func(ctx context.Context) error {

			return u.schedule(ctx, c)

		},
		func(ctx context.Context) error {

			return RunControllers(ctx, ControllersOptions{Config: server.InProcess(controllersUser()),
				ConfigFor: inProcessConfig(server), CAFile: files.CA.Cert, Signer: files.CA,
				Ranges: u.Instance.PodNetwork.Ranges(u.Instance.ServiceCIDR), Journal: log.SinkFor("controllers", ""),
				Without: u.Node.proxy.balancers.Without(), pods: server.ListerWatcher("", "pods"),
				HorizontalPodAutoscaling: &u.HPA.HorizontalPodAutoscaling, TokenKeyFile: files.ServiceAccount.Key,
				TokenCleanUpPeriod:     u.Tokens.CleanUpPeriod,
				NodeMonitorGracePeriod: u.Nodes.MonitorGracePeriod,
				PodGroups:              u.Instance.APIServer.Gates.GenericWorkload,
				Volumes:                u.Volumes.Config(u.Instance.APIServer.Gates.Features)})

		},
		func(ctx context.Context) error { return u.proxy(ctx, c) },
		func(ctx context.Context) error { return u.runNetworkAgent(ctx, c, nodeClient) },
		func(ctx context.Context) error { return u.dns(ctx, c) },
		func(ctx context.Context) error { return u.runLocalStorage(ctx, c) },
		func(ctx context.Context) error { return u.serveDashboard(ctx, c) },
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

func (u *Up) reportReady(ctx context.Context, x *noderole.Node) error {
	select {
	case <-x.Report.Ready():
		u.Out.Step("node ready: %s (%s)", u.Instance.NodeName, u.Instance.NodeIP)
		u.Out.Step("use it: export KUBECONFIG=%s; kubectl get pods -A", cli.KubeconfigIn(u.Instance.DataDir))
	case <-ctx.Done():
	}
	return nil
}

// stopAllPods lets Pods run on, or stops them when that was asked for.
func (u *Up) stopAllPods(ctx context.Context, e *noderole.ContainerRuntime) error {
	if !u.StopPods && !u.Clean {
		e.Close()
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM) // a second Ctrl-C does not wait for Pods
	defer stop()
	n, err := noderole.StopSandboxes(ctx, e.Client.Runtime())
	u.Out.Step("%d Pods stopped", n)
	if e.Child != nil {
		err = errors.Join(err, e.Child.Stop(ctx))
	}
	return errors.Join(err, e.Client.Close())
}

// readCA reads the certificate authority that Pods get.
func readCA(path string) ([]byte, error) {
	pem, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("cluster CA: %w", err)
	}
	return pem, nil
}

func (u *Up) runNetworkAgent(ctx context.Context, c runningCluster, node kubernetes.Interface) error {
	wide := c.server.InProcess(controllersUser())
	return networkagent.Agent{Instance: &u.Instance, ContainerRuntime: c.containerRuntime, Client: node,
		ClusterConfig: func() (*rest.Config, error) { return wide, nil },
		Journal:       c.log.SinkFor("kubelet", u.Instance.NodeName), Logf: u.Out.Step}.Run(ctx)
}
