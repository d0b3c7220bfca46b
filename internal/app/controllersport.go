package app

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"syscall"

	"github.com/spf13/pflag"
	"k8s.io/apiserver/pkg/server/flagz"
	checks "k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/apiserver/pkg/server/routes"
	"k8s.io/apiserver/pkg/server/statusz"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/compatibility"
	"k8s.io/component-base/logs"
	"k8s.io/component-base/metrics/legacyregistry"
	_ "k8s.io/component-base/metrics/prometheus/clientgo/leaderelection"
	_ "k8s.io/component-base/metrics/prometheus/restclient"
	"k8s.io/component-base/metrics/prometheus/slis"
	_ "k8s.io/component-base/metrics/prometheus/version"
	_ "k8s.io/component-base/metrics/prometheus/workqueue"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/secureserving"
)

// ControllersPort is where `gantry controllers` serves health and metrics, as
// kube-controller-manager does.
type ControllersPort struct {
	address, cert, key string
	port               int
	set                *pflag.FlagSet
	bound              func(address string)           // told where it listens; may be nil
	Lease              *leaderelection.HealthzAdaptor // nil: none is taken
}

const controllersSecurePort = 10257

func (p *ControllersPort) Flags(f *pflag.FlagSet) {
	p.set = f
	f.StringVar(&p.address, "bind-address", "0.0.0.0", "address for health and metrics")
	f.IntVar(&p.port, "secure-port", controllersSecurePort, "port for health and metrics over HTTPS; 0 serves none")
	f.StringVar(&p.cert, "tls-cert-file", "", "serving certificate (default: signed by itself)")
	f.StringVar(&p.key, "tls-private-key-file", "", "its key")
}

// Serve answers until ctx ends; stopped is closed when it has ended. One that waits for the lease
// is served, too. A default port that another cluster on this machine has is no reason not to
// start.
func (p *ControllersPort) Serve(ctx context.Context, cfg *rest.Config) (stopped <-chan struct{}, err error) {
	if p.port == 0 {
		done := make(chan struct{})
		close(done)
		return done, nil
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	stopped, err = secureserving.Serve(ctx, secureserving.Options{
		Name: "controllers", Address: net.JoinHostPort(p.address, strconv.Itoa(max(p.port, 0))), CertFile: p.cert,
		KeyFile: p.key,
		Client:  client, Open: []string{"/healthz", "/readyz", "/livez"}, Bound: p.bound,
	}, p.handler())
	if !errors.Is(err, syscall.EADDRINUSE) {
		return stopped, err
	}
	const fix = "choose another port with --secure-port, or 0 for none"
	if p.set.Changed("secure-port") {
		return nil, cli.WithFix(err, fix)
	}
	klog.FromContext(ctx).Info("The controllers' health and metrics are not served: the port is taken", "err", err,
		"fix", fix)
	done := make(chan struct{})
	close(done)
	return done, nil
}

// handler is all paths of kube-controller-manager but /configz.
func (p *ControllersPort) handler() http.Handler {
	const component = "kube-controller-manager"
	m := mux.NewPathRecorderMux(component)
	var lease []checks.HealthChecker
	if p.Lease != nil {
		lease = append(lease, p.Lease)
	}
	checks.InstallHandler(m, lease...)
	m.Handle("/metrics", legacyregistry.Handler())
	slis.SLIMetricsWithReset{}.Install(m)
	routes.Profiling{}.Install(m)
	routes.DebugFlags{}.Install(m, "v", routes.StringFlagPutHandler(logs.GlogSetter))
	all := map[string]*pflag.FlagSet{"controllers": p.set}
	flagz.Install(m, component, flagz.NamedFlagSetsReader{FlagSets: cliflag.NamedFlagSets{FlagSets: all}})
	version := compatibility.NewEffectiveVersionFromString(cli.KubeVersion.String(), "", "")
	statusz.Install(m, component, statusz.NewRegistry(version, statusz.WithListedPaths(m.ListedPaths())))
	return m
}
