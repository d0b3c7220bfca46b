package host

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"k8s.io/apiserver/pkg/server/flagz"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/apiserver/pkg/server/routes"
	"k8s.io/apiserver/pkg/server/statusz"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	certutil "k8s.io/client-go/util/cert"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/compatibility"
	"k8s.io/component-base/logs"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/prometheus/slis"
	"k8s.io/klog/v2"
	config "k8s.io/kube-scheduler/config/v1"
)

const (
	component = "kube-scheduler" // upstream's name for itself
	upstream  = "1.37.2"         // whose paths and answers these are
)

// server is the scheduler's HTTPS server.
type server struct {
	Listen
	client  kubernetes.Interface
	config  *config.KubeSchedulerConfiguration
	metrics metrics.KubeRegistry
	lease   *leaderelection.HealthzAdaptor // nil: none is taken
	ready   func() bool
}

// start serves until ctx ends; the channel is closed when it has ended.
func (s *server) start(ctx context.Context) (<-chan struct{}, error) {
	cert, err := s.certificate()
	if err != nil {
		return nil, err
	}
	guard, err := s.guard(ctx)
	if err != nil {
		return nil, err
	}
	l, err := s.Listener, error(nil)
	if l == nil {
		l, err = net.Listen("tcp", s.Address)
	}
	if err != nil {
		return nil, fmt.Errorf("scheduler: health and metrics on %s: %w", s.Address, err)
	}
	if s.Bound != nil {
		s.Bound(l.Addr().String())
	}
	web := &http.Server{Handler: guard.wrap(s.handler(ctx.Done())), ReadHeaderTimeout: 30 * time.Second,
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}, ClientAuth: tls.RequestClientCert, NextProtos: []string{"h2", "http/1.1"}}}
	stopped := make(chan struct{})
	go func() {
		<-ctx.Done()
		_ = web.Close()
	}()
	go func() {
		defer close(stopped)
		if err := web.ServeTLS(l, "", ""); err != nil && !errors.Is(err, http.ErrServerClosed) {
			klog.FromContext(ctx).Error(err, "Serving health and metrics ended", "address", s.Address)
		}
	}()
	return stopped, nil
}

func (s *server) certificate() (tls.Certificate, error) {
	if s.CertFile != "" || s.KeyFile != "" {
		cert, err := tls.LoadX509KeyPair(s.CertFile, s.KeyFile)
		if err != nil {
			return cert, fmt.Errorf("scheduler: serving certificate %s, key %s: %w", s.CertFile, s.KeyFile, err)
		}
		return cert, nil
	}
	host, _, err := net.SplitHostPort(s.Address)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("scheduler: address %q: %w", s.Address, err)
	}
	pem, key, err := certutil.GenerateSelfSignedCertKey(host, []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}, []string{"localhost"})
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("scheduler: self-signed serving certificate: %w", err)
	}
	return tls.X509KeyPair(pem, key)
}

// handler is all paths.
func (s *server) handler(stopping <-chan struct{}) http.Handler {
	m := mux.NewPathRecorderMux(component)
	lists := healthz.NamedCheck("sched-handler-sync", func(*http.Request) error {
		if !s.ready() {
			return errors.New("waiting for handlers to sync")
		}
		return nil
	})
	var lease []healthz.HealthChecker
	if s.lease != nil {
		lease = append(lease, s.lease)
	}
	healthz.InstallHandler(m, lease...)
	healthz.InstallLivezHandler(m, healthz.PingHealthz)
	healthz.InstallReadyzHandler(m, append(lease, healthz.NewShutdownHealthz(stopping), lists)...)
	all := prometheus.Gatherers{s.metrics}
	if s.More != nil {
		all = append(all, s.More)
	}
	m.Handle("/metrics", metrics.HandlerFor(all, metrics.HandlerOpts{ErrorHandling: metrics.ContinueOnError}))
	slis.SLIMetricsWithReset{}.Install(m)
	m.HandleFunc("/configz", s.configz)
	if s.Flags != nil {
		flagz.Install(m, component, flagz.NamedFlagSetsReader{FlagSets: cliflag.NamedFlagSets{FlagSets: map[string]*pflag.FlagSet{"scheduler": s.Flags}}})
	}
	if s.config.EnableProfiling != nil && *s.config.EnableProfiling {
		routes.Profiling{}.Install(m)
		routes.DebugFlags{}.Install(m, "v", routes.StringFlagPutHandler(logs.GlogSetter))
	}
	statusz.Install(m, component, statusz.NewRegistry(compatibility.NewEffectiveVersionFromString(upstream, "", ""), statusz.WithListedPaths(m.ListedPaths())))
	return m
}

func (s *server) configz(w http.ResponseWriter, _ *http.Request) {
	raw, err := json.Marshal(map[string]any{"componentconfig": s.config})
	if err != nil {
		http.Error(w, fmt.Sprintf("the configuration cannot be written as JSON: %v", err), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(raw) // the caller went away
}
