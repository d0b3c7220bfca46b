package proxy

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	healthchecks "k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/component-base/metrics/prometheus/slis"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/proxy/rules"
)

// proxyMetrics holds the metrics, under upstream's names where upstream has them.
type proxyMetrics struct {
	registry                                *prometheus.Registry
	sync, fullSync, partialSync             *prometheus.HistogramVec
	conntrack                               *prometheus.HistogramVec
	programming                             *prometheus.HistogramVec
	sliceToRules                            prometheus.Histogram
	lastTimestamp, queued, noLocalEndpoints *prometheus.GaugeVec
	counterMetrics
}

// counterMetrics are the counters.
type counterMetrics struct {
	endpointChanges, serviceChanges        prometheus.Counter
	failures, staleConntrack, transactions *prometheus.CounterVec
	healthz, livez                         *prometheus.CounterVec
}

// ipFamily is the label of metrics per table.
const ipFamily = "ip_family"

func newMetrics() *proxyMetrics {
	m := &proxyMetrics{registry: prometheus.NewRegistry()}
	durations := prometheus.ExponentialBuckets(0.001, 2, 15)
	perFamily := func(name, help string) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: "kubeproxy", Name: name, Help: help,
			Buckets: durations}, []string{ipFamily})
		m.registry.MustRegister(h)
		return h
	}
	m.sync = perFamily("sync_proxy_rules_duration_seconds", "SyncProxyRules latency in seconds")
	m.fullSync = perFamily("sync_full_proxy_rules_duration_seconds",
		"SyncProxyRules latency in seconds for full resyncs")
	m.partialSync = perFamily("sync_partial_proxy_rules_duration_seconds",
		"SyncProxyRules latency in seconds for partial resyncs")
	m.conntrack = perFamily("conntrack_reconciler_sync_duration_seconds",
		"ReconcileConntrackFlowsLatency latency in seconds")
	histogram := func(namespace, name, help string, buckets []float64) prometheus.Histogram {
		h := prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help,
			Buckets: buckets})
		m.registry.MustRegister(h)
		return h
	}
	m.programming = prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: "kubeproxy",
		Name: "network_programming_duration_seconds",
		Help: "In Cluster Network Programming Latency in seconds", Buckets: programmingBuckets()}, []string{ipFamily})
	m.registry.MustRegister(m.programming)
	m.sliceToRules = histogram("gantry_proxy", "change_to_rule_seconds",
		"Time from hearing of a change of a Service or its endpoints to the rule in the kernel", durations)
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "kubeproxy", Name: name, Help: help}, labels)
		m.registry.MustRegister(g)
		return g
	}
	m.lastTimestamp = gauge("sync_proxy_rules_last_timestamp_seconds",
		"The last time proxy rules were successfully synced", ipFamily)
	m.queued = gauge("sync_proxy_rules_last_queued_timestamp_seconds", "The last time a sync of proxy rules was queued",
		ipFamily)
	m.noLocalEndpoints = gauge("sync_proxy_rules_no_local_endpoints_total",
		"Number of services with a Local traffic policy and no endpoints", ipFamily, "traffic_policy")
	counter := func(namespace, name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
		m.registry.MustRegister(c)
		return c
	}
	m.endpointChanges = counter("kubeproxy", "sync_proxy_rules_endpoint_changes_total",
		"Cumulative proxy rules Endpoint changes").WithLabelValues()
	m.serviceChanges = counter("kubeproxy", "sync_proxy_rules_service_changes_total",
		"Cumulative proxy rules Service changes").WithLabelValues()
	m.failures = counter("kubeproxy", "sync_proxy_rules_nftables_sync_failures_total",
		"Cumulative proxy nftables sync failures", ipFamily)
	m.staleConntrack = counter("kubeproxy", "conntrack_reconciler_deleted_entries_total",
		"Cumulative conntrack flows deleted by conntrack reconciler", ipFamily)
	m.transactions = counter("gantry_proxy", "transactions_total",
		"Transactions in the kernel, by whether they went by netlink or by the program nft", ipFamily, "by")
	m.healthz = counter("kubeproxy", "proxy_healthz_total", "Cumulative proxy healthz HTTP status", "code")
	m.livez = counter("kubeproxy", "proxy_livez_total", "Cumulative proxy livez HTTP status", "code")
	return m
}

// programmingBuckets returns upstream's buckets with finer ones below 1 s, in seconds.
func programmingBuckets() []float64 {
	out := []float64{0.01, 0.025, 0.05, 0.1, 0.25, 0.5}
	out = append(out, prometheus.LinearBuckets(1, 1, 59)...)
	out = append(out, prometheus.LinearBuckets(60, 5, 12)...)
	return append(out, prometheus.LinearBuckets(120, 30, 7)...)
}

// registerPending registers gauges of changes that are not yet in the kernel.
func (m *proxyMetrics) registerPending(changes *changeTracker) {
	for name, kind := range map[string]int{"service": services, "endpoint": endpointSlices} {
		help := "Pending proxy rules " + map[string]string{"service": "Service", "endpoint": "Endpoint"}[name] +
			" changes"
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "kubeproxy",
			Name: "sync_proxy_rules_" + name + "_changes_pending", Help: help},
			func() float64 { return float64(changes.pendingCount(kind)) }))
	}
}

// familyLabel returns upstream's label value for f.
func familyLabel(f rules.Family) string {
	if f == rules.IPv4 {
		return "IPv4"
	}
	return "IPv6"
}

func (m *proxyMetrics) observeSync(f rules.Family, took time.Duration, full bool) {
	name := familyLabel(f)
	m.sync.WithLabelValues(name).Observe(took.Seconds())
	if full {
		m.fullSync.WithLabelValues(name).Observe(took.Seconds())
	} else {
		m.partialSync.WithLabelValues(name).Observe(took.Seconds())
	}
}

// serveHTTP serves the health and metrics listeners in the background until stop is called.
func (p *Proxier) serveHTTP(ctx context.Context) (stop func()) {
	healthz, metrics := http.NewServeMux(), http.NewServeMux()
	healthz.HandleFunc("/healthz", p.health.healthz)
	healthz.HandleFunc("/livez", p.health.livez)
	metrics.Handle("/metrics", promhttp.HandlerFor(p.metrics.registry, promhttp.HandlerOpts{}))
	// As kube-proxy's: liveness of the server. The health port says whether rules are up to date.
	healthchecks.InstallHandler(metrics)
	slis.SLIMetricsWithReset{}.Install(metrics)
	metrics.HandleFunc("/proxyMode",
		func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("nftables")) })
	if p.o.Profiling {
		metrics.HandleFunc("/debug/pprof/", pprof.Index)
		metrics.HandleFunc("/debug/pprof/profile", pprof.Profile)
		metrics.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		metrics.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	var servers []*http.Server
	for _, s := range []struct {
		l net.Listener
		h http.Handler
	}{{p.o.Healthz, healthz}, {p.o.Metrics, metrics}} {
		if s.l == nil {
			continue
		}
		srv := &http.Server{Handler: s.h, ReadHeaderTimeout: 10 * time.Second}
		servers = append(servers, srv)
		go func() {
			if err := srv.Serve(s.l); !errors.Is(err, http.ErrServerClosed) {
				klog.FromContext(ctx).Error(err, "The proxy's health and metrics are no longer served",
					"address", s.l.Addr())
			}
		}()
	}
	return func() {
		for _, s := range servers {
			_ = s.Close()
		}
	}
}
