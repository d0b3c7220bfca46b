package services

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-base/metrics/legacyregistry"
)

// metricValues are the samples of the allocators' families by name and labels.
func metricValues(t *testing.T) map[string]float64 {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			out[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return out
}

// Allocations, refusals and what is left of each range are counted under upstream's names; a dry
// run is not.
//
// row: OPS-11
func TestAllocationsAreCounted(t *testing.T) {
	const cidr = "10.211.0.0/28"
	a, err := New([]netip.Prefix{netip.MustParsePrefix(cidr)}, 30000, 30001,
		func(context.Context) ([]v1.Service, error) { return nil, nil })
	if err != nil {
		t.Fatal(err)
	}
	before := metricValues(t)
	service := func(s v1.ServiceSpec) *v1.Service {
		s.Ports = []v1.ServicePort{{Port: 80, Protocol: v1.ProtocolTCP}}
		out := &v1.Service{Spec: s}
		Default(out)
		return out
	}
	try := func(s *v1.Service, dryRun bool) func(bool) {
		t.Helper()
		finish, err := a.begin(t.Context(), s, nil, dryRun)
		if err != nil {
			return nil
		}
		return finish
	}
	try(service(v1.ServiceSpec{Type: v1.ServiceTypeNodePort}), true)(true)
	remaining := service(v1.ServiceSpec{Type: v1.ServiceTypeNodePort})
	try(remaining, false)(true)
	free := "10.211.0.3"
	if free == remaining.Spec.ClusterIP {
		free = "10.211.0.4"
	}
	try(service(v1.ServiceSpec{Type: v1.ServiceTypeClusterIP, ClusterIP: free,
		ClusterIPs: []string{free}}), false)(true)
	for range 2 {
		if ip := remaining.Spec.ClusterIP; try(service(v1.ServiceSpec{Type: v1.ServiceTypeClusterIP, ClusterIP: ip,
			ClusterIPs: []string{ip}}), false) != nil {
			t.Error("an address was given twice")
		}
	}
	after := metricValues(t)
	for name, want := range map[string]float64{
		"kube_apiserver_clusterip_allocator_allocation_total " + cidr + " dynamic":       1,
		"kube_apiserver_clusterip_allocator_allocation_total " + cidr + " static":        1,
		"kube_apiserver_clusterip_allocator_allocation_errors_total " + cidr + " static": 2,
		"kube_apiserver_clusterip_allocator_allocation_duration_seconds " + cidr:         2,
		"kube_apiserver_nodeport_allocator_allocation_total dynamic":                     1,
	} {
		if got := after[name] - before[name]; got != want {
			t.Errorf("%s grew by %v, want %v", name, got, want)
		}
	}
	a.releaseAll(remaining)
	now := metricValues(t)
	for name, want := range map[string]float64{
		"kube_apiserver_clusterip_allocator_allocated_ips " + cidr: 1,
		"kube_apiserver_clusterip_allocator_available_ips " + cidr: 13,
		"kube_apiserver_nodeport_allocator_allocated_ports":        0,
		"kube_apiserver_nodeport_allocator_available_ports":        2,
	} {
		if now[name] != want {
			t.Errorf("%s is %v, want %v", name, now[name], want)
		}
	}
}

// What a repair finds is counted by upstream's types, every reason that it can give.
func TestRepairsAreCounted(t *testing.T) {
	before := metricValues(t)
	CountIPRepair([]Finding{{Reason: "ClusterIPNotAllocated"}, {Reason: "IPAddressNotAllocated"},
		{Reason: "of tomorrow"}}, nil)
	CountIPRepair(nil, errFull)
	CountPortRepair([]Finding{{Reason: "PortAlreadyAllocated"}}, errFull)
	after := metricValues(t)
	for _, name := range []string{
		"apiserver_clusterip_repair_ip_errors_total repair", "apiserver_clusterip_repair_ip_errors_total leak",
		"apiserver_clusterip_repair_ip_errors_total unknown",
		"apiserver_clusterip_repair_reconcile_errors_total", "apiserver_nodeport_repair_port_errors_total duplicate",
		"apiserver_nodeport_repair_reconcile_errors_total",
	} {
		if got := after[name] - before[name]; got != 1 {
			t.Errorf("%s grew by %v, want 1", name, got)
		}
	}
}

// The families' names, texts, types and labels are upstream's: dashboards and alerts go by them.
func TestFamiliesOfTheAllocators(t *testing.T) {
	a := families(t, "10.212.0.0/28")
	for range 3 {
		if err := create(a, service(nodePort)); err != nil {
			t.Fatal(err)
		}
	}
	for _, ip := range []string{"10.212.0.1", "10.9.0.1"} {
		_ = create(a, service(func(s *v1.Service) { s.Spec.ClusterIP = ip }))
	}
	_ = create(a, service(nodePort, func(s *v1.Service) { s.Spec.Ports[0].NodePort = 1 }))
	CountIPRepair([]Finding{{Reason: "ClusterIPNotValid"}}, nil)
	CountPortRepair([]Finding{{Reason: "PortOutOfRange"}}, nil)
	all, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range all {
		if name := f.GetName(); strings.Contains(name, "clusterip_") || strings.Contains(name, "nodeport_") {
			var labels []string
			for _, l := range f.GetMetric()[0].GetLabel() {
				labels = append(labels, l.GetName())
			}
			got = append(got, strings.TrimSpace(fmt.Sprintf("%s %s %s: %s", f.GetType(), name, labels, f.GetHelp())))
		}
	}
	const alpha = "[ALPHA] "
	want := []string{
		"COUNTER apiserver_clusterip_repair_ip_errors_total [type]: " + alpha +
			"Number of errors detected on clusterips " +
			"by the repair loop broken down by type of error: leak, repair, full, outOfRange, duplicate, unknown, " +
			"invalid",
		"COUNTER apiserver_clusterip_repair_reconcile_errors_total []: " + alpha +
			"Number of reconciliation failures on " +
			"the clusterip repair reconcile loop",
		"COUNTER apiserver_nodeport_repair_port_errors_total [type]: " + alpha +
			"Number of errors detected on ports by " +
			"the repair loop broken down by type of error: leak, repair, full, outOfRange, duplicate, unknown",
		"COUNTER apiserver_nodeport_repair_reconcile_errors_total []: " + alpha +
			"Number of reconciliation failures on " +
			"the nodeport repair reconcile loop",
		"GAUGE kube_apiserver_clusterip_allocator_allocated_ips [cidr]: " + alpha + "Gauge measuring the number of " +
			"allocated IPs for Services",
		"HISTOGRAM kube_apiserver_clusterip_allocator_allocation_duration_seconds [cidr]: " + alpha + "Duration in " +
			"seconds to allocate a Cluster IP by ServiceCIDR",
		"COUNTER kube_apiserver_clusterip_allocator_allocation_errors_total [cidr scope]: " + alpha +
			"Number of errors trying to allocate Cluster IPs",
		"COUNTER kube_apiserver_clusterip_allocator_allocation_total [cidr scope]: " + alpha +
			"Number of Cluster IPs allocations",
		"GAUGE kube_apiserver_clusterip_allocator_available_ips [cidr]: " + alpha + "Gauge measuring the number of " +
			"available IPs for Services",
		"GAUGE kube_apiserver_nodeport_allocator_allocated_ports []: " + alpha +
			"Gauge measuring the number of allocated " +
			"NodePorts for Services",
		"COUNTER kube_apiserver_nodeport_allocator_allocation_errors_total [scope]: " + alpha +
			"Number of errors trying to allocate NodePort",
		"COUNTER kube_apiserver_nodeport_allocator_allocation_total [scope]: " + alpha +
			"Number of NodePort allocations",
		"GAUGE kube_apiserver_nodeport_allocator_available_ports []: " + alpha +
			"Gauge measuring the number of available " +
			"NodePorts for Services",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Each reason of a finding counts as one of upstream's types, and a range that is closed has no
// numbers any more.
func TestTypesOfFindingsAndClosedRanges(t *testing.T) {
	for reason, want := range map[string]string{"ClusterIPNotValid": "ip invalid",
		"ClusterIPOutOfRange":   "ip outOfRange",
		"ClusterIPNotAllocated": "ip repair", "ClusterIPAlreadyAllocated": "ip duplicate",
		"IPAddressNotAllocated":   "ip leak",
		"IPAddressWrongReference": "ip repair", "PortOutOfRange": "port outOfRange", "PortNotAllocated": "port repair",
		"PortAlreadyAllocated": "port duplicate", "?": "port unknown"} {
		about, kind, _ := strings.Cut(want, " ")
		name := "apiserver_clusterip_repair_ip_errors_total " + kind
		before := metricValues(t)
		if about == "port" {
			name = "apiserver_nodeport_repair_port_errors_total " + kind
			CountPortRepair([]Finding{{Reason: reason}}, nil)
		} else {
			CountIPRepair([]Finding{{Reason: reason}}, nil)
		}
		if got := metricValues(t)[name] - before[name]; got != 1 {
			t.Errorf("%s: %s grew by %v, want 1", reason, name, got)
		}
	}
	a := families(t, "10.213.0.0/28")
	a.pools = append(a.pools, newIPPool(netip.MustParsePrefix("10.214.0.0/28"), a.pick))
	const gauge = "kube_apiserver_clusterip_allocator_available_ips 10.214.0.0/28"
	for _, closed := range []bool{false, true} {
		a.pools[1].closed = closed
		a.updateMetrics()
		if _, there := metricValues(t)[gauge]; there == closed {
			t.Errorf("closed %v: the range has numbers: %v, want %v", closed, there, !closed)
		}
	}
}
