package testcluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	schedulerconfig "k8s.io/kube-scheduler/config/v1"

	"github.com/gantry-project/gantry/internal/apiserver"
	"github.com/gantry-project/gantry/internal/apiserver/auth"
	"github.com/gantry-project/gantry/internal/apiserver/auth/token"
	"github.com/gantry-project/gantry/internal/apiserver/store"
	"github.com/gantry-project/gantry/internal/app/storecontrollers"
	"github.com/gantry-project/gantry/internal/control"
	"github.com/gantry-project/gantry/internal/control/controllerruntime"
	"github.com/gantry-project/gantry/internal/cri/crifake"
	"github.com/gantry-project/gantry/internal/features"
	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/journal/ring"
	"github.com/gantry-project/gantry/internal/pki"
	"github.com/gantry-project/gantry/internal/scheduler"
)

// Script is what a container does: shell text or Go. Match selects containers. Process is the
// environment of a Go script.
type (
	Script  = crifake.Script
	Match   = crifake.Match
	Process = crifake.Process
)

// Cluster is a running cluster. Its methods are safe for concurrent use.
type Cluster struct {
	// Config connects to the API server as an administrator, in memory.
	Config *rest.Config
	// Client is a clientset over Config.
	Client kubernetes.Interface

	t          testing.TB
	o          options
	dir        string
	files      *pki.Files
	log        *ring.Ring
	connection apiConnection

	stopServer, stopControllers func()

	mu    sync.Mutex
	nodes map[string]*node
	rules []rule
}

type rule struct {
	match  Match
	script Script
}

type options struct {
	plugins        bool
	nodes          []string
	scheduler      *schedulerconfig.KubeSchedulerConfiguration
	nodeQuarantine time.Duration
	monitorGrace   time.Duration
	autoscaling    *controllerruntime.HorizontalPodAutoscaling
	features       features.Features
}

// Option configures Start.
type Option func(*options)

// WithNodes names the nodes; the default is one, node-1. No name makes a cluster without nodes.
func WithNodes(names ...string) Option { return func(o *options) { o.nodes = names } }

// WithPlugins lets device plugins and drivers register with the nodes' kubelets over real sockets,
// in KubeletDir.
func WithPlugins() Option { return func(o *options) { o.plugins = true } }

// WithScheduler replaces the scheduler's default configuration.
func WithScheduler(c *schedulerconfig.KubeSchedulerConfiguration) Option {
	return func(o *options) { o.scheduler = c }
}

// WithNodeQuarantine sets how long a node must have been missing before its Pods are deleted;
// default: upstream's 40 s.
func WithNodeQuarantine(d time.Duration) Option { return func(o *options) { o.nodeQuarantine = d } }

// WithNodeMonitorGracePeriod sets how long a node may not report before it is unreachable; default:
// upstream's 50 s. The cluster's own kubelets report every ten seconds.
func WithNodeMonitorGracePeriod(d time.Duration) Option {
	return func(o *options) { o.monitorGrace = d }
}

// WithHorizontalPodAutoscaling configures the controller of HorizontalPodAutoscalers; default:
// upstream's.
func WithHorizontalPodAutoscaling(h controllerruntime.HorizontalPodAutoscaling) Option {
	return func(o *options) { o.autoscaling = &h }
}

// WithFeatures switches gates on in the API server, the scheduler and the controllers.
func WithFeatures(f features.Features) Option { return func(o *options) { o.features = f } }

// Start starts a cluster and waits until its nodes are Ready. It fails the test if that does not
// succeed; the cluster stops at the end of the test.
func Start(t testing.TB, opts ...Option) *Cluster {
	t.Helper()
	raiseGCPercent()
	c := &Cluster{t: t, o: options{nodes: []string{"node-1"}}, nodes: map[string]*node{}}
	for _, set := range opts {
		set(&c.o)
	}
	if err := c.start(); err != nil {
		t.Fatalf("testcluster: %v", err)
	}
	return c
}

// raiseGCPercent lets more garbage gather in the process of a test than Go does by itself, once:
// clusters make much and keep little, and collecting is a sixth of what a test with one computes.
var raiseGCPercent = sync.OnceFunc(func() { debug.SetGCPercent(400) })

// startTimeout bounds the start of a component on a busy machine; it takes a second on an idle one.
const startTimeout = 2 * time.Minute

func (c *Cluster) start() error {
	dir, err := os.MkdirTemp("", "testcluster") // short: unix sockets are created in it
	if err != nil {
		return err
	}
	c.t.Cleanup(func() { _ = os.RemoveAll(dir) })
	c.dir = dir
	if c.log, err = ring.Open(ring.Options{}); err != nil {
		return err
	}
	c.t.Cleanup(func() { _ = c.log.Close() })
	if c.files, err = pki.Ensure(filepath.Join(dir, "pki"),
		pki.Options{NodeName: "node-1", ServiceIP: "10.96.0.1"}); err != nil {
		return err
	}
	c.t.Cleanup(func() {
		c.connection.disconnect()
		// also a server that was not ready in time: its etcd must stop before its files are removed
		if c.stopServer != nil {
			c.stopServer()
		}
	})
	if err := c.startServer(); err != nil {
		return err
	}
	c.Config = c.connection.config(context.Background(),
		&user.DefaultInfo{Name: "kubernetes-admin",
			Groups: []string{user.SystemPrivilegedGroup, user.AllAuthenticated}})
	c.Config.UserAgent = "testcluster"
	if c.Client, err = kubernetes.NewForConfig(c.Config); err != nil {
		return err
	}
	if err := c.startParts(); err != nil {
		return err
	}
	for i, name := range c.o.nodes {
		if err := c.addNode(name, i); err != nil {
			return fmt.Errorf("node %s: %w", name, err)
		}
	}
	return c.waitNodes()
}

