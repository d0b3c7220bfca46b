package server

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clientelection "k8s.io/client-go/tools/leaderelection"
	"k8s.io/component-base/metrics"
	_ "k8s.io/component-base/metrics/prometheus/clientgo/leaderelection" // they serve what client-go counts
	_ "k8s.io/component-base/metrics/prometheus/restclient"
	_ "k8s.io/component-base/metrics/prometheus/version"
	config "k8s.io/kube-scheduler/config/v1"

	"github.com/gantry-project/gantry/internal/features"
	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/leaderelection"
	electionconfig "github.com/gantry-project/gantry/internal/leaderelection/config"
	"github.com/gantry-project/gantry/internal/scheduler"
	"github.com/gantry-project/gantry/internal/scheduler/apiwriter"
	"github.com/gantry-project/gantry/internal/scheduler/plugins"
	"github.com/gantry-project/gantry/internal/scheduler/podinformer"
	"github.com/gantry-project/gantry/internal/scheduler/replay"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Options are what a scheduler process is made from.
type Options struct {
	KubeConfig *rest.Config                       // of the API server
	Config     *config.KubeSchedulerConfiguration // completed (config.Load, config.Default)
	// no lease is taken: no other scheduler runs for this API server
	NoLeaderElection bool
	Informers        informers.SharedInformerFactory // nil: its own
	Journal          journal.Sink                    // nil: none
	Plugins          map[string]plugins.Factory      // out-of-tree plugins by name
	Serving          *ServingOptions                 // nil: no server

	Features    features.Features      // GenericWorkload schedules Pods of a PodGroup together
	ShadowCheck bool                   // schedule twice and report any difference
	Record      func(*replay.Decision) // called with every decision and all it was made from; nil: not recorded
}

// Run serves, waits for the lease and schedules until ctx ends (nil) or the lease is lost (an
// error).
func Run(ctx context.Context, o Options) error {
	own := withClientLimits(o.KubeConfig, o.Config)
	client, err := o.createClient(own)
	if err != nil {
		return fmt.Errorf("scheduler: client: %w", err)
	}
	registry := metrics.NewKubeRegistry()
	s, err := scheduler.New(scheduler.Options{
		Client: client, Writer: apiwriter.New(own), KubeConfig: o.KubeConfig, Config: o.Config, Informers: o.Informers,
		Journal: o.Journal, Plugins: o.Plugins, Metrics: registry, ShadowCheck: o.ShadowCheck, Record: o.Record,
		Features: o.Features,
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var lease *clientelection.HealthzAdaptor
	var began atomic.Bool
	elects := !o.NoLeaderElection && *o.Config.LeaderElection.LeaderElect
	if elects {
		lease = clientelection.NewLeaderHealthzAdaptor(leaderelection.HealthTimeout)
	}
	if o.Serving != nil {
		// a scheduler that waits for the lease is ready to take over
		ready := func() bool { return s.Ready() || elects && !began.Load() }
		server := &server{ServingOptions: *o.Serving, client: client, config: o.Config, metrics: registry,
			leaseHealth: lease, ready: ready}
		stopped, err := server.start(ctx)
		if err != nil {
			return err
		}
		defer func() { cancel(); <-stopped }()
	}
	if !elects {
		return s.Run(ctx)
	}
	return leaderelection.Run(ctx, leaderelection.Options{
		KubeConfig: o.KubeConfig, Config: electionconfig.FromV1alpha1(o.Config.LeaderElection),
		Name: "kube-scheduler", Health: lease,
	}, func(ctx context.Context) error {
		began.Store(true)
		return s.Run(ctx)
	})
}

// createClient makes the client and, unless o has some, the informers.
func (o *Options) createClient(own *rest.Config) (kubernetes.Interface, error) {
	cfg := own
	if own.Dial == nil && own.Transport == nil {
		cfg = rest.CopyConfig(own)
		// with client-go's times
		cfg.Dial = apiwriter.BatchReads(
			(&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext)
	}
	over, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfigAndClient(cfg, over)
	if err != nil || o.Informers != nil {
		return client, err
	}
	o.Informers = informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(trimManagedFields))
	if o.needsFullPods() {
		return client, nil
	}
	if cfg != own {
		cfg = rest.CopyConfig(cfg)
		cfg.NextProtos = []string{"http/1.1"}
		// With these the kernel finds within 45 s that the API server is gone, as client-go's pings
		// do over HTTP/2; with client-go's 30 s between probes it would take minutes.
		alive := net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 10 * time.Second, Count: 3}
		cfg.Dial = apiwriter.BatchReads((&net.Dialer{Timeout: 30 * time.Second, KeepAliveConfig: alive}).DialContext)
		if over, err = rest.HTTPClientFor(cfg); err != nil {
			return nil, err
		}
	}
	o.Informers, err = podinformer.NewFactory(o.Informers, cfg, over)
	return client, err
}

// needsFullPods tells whether fields of Pods may be read that built-in plugins do not read.
func (o *Options) needsFullPods() bool {
	return len(o.Plugins) > 0 || len(o.Config.Extenders) > 0 || o.Record != nil || o.Features.GenericWorkload
}

// withClientLimits is the client configuration with QPS and burst of the file; without them there
// is no limit.
func withClientLimits(c *rest.Config, cfg *config.KubeSchedulerConfiguration) *rest.Config {
	c = rest.CopyConfig(c)
	if c.UserAgent == "" || c.UserAgent == "gantry" {
		c.UserAgent = "gantry-scheduler"
	}
	if c.QPS, c.Burst = cfg.ClientConnection.QPS, int(cfg.ClientConnection.Burst); c.QPS == 0 {
		c.QPS = -1
	}
	// the watch of Pods is most of the traffic; compressing it costs more than its bytes
	c.DisableCompression = true
	if c.ContentType == "" {
		c.ContentType, c.AcceptContentTypes = cfg.ClientConnection.ContentType, cfg.ClientConnection.AcceptContentTypes
	}
	return c
}

// ServingOptions are where the server listens and what it serves.
type ServingOptions struct {
	Address  string       // host:port
	Listener net.Listener // open at Address; nil: opened at the start
	CertFile string       // serving certificate and key; empty: self-signed, new at every start
	KeyFile  string
	Flags    *pflag.FlagSet // shown at /flagz; nil: there is no such page
	// PEM of the CA of client certificates; nil: as the API server publishes it in kube-system
	ClientCA     []byte
	ExtraMetrics metrics.Gatherer     // metrics of the whole process; nil: none
	Bound        func(address string) // called with where it listens; may be nil
}

// trimManagedFields drops managed fields: no plugin reads them, and they are often more than the
// rest of an object.
func trimManagedFields(obj any) (any, error) {
	if o, ok := obj.(metav1.Object); ok {
		o.SetManagedFields(nil)
	}
	return obj, nil
}
