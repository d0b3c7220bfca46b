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

// metricPrefixes begin the names of what the metrics show: CoreDNS's, and the process's. The
// library's registry is the process's, in which etcd and others may count too.
var metricPrefixes = []string{"coredns_", "go_", "process_"}

// metricsPage serves /metrics alone.
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

// pages are /health (the process lives), /ready (the cluster's names are known) and CoreDNS's
// metrics.
func (s *Server) pages() http.Handler {
	mux := http.NewServeMux()
	say := func(ok func() bool) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if !ok() {
				http.Error(w, "kubernetes", http.StatusServiceUnavailable) // CoreDNS names the plugin that is not ready
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

// listenMetrics opens the port of the Service's metrics at an address, or, where another server has
// that, any port: the slice says which. Nil when there is none; names are answered all the same.
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

// metricsPort is where the metrics are at the server's address; 0: nowhere.
func (s *Server) metricsPort() uint16 {
	if s.metrics == nil {
		return 0
	}
	if at, ok := s.metrics.Addr().(*net.TCPAddr); ok {
		return uint16(at.Port)
	}
	return 0
}

// servePages serves pages on a listener until ctx ends; a nil one serves nothing.
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
		_ = <-ended // that it was closed
		return nil
	case err := <-ended:
		if errors.Is(err, http.ErrServerClosed) {
			return nil
		}
		return fmt.Errorf("dns: health and metrics: %w", err)
	}
}
