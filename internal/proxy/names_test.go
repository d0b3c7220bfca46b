package proxy

import (
	_ "embed"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gantry-project/gantry/test/metriclist"
)

//go:embed testdata/metrics-v1.37.2.txt
var upstreamMetrics string

var described = regexp.MustCompile(`fqName: "([^"]+)".*variableLabels: \{([^}]*)\}`)

// Metrics have the names and labels of kube-proxy v1.37.2, except those that the metrics page lists
// as not served.
//
// row: NET-12
func TestMetricsAreNamedAsUpstreams(t *testing.T) {
	m := newMetrics()
	m.registerPending(&changeTracker{})
	to := make(chan *prometheus.Desc)
	go func() { m.registry.Describe(to); close(to) }()
	got := map[string]string{}
	for d := range to {
		f := described.FindStringSubmatch(d.String())
		labels := strings.FieldsFunc(strings.NewReplacer("c(", "", ")", "").Replace(f[2]),
			func(r rune) bool { return r == ',' })
		slices.Sort(labels)
		got[f[1]] = strings.Join(labels, " ")
	}
	for line := range strings.Lines(upstreamMetrics) {
		f := strings.Fields(line)
		switch {
		case f[0] == "#":
		case f[0] == "-":
			if _, served := got[f[2]]; served {
				t.Errorf("%s is served: take the - away", f[2])
			}
		default:
			if labels, served := got[f[1]]; !served || labels != strings.Join(f[2:], " ") {
				t.Errorf("%s is served: %t, with labels %q, want %q", f[1], served, labels, strings.Join(f[2:], " "))
			}
		}
	}
}

// The metrics page lists what the proxy serves.
func TestMetricsAreListed(t *testing.T) {
	m := newMetrics()
	m.registerPending(&changeTracker{})
	metriclist.Check(t, "proxy", true, metriclist.Registered(t, m.registry))
}
