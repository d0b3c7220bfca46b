package services

import (
	mathbits "math/bits"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// Values of the label "scope" of an allocation, upstream's.
const (
	scopeStatic  = "static"  // the Service asks for this address or port
	scopeDynamic = "dynamic" // any free one
)

// The allocators' metrics, under upstream's names. They are global: several servers in one
// process share them.
var (
	ipsAllocated = metrics.NewGaugeVec(&metrics.GaugeOpts{Namespace: "kube_apiserver", Subsystem: "clusterip_allocator",
		Name: "allocated_ips",
		Help: "Gauge measuring the number of allocated IPs for Services", StabilityLevel: metrics.ALPHA},
		[]string{"cidr"})
	ipsAvailable = metrics.NewGaugeVec(&metrics.GaugeOpts{Namespace: "kube_apiserver", Subsystem: "clusterip_allocator",
		Name: "available_ips",
		Help: "Gauge measuring the number of available IPs for Services", StabilityLevel: metrics.ALPHA},
		[]string{"cidr"})
	ipAllocations = metrics.NewCounterVec(&metrics.CounterOpts{Namespace: "kube_apiserver",
		Subsystem: "clusterip_allocator", Name: "allocation_total",
		Help: "Number of Cluster IPs allocations", StabilityLevel: metrics.ALPHA}, []string{"cidr", "scope"})
	ipErrors = metrics.NewCounterVec(&metrics.CounterOpts{Namespace: "kube_apiserver", Subsystem: "clusterip_allocator",
		Name: "allocation_errors_total",
		Help: "Number of errors trying to allocate Cluster IPs", StabilityLevel: metrics.ALPHA},
		[]string{"cidr", "scope"})
	ipLatency = metrics.NewHistogramVec(&metrics.HistogramOpts{Namespace: "kube_apiserver",
		Subsystem: "clusterip_allocator", Name: "allocation_duration_seconds",
		Help: "Duration in seconds to allocate a Cluster IP by ServiceCIDR", Buckets: metrics.DefBuckets,
		StabilityLevel: metrics.ALPHA}, []string{"cidr"})
	portsAllocated = metrics.NewGauge(&metrics.GaugeOpts{Namespace: "kube_apiserver", Subsystem: "nodeport_allocator",
		Name: "allocated_ports",
		Help: "Gauge measuring the number of allocated NodePorts for Services", StabilityLevel: metrics.ALPHA})
	portsAvailable = metrics.NewGauge(&metrics.GaugeOpts{Namespace: "kube_apiserver", Subsystem: "nodeport_allocator",
		Name: "available_ports",
		Help: "Gauge measuring the number of available NodePorts for Services", StabilityLevel: metrics.ALPHA})
	portAllocations = metrics.NewCounterVec(&metrics.CounterOpts{Namespace: "kube_apiserver",
		Subsystem: "nodeport_allocator", Name: "allocation_total",
		Help: "Number of NodePort allocations", StabilityLevel: metrics.ALPHA}, []string{"scope"})
	portErrors = metrics.NewCounterVec(&metrics.CounterOpts{Namespace: "kube_apiserver",
		Subsystem: "nodeport_allocator", Name: "allocation_errors_total",
		Help: "Number of errors trying to allocate NodePort", StabilityLevel: metrics.ALPHA}, []string{"scope"})
)

// The repair controllers' metrics, under upstream's names.
var (
	repairIPErrors = metrics.NewCounterVec(&metrics.CounterOpts{Namespace: "apiserver", Subsystem: "clusterip_repair",
		Name: "ip_errors_total",
		Help: "Number of errors detected on clusterips by the repair loop broken down by type of error: leak, " +
			"repair, full, outOfRange, duplicate, unknown, invalid",
		StabilityLevel: metrics.ALPHA}, []string{"type"})
	repairPortErrors = metrics.NewCounterVec(&metrics.CounterOpts{Namespace: "apiserver", Subsystem: "nodeport_repair",
		Name: "port_errors_total",
		Help: "Number of errors detected on ports by the repair loop broken down by type of error: leak, repair, " +
			"full, outOfRange, duplicate, unknown",
		StabilityLevel: metrics.ALPHA}, []string{"type"})
	repairIPFailures = metrics.NewCounter(&metrics.CounterOpts{Namespace: "apiserver", Subsystem: "clusterip_repair",
		Name:           "reconcile_errors_total",
		Help:           "Number of reconciliation failures on the clusterip repair reconcile loop",
		StabilityLevel: metrics.ALPHA})
	repairPortFailures = metrics.NewCounter(&metrics.CounterOpts{Namespace: "apiserver", Subsystem: "nodeport_repair",
		Name: "reconcile_errors_total",
		Help: "Number of reconciliation failures on the nodeport repair reconcile loop", StabilityLevel: metrics.ALPHA})
)

// findingTypes maps the reason of a repair's event to the label value of the metric.
var findingTypes = map[string]string{
	"ClusterIPNotValid": "invalid", "ClusterIPOutOfRange": "outOfRange", "ClusterIPNotAllocated": "repair",
	"ClusterIPAlreadyAllocated": "duplicate",
	"IPAddressNotAllocated":     "leak", "IPAddressWrongReference": "repair",
	"PortOutOfRange": "outOfRange", "PortNotAllocated": "repair", "PortAlreadyAllocated": "duplicate",
}

// CountIPRepair counts the findings of a repair of cluster IPs, or its failure.
func CountIPRepair(found []Finding, err error) {
	countRepair(repairIPErrors, repairIPFailures, found, err)
}

// CountPortRepair counts the findings of a repair of node ports, or its failure.
func CountPortRepair(found []Finding, err error) {
	countRepair(repairPortErrors, repairPortFailures, found, err)
}

func countRepair(errors *metrics.CounterVec, failures *metrics.Counter, found []Finding, err error) {
	for _, f := range found {
		kind := findingTypes[f.Reason]
		if kind == "" {
			kind = "unknown"
		}
		errors.WithLabelValues(kind).Inc()
	}
	if err != nil {
		failures.Inc()
	}
}

func init() {
	legacyregistry.MustRegister(repairIPErrors, repairPortErrors, repairIPFailures, repairPortFailures)
	legacyregistry.MustRegister(ipsAllocated, ipsAvailable, ipAllocations, ipErrors, ipLatency, portsAllocated,
		portsAvailable, portAllocations, portErrors)
}

// attempt is one address or port that a write tried to allocate; those of dry runs are not counted.
type attempt struct {
	port   bool   // else an address
	cidr   string // of an address
	scope  string
	failed bool
	took   time.Duration
}

// recordIP adds an attempt at an address.
func (t *allocationTransaction) recordIP(cidr, scope string, started time.Time, err error) {
	t.attempts = append(t.attempts, attempt{cidr: cidr, scope: scope, failed: err != nil, took: time.Since(started)})
}

// recordPort adds an attempt at a node port.
func (t *allocationTransaction) recordPort(scope string, err error) {
	t.attempts = append(t.attempts, attempt{port: true, scope: scope, failed: err != nil})
}

// countAttempts updates the metrics with the transaction's attempts.
func (t *allocationTransaction) countAttempts() {
	for _, a := range t.attempts {
		switch {
		case a.port && a.failed:
			portErrors.WithLabelValues(a.scope).Inc()
		case a.port:
			portAllocations.WithLabelValues(a.scope).Inc()
		case a.failed:
			ipErrors.WithLabelValues(a.cidr, a.scope).Inc()
		default:
			ipAllocations.WithLabelValues(a.cidr, a.scope).Inc()
			ipLatency.WithLabelValues(a.cidr).Observe(a.took.Seconds())
		}
	}
}

// updateMetrics sets the numbers of allocated and available addresses and ports. a.mu is held.
func (a *Allocator) updateMetrics() {
	for _, p := range a.pools {
		cidr := p.prefix.String()
		if p.closed {
			ipsAllocated.DeleteLabelValues(cidr)
			ipsAvailable.DeleteLabelValues(cidr)
			continue
		}
		n := p.allocated.count()
		ipsAllocated.WithLabelValues(cidr).Set(float64(n))
		ipsAvailable.WithLabelValues(cidr).Set(float64(p.size - n))
	}
	n := a.ports.allocated.count()
	portsAllocated.Set(float64(n))
	portsAvailable.Set(float64(a.ports.high - a.ports.low + 1 - n))
}

// count returns the number of bits that are set.
func (b bitmap) count() (n int) {
	for _, w := range b {
		n += mathbits.OnesCount64(w)
	}
	return n
}
