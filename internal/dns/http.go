package dns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/dns/plan"
)

// metricPrefixes select the metrics to serve: CoreDNS's and the process's. The library's registry
// is global, and etcd and others may use it too.
var metricPrefixes = []string{"coredns_", "go_", "process_"}

// metricsPage serves /metrics only.
func metricsPage() http.Handler {
	chosen := prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		all, err := prometheus.DefaultGatherer.Gather()
		return slices.DeleteFunc(all, func(f *dto.MetricFamily) bool {
			return !slices.ContainsFunc(metricPrefixes,
				func(p string) bool { return strings.HasPrefix(f.GetName(), p) })
		}), err
	})
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(chosen, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}))
	return mux
}

// pages serves /health (the process lives), /ready (the cluster's names are loaded) and /metrics.
func (s *Server) pages() http.Handler {
	mux := http.NewServeMux()
	say := func(ok func() bool) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if !ok() {
				// as CoreDNS: the name of the plugin that is not ready
				http.Error(w, "kubernetes", http.StatusServiceUnavailable)
				return
			}
			_, _ = fmt.Fprint(w, "OK")
		}
	}
	mux.Handle("/health", say(func() bool { return true }))
	mux.Handle("/ready", say(s.names.Ready))
	mux.Handle("/metrics", metricsPage())
	return mux
}

// listenMetrics opens the Service's metrics port at an address, or any port if that one is taken;
// the EndpointSlice has the actual one. It returns nil if that fails, which does not keep the
// server from answering.
func listenMetrics(ctx context.Context, at netip.Addr) net.Listener {
	var errs []error
	for _, port := range []uint16{plan.MetricsPort, 0} {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", netip.AddrPortFrom(at, port).String())
		if err == nil {
			return l
		}
		errs = append(errs, err)
	}
	klog.FromContext(ctx).Error(errors.Join(errs...), "The DNS server's metrics are not served to the cluster",
		"service", "kube-system/"+plan.ServiceName)
	return nil
}

// metricsPort returns the port of the metrics at the server's address; 0: none.
func (s *Server) metricsPort() uint16 {
	if s.metrics == nil {
		return 0
	}
	if at, ok := s.metrics.Addr().(*net.TCPAddr); ok {
		return uint16(at.Port)
	}
	return 0
}

// servePages serves pages on l until ctx ends; if l is nil it returns at once.
func servePages(ctx context.Context, l net.Listener, pages http.Handler) error {
	if l == nil {
		<-ctx.Done()
		return nil
	}
	server := &http.Server{Handler: pages, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	select {
	case <-ctx.Done():
		_ = server.Close()
		_ = <-ended // http.ErrServerClosed
		return nil
	case err := <-ended:
		if errors.Is(err, http.ErrServerClosed) {
			return nil
		}
		return fmt.Errorf("dns: health and metrics: %w", err)
	}
}
