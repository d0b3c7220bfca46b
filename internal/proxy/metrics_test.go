package proxy

import (
	"slices"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/knftables"

	"github.com/gantry-project/gantry/internal/proxy/nftables"
	"github.com/gantry-project/gantry/internal/proxy/rules"
)

// All metrics that upstream documents for the nftables proxy (KEP-3866) exist.
// row: NET-12
func TestFiguresHaveUpstreamsNames(t *testing.T) {
	s := rules.Settings{Family: rules.IPv4, MasqueradeBit: 14}
	table := Table{Settings: s, Kernel: nftables.NewWithInterface(knftables.NewFake(knftables.IPv4Family, "t"),
		rules.NewTableFrame(s))}
	p, err := New(Options{Client: fake.NewClientset(), Node: "n1", Tables: []Table{table}})
	if err != nil {
		t.Fatal(err)
	}
	p.onServiceChange(services, "default/web", time.Time{})
	p.onServiceChange(endpointSlices, "default/web", time.Now())
	if err := p.watch(t.Context()); err != nil {
		t.Fatal(err)
	}
	if waiting := p.changes.pendingCount(endpointSlices); waiting != 1 {
		t.Errorf("%d changes of endpoints wait, want 1", waiting)
	}
	p.needFullSync = true
	if p.syncProxyRules(t.Context(), false) {
		t.Fatal("the look failed")
	}
	if waiting := p.changes.pendingCount(services) + p.changes.pendingCount(endpointSlices); waiting != 0 {
		t.Errorf("%d changes wait after the look, want 0", waiting)
	}
	p.countNoLocal(0, []rules.ServicePort{{InternalLocal: true, AnyEndpoint: true}}, 1)
	p.metrics.failures.WithLabelValues("IPv4")
	p.observeNetworkProgramming([][]rules.ServicePort{{{}}}, nil, time.Second)
	p.metrics.staleConntrack.WithLabelValues("IPv4")
	p.metrics.conntrack.WithLabelValues("IPv4")
	p.metrics.partialSync.WithLabelValues("IPv4")
	p.metrics.healthz.WithLabelValues("200")
	p.metrics.livez.WithLabelValues("200")
	families, err := p.metrics.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range families {
		names = append(names, f.GetName())
	}
	for _, want := range []string{
		"conntrack_reconciler_deleted_entries_total", "conntrack_reconciler_sync_duration_seconds",
		"network_programming_duration_seconds", "proxy_healthz_total", "proxy_livez_total",
		"sync_full_proxy_rules_duration_seconds", "sync_partial_proxy_rules_duration_seconds",
		"sync_proxy_rules_duration_seconds",
		"sync_proxy_rules_endpoint_changes_pending", "sync_proxy_rules_endpoint_changes_total",
		"sync_proxy_rules_service_changes_pending", "sync_proxy_rules_service_changes_total",
		"sync_proxy_rules_last_queued_timestamp_seconds", "sync_proxy_rules_last_timestamp_seconds",
		"sync_proxy_rules_nftables_sync_failures_total", "sync_proxy_rules_no_local_endpoints_total",
	} {
		if !slices.Contains(names, "kubeproxy_"+want) {
			t.Errorf("no kubeproxy_%s among %q", want, names)
		}
	}
}
