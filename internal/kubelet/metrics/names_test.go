package metrics

import (
	"context"
	_ "embed"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/test/metriclist"
)

//go:embed testdata/metrics-v1.37.2.txt
var upstream string

var described = regexp.MustCompile(`fqName: "([^"]+)".*variableLabels: \{([^}]*)\}`)

// named are the labels of every family that the kubelet may show: those it counts, and those that
// are true now.
func named(t *testing.T, m *Metrics) map[string]string {
	t.Helper()
	out := map[string]string{}
	put := func(name string, labels []string) {
		slices.Sort(labels)
		out[name] = strings.Join(labels, " ")
	}
	for _, r := range []*prometheus.Registry{m.registry, m.probes} {
		to := make(chan *prometheus.Desc)
		go func() { r.Describe(to); close(to) }()
		for d := range to {
			f := described.FindStringSubmatch(d.String())
			put(f[1], strings.FieldsFunc(strings.NewReplacer("c(", "", ")", "").Replace(f[2]),
				func(r rune) bool { return r == ',' }))
		}
		families, err := r.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			put(f.GetName(), labelNames(f.GetMetric()[0]))
		}
	}
	return out
}

func labelNames(m *dto.Metric) (out []string) {
	for _, l := range m.GetLabel() {
		out = append(out, l.GetName())
	}
	return out
}

// The families are named and labelled as those of kubelet v1.37.2, but for those that the page of
// metrics says are not served; and none of those. The certificates' counters are where certificates
// are asked for (package certs).
//
// row: OPS-11
func TestMetricsAreNamedAsUpstreams(t *testing.T) {
	m := attached()
	got := named(t, m)
	elsewhere := []string{"kubelet_certificate_manager_server_rotation_seconds",
		"kubelet_certificate_manager_client_expiration_renew_errors", "kubelet_server_expiration_renew_errors"}
	for line := range strings.Lines(upstream) {
		f := strings.Fields(line)
		switch {
		case f[0] == "#" || slices.Contains(elsewhere, f[1]):
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

// attached are the metrics of a kubelet whose node has all that they measure.
func attached() *Metrics {
	m := New()
	now := func() time.Time { return time.Now() }
	m.Attach(Sources{
		NodeName: "n1", Version: "v1.37.2", Cgroups: 2, MissedEvents: func() int64 { return 0 },
		Expiry: func() map[string]time.Time { return map[string]time.Time{"server": now(), "client": now()} },
		Pods: func() []*v1.Pod {
			return []*v1.Pod{{Spec: v1.PodSpec{Volumes: []v1.Volume{{}}},
				Status: v1.PodStatus{
					Conditions: []v1.PodCondition{{Type: v1.PodResizePending, Status: v1.ConditionTrue}},
					ContainerStatuses: []v1.ContainerStatus{
						{State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}}}}}
		},
		Volumes: func(context.Context) []Volume { return []Volume{{Namespace: "a", Claim: "c"}} },
		Logs:    func(context.Context) []Log { return []Log{{}} },
		Plugins: func() map[string]bool { return map[string]bool{"/a.sock": true} },
		Claims:  func() (int, map[string]int) { return 1, map[string]int{"d": 1} },
	})
	return m
}

// The list of the page of metrics is what the kubelet serves at /metrics and /metrics/probes.
func TestMetricsAreListed(t *testing.T) {
	m := attached()
	metriclist.Check(t, "kubelet", true, metriclist.Registered(t, m.registry), metriclist.Gathered(t, m.registry),
		metriclist.Registered(t, m.probes))
}
