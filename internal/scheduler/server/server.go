package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"k8s.io/apiserver/pkg/server/flagz"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/apiserver/pkg/server/routes"
	"k8s.io/apiserver/pkg/server/statusz"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/compatibility"
	"k8s.io/component-base/logs"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/prometheus/slis"
	config "k8s.io/kube-scheduler/config/v1"

	"github.com/gantry-project/gantry/internal/secureserving"
)

const (
	componentName = "kube-scheduler" // upstream's name for itself
	kubeScheduler = "1.37.2"         // the version whose paths and answers it has
)

// server is the scheduler's HTTPS server.
type server struct {
	ServingOptions
	client      kubernetes.Interface
	config      *config.KubeSchedulerConfiguration
	metrics     metrics.KubeRegistry
	leaseHealth *leaderelection.HealthzAdaptor // nil: no lease is taken
	ready       func() bool
}

// alwaysAllowPaths need no authorization.
var alwaysAllowPaths = []string{"/healthz", "/livez", "/readyz"}

// start serves until ctx ends; the channel is closed when it has ended.
func (s *server) start(ctx context.Context) (<-chan struct{}, error) {
	return secureserving.Serve(ctx, secureserving.Options{
		Name: "scheduler", Address: s.Address, Listener: s.Listener, CertFile: s.CertFile, KeyFile: s.KeyFile,
		ClientCA: s.ClientCA, Client: s.client, Open: alwaysAllowPaths, Bound: s.Bound,
	}, s.handler(ctx.Done()))
}

// handler serves all paths. stopping is closed when the server ends.
func (s *server) handler(stopping <-chan struct{}) http.Handler {
	m := mux.NewPathRecorderMux(componentName)
	lists := healthz.NamedCheck("sched-handler-sync", func(*http.Request) error {
		if !s.ready() {
			return errors.New("waiting for handlers to sync")
		}
		return nil
	})
	var lease []healthz.HealthChecker
	if s.leaseHealth != nil {
		lease = append(lease, s.leaseHealth)
	}
	healthz.InstallHandler(m, lease...)
	healthz.InstallLivezHandler(m, healthz.PingHealthz)
	healthz.InstallReadyzHandler(m, append(lease, healthz.NewShutdownHealthz(stopping), lists)...)
	all := prometheus.Gatherers{s.metrics}
	if s.ExtraMetrics != nil {
		all = append(all, s.ExtraMetrics)
	}
	m.Handle("/metrics", metrics.HandlerFor(all, metrics.HandlerOpts{ErrorHandling: metrics.ContinueOnError}))
	slis.SLIMetricsWithReset{}.Install(m)
	m.HandleFunc("/configz", s.configz)
	if s.Flags != nil {
		flagz.Install(m, componentName,
			flagz.NamedFlagSetsReader{
				FlagSets: cliflag.NamedFlagSets{FlagSets: map[string]*pflag.FlagSet{"scheduler": s.Flags}}})
	}
	if s.config.EnableProfiling != nil && *s.config.EnableProfiling {
		routes.Profiling{}.Install(m)
		routes.DebugFlags{}.Install(m, "v", routes.StringFlagPutHandler(logs.GlogSetter))
	}
	statusz.Install(m, componentName,
		statusz.NewRegistry(compatibility.NewEffectiveVersionFromString(kubeScheduler, "", ""),
			statusz.WithListedPaths(m.ListedPaths())))
	return m
}

func (s *server) configz(w http.ResponseWriter, _ *http.Request) {
	raw, err := json.Marshal(map[string]any{"componentconfig": s.config})
	if err != nil {
		http.Error(w, fmt.Sprintf("the configuration cannot be written as JSON: %v", err),
			http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(raw) // the caller went away
}
