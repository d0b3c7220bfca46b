package apiserver

import (
	_ "embed"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/component-base/metrics/legacyregistry"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // as the program has them
	_ "k8s.io/component-base/metrics/prometheus/version"

	"github.com/gantry-project/gantry/test/metriclist"
)

//go:embed testdata/metrics-v1.37.2.txt
var upstreamMetrics string

// metricDesc reads a description, which offers no other access to its name and labels.
var metricDesc = regexp.MustCompile(`fqName: "([^"]+)".*variableLabels: \{([^}]*)\}`)

// registeredMetrics are the labels of every family that a registry may show, by name.
func registeredMetrics(t *testing.T, r prometheus.Collector) map[string]string {
	t.Helper()
	to := make(chan *prometheus.Desc)
	go func() { r.Describe(to); close(to) }()
	out := map[string]string{}
	for d := range to {
		m := metricDesc.FindStringSubmatch(d.String())
		if m == nil {
			t.Fatalf("a description that cannot be read: %s", d)
		}
		labels := strings.FieldsFunc(strings.NewReplacer("c(", "", ")", "").Replace(m[2]),
			func(r rune) bool { return r == ',' })
		slices.Sort(labels)
		out[m[1]] = strings.Join(labels, " ")
	}
	return out
}

// joined begin the names of what parts count that the program joins with the server:
// authentication, authorization, Pod Security.
var joined = []string{"authentication_token_cache_", "apiserver_authorization_decisions_",
	"apiserver_client_certificate_", "pod_security_", "serviceaccount_"}

// The server registers the metrics that kube-apiserver v1.37.2 does, with the same labels, but for
// those that the page of metrics says are not served.
//
// row: OPS-11
func TestMetricsOfTheServerAreNamedAsUpstreams(t *testing.T) {
	shared(t)
	r, ok := legacyregistry.Registerer().(prometheus.Collector)
	if !ok {
		t.Fatalf("the registry is a %T", legacyregistry.Registerer())
	}
	got := registeredMetrics(t, r)
	for line := range strings.Lines(upstreamMetrics) {
		f := strings.Fields(line)
		switch {
		case f[0] == "#", f[0] == "-",
			slices.ContainsFunc(joined, func(p string) bool { return strings.HasPrefix(f[1], p) }):
		default:
			if labels, served := got[f[1]]; !served || labels != strings.Join(f[2:], " ") && !slices.Contains(f[2:],
				"?") {
				t.Errorf("%s is served: %t, with labels %q, want %q", f[1], served, labels, strings.Join(f[2:], " "))
			}
		}
	}
}

// The list of the page of metrics is what the server registers, with the families of the embedded
// etcd.
func TestMetricsOfTheServerAreListed(t *testing.T) {
	// the last server that starts in the process is asked for the size of its store: it must be
	// running
	startServer(t, testConfig(t.TempDir()))
	shared(t)
	r, ok := legacyregistry.Registerer().(*prometheus.Registry)
	if !ok {
		t.Fatalf("got a registry of type %T, want *prometheus.Registry", legacyregistry.Registerer())
	}
	etcd, ok := prometheus.DefaultRegisterer.(*prometheus.Registry)
	if !ok {
		t.Fatalf("got a registry of type %T, want *prometheus.Registry", prometheus.DefaultRegisterer)
	}
	metriclist.Check(t, "apiserver", false, metriclist.Registered(t, r),
		metriclist.Named(metriclist.Registered(t, etcd),
			"etcd_server_", "etcd_disk_", "etcd_mvcc_", "etcd_debugging_", "etcd_network_", "etcd_cluster_",
			"etcd_grpc_"))
}
