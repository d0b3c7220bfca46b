package proxy

import (
	"slices"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/knftables"

	"github.com/gantry-project/gantry/internal/proxy/kernel"
	"github.com/gantry-project/gantry/internal/proxy/rules"
)

// The figures that upstream's documents name for a proxy by nftables (KEP-3866) are all there.
// row: NET-12
func TestFiguresHaveUpstreamsNames(t *testing.T) {
	s := rules.Settings{Family: rules.IPv4, MasqueradeBit: 14}
	table := Table{Settings: s, Kernel: kernel.With(knftables.NewFake(knftables.IPv4Family, "t"), rules.Table(s))}
	p, err := New(Options{Client: fake.NewClientset(), Node: "n1", Tables: []Table{table}})
	if err != nil {
		t.Fatal(err)
	}
	p.tell(services, "default/web", time.Time{})
	p.tell(endpointSlices, "default/web", time.Now())
	if err := p.watch(t.Context()); err != nil {
		t.Fatal(err)
	}
	if waiting := p.mail.pending(endpointSlices); waiting != 1 {
		t.Errorf("%d changes of endpoints wait, want 1", waiting)
	}
	p.drift = true
	if p.look(t.Context(), false) {
		t.Fatal("the look failed")
	}
	if waiting := p.mail.pending(services) + p.mail.pending(endpointSlices); waiting != 0 {
		t.Errorf("%d changes wait after the look", waiting)
	}
	p.countNoLocal(0, []rules.Port{{InternalLocal: true, Any: true}}, 1)
	p.meter.failures.WithLabelValues("IPv4")
	p.programmed([][]rules.Port{{{}}}, nil, time.Second)
	p.meter.forgotten.WithLabelValues("IPv4")
	p.meter.conntrack.WithLabelValues("IPv4")
	p.meter.partSync.WithLabelValues("IPv4")
	p.meter.healthz.WithLabelValues("200")
	p.meter.livez.WithLabelValues("200")
	families, err := p.meter.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range families {
		names = append(names, f.GetName())
	}
	for _, want := range []string{
		"conntrack_reconciler_deleted_entries_total", "conntrack_reconciler_sync_duration_seconds", "network_programming_duration_seconds", "proxy_healthz_total", "proxy_livez_total",
		"sync_full_proxy_rules_duration_seconds", "sync_partial_proxy_rules_duration_seconds", "sync_proxy_rules_duration_seconds",
		"sync_proxy_rules_endpoint_changes_pending", "sync_proxy_rules_endpoint_changes_total", "sync_proxy_rules_service_changes_pending", "sync_proxy_rules_service_changes_total",
		"sync_proxy_rules_last_queued_timestamp_seconds", "sync_proxy_rules_last_timestamp_seconds", "sync_proxy_rules_nftables_sync_failures_total", "sync_proxy_rules_no_local_endpoints_total",
	} {
		if !slices.Contains(names, "kubeproxy_"+want) {
			t.Errorf("no kubeproxy_%s among %q", want, names)
		}
	}
}