// background runs f until the end of the test, and waits for it; the last started ends first.
func (c *Cluster) background(what string, f func(ctx context.Context) error) (stop func()) {
	stop = c.runBackground(what, f)
	c.t.Cleanup(stop)
	return stop
}

// runBackground runs f until stop is called, which waits for its end.
func (c *Cluster) runBackground(what string, f func(ctx context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := f(ctx); err != nil && !errors.Is(err, context.Canceled) && ctx.Err() == nil {
			c.t.Errorf("testcluster: %s ended: %v", what, err)
		}
	}()
	var once sync.Once
	return func() { once.Do(func() { cancel(); <-done }) }
}

func (c *Cluster) startServer() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server, err := apiserver.New(context.Background(), apiserver.Config{
		DataDir: c.dir, Etcd: store.Options{NoFsync: true, Tick: 10 * time.Millisecond},
		Listen:   apiserver.Listen{Listener: listener, Advertise: netip.MustParseAddr("192.0.2.1")},
		Services: apiserver.ServiceRanges{CIDRs: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")}},
		Files: apiserver.Files{
			Cert: c.files.APIServer.Cert, Key: c.files.APIServer.Key, ClientCA: c.files.CA.Cert,
			RequestHeaderCA: c.files.FrontProxyCA.Cert,
			ProxyCert:       c.files.FrontProxyClient.Cert, ProxyKey: c.files.FrontProxyClient.Key,
			ServiceAccountSigning: c.files.ServiceAccount.Key,
		},
		Journal: apiserver.Journal{Sink: c.log.SinkFor("apiserver", ""), Reader: c.log, Appender: c.log},
		Access:  auth.Access(auth.Options{ProtectStorage: true}), Omit: apiserver.Omit{OpenAPIv2Off: true},
		Controllers: storecontrollers.All(), Features: c.o.features,
	})
	if err != nil {
		return err
	}
	c.stopServer = c.runBackground("API server", server.Run)
	select {
	case <-server.Ready():
		c.connection.connect(server)
		return nil
	case <-time.After(startTimeout):
		return fmt.Errorf("the API server was not ready within %s", startTimeout)
	}
}

// configFor returns the client configuration of one of the cluster's own users.
func (c *Cluster) configFor(name string, groups ...string) *rest.Config {
	return c.connection.config(context.Background(),
		&user.DefaultInfo{Name: name, Groups: append(groups, user.AllAuthenticated)})
}

func (c *Cluster) startParts() error {
	schedulerClient, err := kubernetes.NewForConfig(c.configFor(user.KubeScheduler))
	if err != nil {
		return err
	}
	s, err := scheduler.New(scheduler.Options{Client: schedulerClient, Config: c.o.scheduler,
		Journal: c.log.SinkFor("scheduler", ""), Features: c.o.features})
	if err != nil {
		return err
	}
	c.background("scheduler", s.Run)
	c.t.Cleanup(func() { c.KillControllers() })
	return c.startControllers()
}

func (c *Cluster) startControllers() error {
	as := c.configFor
	ca, err := os.ReadFile(c.files.CA.Cert)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(as(user.KubeControllerManager))
	if err != nil {
		return err
	}
	key, err := token.ReadPrivate(c.files.ServiceAccount.Key)
	if err != nil {
		return err
	}
	tokens, err := token.NewLegacyIssuer(key)
	if err != nil {
		return err
	}
	c.stopControllers = c.runBackground("controllers", func(ctx context.Context) error {
		return control.Run(ctx, control.Options{
			Deps: controllerruntime.ControllerContext{Client: client,
				Informers: informers.NewSharedInformerFactory(client, 0), Journal: c.log.SinkFor("controllers", ""),
				RootCA: ca, NodeQuarantine: c.o.nodeQuarantine, NodeMonitorGracePeriod: c.o.monitorGrace,
				HorizontalPodAutoscaling: c.o.autoscaling, ServiceAccountToken: tokens.IssueLegacy,
				PodGroups: c.o.features.GenericWorkload,
				Volumes: controllerruntime.Volumes{
					NoUnusedClaims: c.o.features.NoPersistentVolumeClaimUnusedSinceTime}},
			As: func(account string) (kubernetes.Interface, metadata.Interface, error) {
				cfg := as(serviceaccount.MakeUsername("kube-system", account),
					serviceaccount.MakeGroupNames("kube-system")...)
				own, err := kubernetes.NewForConfig(cfg)
				if err != nil {
					return nil, nil, err
				}
				meta, err := metadata.NewForConfig(cfg)
				return own, meta, err
			},
		})
	})
	return nil
}

// On gives all matching containers this script, from their next start on, on all nodes. Later
// scripts have precedence. A container without one runs its command, as far as the fake's shell
// supports it, or runs until it is stopped.
func (c *Cluster) On(m Match, s Script) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rules = append(c.rules, rule{m, s})
	for _, n := range c.nodes {
		n.runtime.On(m, s)
	}
}

// Journal returns the facts about a Pod, oldest first.
func (c *Cluster) Journal(namespace, name string) []journal.Entry {
	return c.log.Read(journal.Query{Namespace: namespace, Name: name})
}
